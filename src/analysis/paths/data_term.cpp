#include "analysis/paths/data_term.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <utility>

#include "analysis/paths/path_kernels.hpp"
#include "base/error.hpp"
#include "base/index.hpp"
#include "base/mpi.hpp"

namespace fluxformer::paths {

using Eigen::MatrixXd;
using Eigen::VectorXd;

LocalData::LocalData(const PathKernels& kernels, VectorXd targets)
    : kernels_(kernels), targets_(std::move(targets)) {
  if (targets_.size() != kernels_.examples())
    throw BadInput("attention paths: " + std::to_string(targets_.size()) + " targets, kernels of " +
                   std::to_string(kernels_.examples()) + " examples");
}

double LocalData::energy(const MatrixXd& u, double temperature) const {
  return kernel_energy(kernels_.kernel(u), targets_, temperature).value;
}

DataSlope LocalData::energy_and_slope(const MatrixXd& u, double temperature) const {
  const auto energy = kernel_energy_and_slope(kernels_.kernel(u), targets_, temperature);
  if (!std::isfinite(energy.value)) return {.value = energy.value};
  // dE/dU^{pi pi'} = sum_{mu nu} M_{mu nu} C_{pi pi'}(mu, nu)
  return {.value = energy.value, .slope = kernels_.contract(energy.slope)};
}

std::vector<Prediction> LocalData::predict(const MatrixXd& u, double temperature,
                                           const std::vector<const PathExamples*>& sets) const {
  const Predictor predictor(kernels_.kernel(u), targets_, temperature);
  std::vector<Prediction> all;
  all.reserve(sets.size());
  for (const auto* examples : sets)
    all.push_back(predictor(cross_kernel(examples->inputs, kernels_.inputs(), u, kernels_.input_variance()),
                            own_kernel(examples->inputs, u, kernels_.input_variance())));
  return all;
}

VectorXd LocalData::overlaps(const MatrixXd& u) const {
  return task_overlaps(kernels_.kernel(u), targets_);
}

namespace {

using Eigen::Map;
using Eigen::MatrixXd;
using Eigen::VectorXd;

/// Refuses shares that do not fit the examples, on every rank.
void require_fit(MPI_Comm comm, const PathExamples& examples, const ExampleShare& share, int paths) {
  const int rank = mpi::rank(comm), ranks = mpi::size(comm);
  const Index columns = examples.inputs.cols(), rows = share.count(examples.targets.size());
  agree(comm,
        share.rank == rank && share.ranks == ranks && share.block > 0 && paths > 0 && columns > 0 &&
            columns % paths == 0 && examples.inputs.rows() == rows,
        "attention paths: the inputs of rank " + std::to_string(rank) + ", " +
            std::to_string(examples.inputs.rows()) + " x " + std::to_string(columns) +
            ", are not its share of " + std::to_string(examples.targets.size()) + " examples and " +
            std::to_string(paths) + " paths");
}

}  // namespace

SharedData::SharedData(MPI_Comm comm, const PathExamples& examples, const ExampleShare& share, int paths,
                       double input_variance)
    : known_((require_fit(comm, examples, share, paths), examples)),
      share_(share),
      paths_(paths),
      scale_(kernel_scale(examples.inputs, input_variance)),
      comm_(comm),
      ranks_(comm) {
  collectively(comm, [&] {
    const Index all = SharedData::examples(), inputs = known_.inputs.cols();
    columns_.resize(all, known_.inputs.rows());
    work_.resize(std::max(known_.inputs.size(), all * paths_ * dimensions_each()));
    block_.resize(std::min<Index>(share_.block, all), inputs);
    u_.resize(paths_, paths_);
  });
}

// L^-1 acts on columns: the D input dimensions of all paths are dealt out to the ranks, the last ones with
// fewer.
int SharedData::dimensions_each() const {
  return (dimension() + share_.ranks - 1) / share_.ranks;
}

// Ranks that minimise together may differ by round-off: all take the first one's U.
const MatrixXd& SharedData::of_first(const MatrixXd& u) const {
  collectively(comm(), [&] { u_ = u; });
  check_mpi(MPI_Bcast(u_.data(), u_.size(), MPI_DOUBLE, 0, comm()));
  return u_;
}

template <class Use>
void SharedData::each_block(Use&& use) const {
  const int all = examples();
  RankFailure failure;
  for (int first = 0; first < all; first += share_.block) {
    const int rows = std::min(share_.block, all - first);
    auto here = block_.topRows(rows);
    // The rank that holds the block sends it to all.
    if (share_.holds(first)) here = known_.inputs.middleRows(share_.count(first), rows);
    check_mpi(MPI_Bcast(block_.data(), here.size(), MPI_DOUBLE, first / share_.block % share_.ranks, comm()));
    failure.attempt([&] { use(first, here); });
  }
  failure.share(comm());
}

// K = s_0^2/(D Hs) sum_pi (sum_pi' U^{pi pi'} xi^pi'_mu) . xi^pi_nu: rows mu come round in blocks, columns nu
// are held.
void SharedData::assemble(const MatrixXd& u, double temperature) const {
  Map<RowMatrix> mixed(work_.data(), known_.inputs.rows(), known_.inputs.cols());
  collectively(comm(), [&] { mix_paths(known_.inputs, u, mixed); });
  each_block([&](int first, const auto& rows) {
    // Only columns of examples that are not behind these: the others stand above the diagonal.
    const Index until = share_.count(first + rows.rows());
    columns_.block(first, 0, rows.rows(), until).noalias() =
        scale_ * (rows * mixed.topRows(until).transpose());
  });
  // A = K + T I: column j belongs to the example nu = share_.example(j), whose diagonal entry is in row nu.
  for (int j = 0; j < columns_.cols(); ++j) columns_(share_.example(j), j) += temperature;
}

Map<MatrixXd> SharedData::solved_inputs(const SharedCholesky& factor) const {
  const int each = dimensions_each(), begin = std::min(dimension(), share_.rank * each),
            count = std::min(dimension(), begin + each) - begin;
  Map<MatrixXd> solved(work_.data(), examples(), Index{count} * paths_);
  // Column d paths + pi holds the input dimension begin + d of path pi, of all examples mu in its rows.
  each_block([&](int first, const auto& rows) {
    for (Index d = 0; d < count; ++d)
      for (Index path = 0; path < paths_; ++path)
        solved.col(d * paths_ + path).segment(first, rows.rows()) = rows.col(path * dimension() + begin + d);
  });
  factor.solve_lower(solved, dimension() * paths_, each * paths_);
  return solved;
}

double SharedData::energy(const MatrixXd& u, double temperature) const {
  VectorXd targets;
  collectively(comm(), [&] { targets = known_.targets; });
  assemble(of_first(u), temperature);
  const SharedCholesky factor(ranks_, share_.block, columns_);
  if (!factor.positive()) return std::numeric_limits<double>::infinity();
  // E = ln det A + |L^-1 y|^2
  return factor.log_det() + factor.solve_lower(std::move(targets)).squaredNorm();
}

DataSlope SharedData::energy_and_slope(const MatrixXd& u, double temperature) const {
  VectorXd targets;
  MatrixXd slope;
  collectively(comm(), [&] {
    targets = known_.targets;
    slope = MatrixXd::Zero(paths_, paths_);
  });
  assemble(of_first(u), temperature);
  const SharedCholesky factor(ranks_, share_.block, columns_);
  if (!factor.positive()) return {.value = std::numeric_limits<double>::infinity()};
  // y~ = L^-1 y and Y = L^-1 X
  targets = factor.solve_lower(std::move(targets));
  const auto inputs = solved_inputs(factor);
  collectively(comm(), [&] {
    for (Index first = 0; first < inputs.cols(); first += paths_) {
      const auto here = inputs.middleCols(first, paths_);  // Y of one input dimension, all paths
      // tr Y_pi^T Y_pi' - (Y_pi^T y~).(Y_pi'^T y~), a sum over input dimensions that are spread over ranks
      const VectorXd along = here.transpose() * targets;
      slope.noalias() += here.transpose() * here;
      slope.noalias() -= along * along.transpose();
    }
  });
  sum_over_ranks({slope.data(), slope.data() + slope.size()}, comm());
  // The solved inputs lack the factor s_0/sqrt(D Hs) of Y. The sum is symmetric but for round-off, which the
  // mean with the transpose removes.
  return {.value = factor.log_det() + targets.squaredNorm(),
          .slope = scale_ / 2 * (slope + slope.transpose())};
}

Prediction SharedData::predict(const MatrixXd& u, const SharedCholesky& factor, const VectorXd& solved,
                               const PathExamples& others) const {
  const int all = others.targets.size();
  const Index held = others.inputs.rows();
  MatrixXd cross;
  RowMatrix mixed;
  Prediction prediction;
  collectively(comm(), [&] {
    cross.resize(examples(), held);
    mixed.resize(held, others.inputs.cols());
    prediction = {VectorXd::Zero(all), VectorXd::Zero(all)};
    mix_paths(others.inputs, u, mixed);
  });
  // k(mu, x) = s_0^2/(D Hs) sum_pi xi^pi_mu . (U xi)^pi(x): P x (examples x of this rank)
  each_block([&](int first, const auto& rows) {
    cross.middleRows(first, rows.rows()).noalias() = scale_ * (rows * mixed.transpose());
  });
  // Columns of L^-1 k for the other examples of this rank: mean (L^-1 k).y~, variance k(x, x) - |L^-1 k|^2
  factor.solve_lower(cross, all, share_.block);
  for (int row = 0; row < held; ++row) {
    const auto k = cross.col(row);
    prediction.mean[share_.example(row)] = k.dot(solved);
    prediction.variance[share_.example(row)] =
        scale_ * others.inputs.row(row).dot(mixed.row(row)) - k.squaredNorm();
  }
  for (auto* numbers : {&prediction.mean, &prediction.variance})
    sum_over_ranks({numbers->data(), numbers->data() + all}, comm());
  return prediction;
}

std::vector<Prediction> SharedData::predict(const MatrixXd& u, double temperature,
                                            const std::vector<const PathExamples*>& sets) const {
  VectorXd targets;
  std::vector<Prediction> all;
  collectively(comm(), [&] {
    targets = known_.targets;
    all.reserve(sets.size());
  });
  const auto& first = of_first(u);
  assemble(first, temperature);
  const SharedCholesky factor(ranks_, share_.block, columns_);
  if (!factor.positive()) throw not_positive();
  targets = factor.solve_lower(std::move(targets));
  for (const auto* one : sets) all.push_back(predict(first, factor, targets, *one));
  return all;
}

VectorXd SharedData::overlaps(const MatrixXd& u) const {
  // K alone: overlaps are those of its eigenvectors.
  assemble(of_first(u), 0);
  // |v_k . y|/sqrt(P), eigenvalues rising
  const VectorXd rising = eigenvector_products(ranks_, share_.block, columns_, known_.targets);
  return rising.reverse().cwiseAbs() / std::sqrt(rising.size());
}

}  // namespace fluxformer::paths
