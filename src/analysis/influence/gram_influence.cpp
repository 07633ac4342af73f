#include "analysis/influence/gram_influence.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <tuple>
#include <utility>

#include "base/error.hpp"
#include "base/mpi.hpp"
#include "base/option.hpp"
#include "solvers/spectra/eigenvalues.hpp"
#include "solvers/spectra/symmetric_operator.hpp"

namespace fluxformer::influence {
namespace {

/// The gradients of all samples, on the ranks that keep them, and their numbers.
std::pair<hessian::SpreadRows, SampleNumbers> kept_gradients(SampleGradients& gradients) {
  std::vector<std::vector<double>> rows;
  SampleNumbersOf numbers(gradients.samples());
  gradients.for_each([&](const SampleGradient& sample) {
    if (!gradients.keeps()) return;
    rows.emplace_back(sample.gradient.begin(), sample.gradient.end());
    numbers.add(sample);
  });
  // Replicas have samples in the order of their ranks: rows are in that of the places.
  hessian::SpreadRows spread(gradients.comm(), std::move(rows));
  return {std::move(spread), numbers.gathered(gradients.comm())};
}

/// The rows of R over the block, on the ranks that keep them.
hessian::SpreadRows output_rows(hessian::TrainingHessian& of, const SampleGradients& train) {
  std::vector<std::vector<double>> rows;
  of.for_output_gradients([&](std::span<const double> row) {
    if (train.keeps()) take_entries(row, train.block(), rows.emplace_back());
  });
  return {train.comm(), std::move(rows)};
}

/// The block of rows that are themselves restricted to one.
spectra::Block all_columns(const SampleGradients& gradients) {
  return {{0, static_cast<PetscInt>(gradients.size())}};
}

/// Largest eigenvalue of a symmetric matrix that every rank holds; one rank computes it.
double largest_of(const RowMatrix& matrix, MPI_Comm comm) {
  double largest = 0;
  collectively(comm, [&] {
    if (!mpi::is_root(comm)) return;
    const spectra::ReplicatedOperator product(
        MPI_COMM_SELF, static_cast<PetscInt>(matrix.rows()),
        [&](std::span<double> in, std::span<double> out) {
          const Eigen::Map<const Eigen::VectorXd> x(in.data(), std::ssize(in));
          Eigen::Map<Eigen::VectorXd>(out.data(), std::ssize(out)).noalias() = matrix * x;
        });
    const auto found = spectra::EigenSolver(MPI_COMM_SELF).solve(product.get(), {.largest = 1});
    if (!found.largest.complete())
      throw NumericalFailure("influence: the largest eigenvalue of the Gram matrix did not converge");
    largest = std::max(0.0, found.largest.values.front());
  });
  broadcast_numbers({&largest, 1}, 0, comm);
  return largest;
}

std::span<double> numbers_of(RowMatrix& matrix) {
  return {matrix.data(), matrix.data() + matrix.size()};
}

}  // namespace

GramInfluence::GramInfluence(hessian::TrainingHessian& of, SampleGradients& train, SampleGradients& test) {
  require_one_block(train, test);
  rows_ = output_rows(of, train);
  std::tie(train_, train_numbers_) = kept_gradients(train);
  std::tie(test_, test_numbers_) = kept_gradients(test);
  const auto columns = all_columns(train);
  columns_ = train.size();
  gram_ = rows_.times_transposed(rows_, columns);
  on_train_ = rows_.times_transposed(train_, columns);
  on_test_ = rows_.times_transposed(test_, columns);
  dots_ = test_.times_transposed(train_, columns);
  largest_ = largest_of(gram_, train.comm());
}

double GramInfluence::absolute(double relative_damping) const {
  if (!(relative_damping > 0) || !std::isfinite(relative_damping))
    throw BadInput("influence with the damping " + value_text(relative_damping) + ": must be greater than 0");
  if (!(largest_ > 0))
    throw BadInput("influence where no variable acts on the outputs: the Gauss-Newton matrix is 0");
  return relative_damping * largest_;
}

// I = -(T G^T - (R T^T)^T (d + K)^-1 R G^T) / d with the gradients of training G and test T in rows
InfluenceScores GramInfluence::damped(double damping) const {
  Eigen::MatrixXd shifted = gram_;
  shifted.diagonal().array() += damping;
  const Cholesky factor(shifted);
  const Eigen::MatrixXd solved = factor.solve(on_train_);
  InfluenceScores scores{.damping = damping, .pairs = dots_, .self = {}};
  scores.pairs.noalias() -= on_test_.transpose() * solved;
  scores.pairs /= -damping;
  for (Index i = 0; i < solved.cols(); ++i) {
    const double norm = train_numbers_.norm[i];
    scores.self.push_back((norm * norm - on_train_.col(i).dot(solved.col(i))) / damping);
  }
  if (!factor.positive() || !scores.pairs.allFinite())
    throw NumericalFailure("influence with the damping " + value_text(damping) +
                           ": the damped Gram matrix is not positive definite; take a larger damping");
  return scores;
}

std::vector<InfluenceScores> GramInfluence::scores(const std::vector<double>& relative_dampings) const {
  const MPI_Comm comm = rows_.comm();
  const int rank = mpi::rank(comm), ranks = mpi::size(comm);
  const Index count = std::ssize(relative_dampings);
  std::vector<InfluenceScores> all(count);
  for (Index k = 0; k < count; ++k) all[k].damping = absolute(relative_dampings[k]);
  // One factorisation for each rank at a time.
  collectively(comm, [&] {
    for (Index k = rank; k < count; k += ranks) all[k] = damped(all[k].damping);
  });
  for (Index k = 0; k < count; ++k) {
    const int from = static_cast<int>(k % ranks);
    all[k].pairs.resize(dots_.rows(), dots_.cols());
    all[k].self.resize(dots_.cols());
    broadcast_numbers(numbers_of(all[k].pairs), from, comm);
    broadcast_numbers(all[k].self, from, comm);
  }
  return all;
}

InfluenceScores GramInfluence::identity() const {
  InfluenceScores scores{.damping = 0, .pairs = -dots_, .self = {}};
  for (const double norm : train_numbers_.norm) scores.self.push_back(norm * norm);
  return scores;
}

InfluenceScores GramInfluence::diagonal(double relative_damping) const {
  const double damping = absolute(relative_damping);
  // w_j = 1 / (h_j + d)
  auto weights = rows_.column_squares(columns_);
  for (double& weight : weights) weight = 1 / (weight + damping);
  const spectra::Block columns{{0, static_cast<PetscInt>(columns_)}};
  return {.damping = damping,
          .pairs = -test_.times_transposed(train_, columns, weights),
          .self = train_.row_squares(weights)};
}

double gram_bytes(const SampleSet& train, const SampleSet& test, Index variables, Index outputs) {
  const double own_train = train.replica().largest_share(train.size()),
               own_test = test.replica().largest_share(test.size()),
               rows = static_cast<double>(outputs) * train.size(),
               samples = static_cast<double>(train.size()) + test.size();
  // Rows and gradients; K, K + d, and twice its factor; R G^T, and the solutions; scores.
  const double numbers = variables * (own_train * (outputs + 1) + own_test) + 4 * rows * rows +
                         rows * (samples + 2.0 * train.size()) + 3.0 * train.size() * test.size();
  return sizeof(double) * numbers;
}

}  // namespace fluxformer::influence
