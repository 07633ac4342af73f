#include "analysis/paths/path_kernels.hpp"

#include <cmath>
#include <limits>

#include "analysis/dense_matrices.hpp"
#include "analysis/lapack.hpp"
#include "base/index.hpp"

namespace fluxformer::paths {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr double most_pair_bytes = 1024.0 * 1024 * 1024;

/// The inputs of one path: P x D, a row every paths D.
auto of_path(const RowMatrix& inputs, Index path, Index dimension) {
  return inputs.middleCols(path * dimension, dimension);
}

RowMatrix mixed(const RowMatrix& inputs, const MatrixXd& u) {
  RowMatrix sum(inputs.rows(), inputs.cols());
  mix_paths(inputs, u, sum);
  return sum;
}

/// The lower triangle, column after column.
void pack(const MatrixXd& a, double* to) {
  for (Index j = 0; j < a.cols(); ++j) {
    const Index below = a.rows() - j;
    Eigen::Map<VectorXd>(to, below) = a.col(j).tail(below);
    to += below;
  }
}

}  // namespace

double kernel_pair_bytes(double examples, double paths) {
  return sizeof(double) * paths * (paths + 1) / 2 * examples * (examples + 1) / 2;
}

double kernel_bytes(double examples, double paths, double dimension, int ranks) {
  const double pairs = kernel_pair_bytes(examples, paths);
  if (ranks == 1 && pairs <= most_pair_bytes) return pairs;
  const double matrices = ranks == 1 ? 3 : 1;
  return sizeof(double) * (3 * examples * paths * dimension + matrices * examples * examples) / ranks;
}

PathKernels::PathKernels(const RowMatrix& inputs, int paths, double input_variance, KernelStorage storage)
    : inputs_(inputs),
      paths_(paths),
      input_variance_(input_variance),
      scale_(kernel_scale(inputs, input_variance)) {
  const bool few = kernel_pair_bytes(inputs.rows(), paths) <= most_pair_bytes;
  if (storage == KernelStorage::pairs || (storage == KernelStorage::automatic && few)) store_pairs();
}

void PathKernels::store_pairs() {
  const Index p_count = examples(), dimension = inputs_.cols() / paths_;
  blocks_.resize(p_count * (p_count + 1) / 2, Index{paths_} * (paths_ + 1) / 2);
  MatrixXd block(p_count, p_count);
  Index pair = 0;
  for (Index p = 0; p < paths_; ++p)
    for (Index q = 0; q <= p; ++q, ++pair) {
      // C_{pq} = s_0^2/(D Hs) X_p X_q^T, and C + C^T for p != q: U^{pq} = U^{qp} multiplies both.
      block.noalias() =
          scale_ * (of_path(inputs_, p, dimension) * of_path(inputs_, q, dimension).transpose());
      if (p != q) block += block.transpose().eval();
      pack(block, blocks_.col(pair).data());
    }
}

MatrixXd PathKernels::kernel(const MatrixXd& u) const {
  if (!stored()) {
    MatrixXd k(examples(), examples());
    k.noalias() = scale_ * (mixed(inputs_, u) * inputs_.transpose());
    k.triangularView<Eigen::StrictlyUpper>() = k.transpose();  // equal but for round-off
    return k;
  }
  VectorXd weights(blocks_.cols());
  Index pair = 0;
  for (Index p = 0; p < paths_; ++p)
    for (Index q = 0; q <= p; ++q, ++pair) weights[pair] = u(p, q);
  // K = sum_p U^{pp} C_{pp} + sum_{p > q} U^{pq} (C_{pq} + C_{pq}^T), one triangle
  const VectorXd packed = blocks_ * weights;
  MatrixXd k(examples(), examples());
  const double* from = packed.data();
  for (Index j = 0; j < examples(); ++j) {
    const Index below = examples() - j;
    k.col(j).tail(below) = Eigen::Map<const VectorXd>(from, below);
    from += below;
  }
  k.triangularView<Eigen::StrictlyUpper>() = k.transpose();
  return k;
}

MatrixXd PathKernels::contract(const MatrixXd& m) const {
  if (!stored()) return contract_inputs(m);
  MatrixXd twice = 2 * m;  // the entries below the diagonal stand for those above, too
  twice.diagonal() = m.diagonal();
  VectorXd packed(blocks_.rows());
  pack(twice, packed.data());
  // tr M C_{pp}, or tr M (C_{pq} + C_{pq}^T) for p != q, which is twice sum_{mu nu} M_{mu nu} C_{pq}(mu, nu).
  const VectorXd sums = blocks_.transpose() * packed;
  MatrixXd slope(paths_, paths_);
  Index pair = 0;
  for (Index p = 0; p < paths_; ++p)
    for (Index q = 0; q <= p; ++q, ++pair) slope(p, q) = slope(q, p) = p == q ? sums[pair] : sums[pair] / 2;
  return slope;
}

MatrixXd PathKernels::contract_inputs(const MatrixXd& m) const {
  RowMatrix weighted(inputs_.rows(), inputs_.cols());
  weighted.noalias() = m * inputs_;
  const Index dimension = inputs_.cols() / paths_;
  MatrixXd slope = MatrixXd::Zero(paths_, paths_);
  // sum_mu xi^p_mu . (M xi)^q_mu, symmetrised below
  for (Index mu = 0; mu < examples(); ++mu)
    slope.noalias() += Eigen::Map<const RowMatrix>(inputs_.row(mu).data(), paths_, dimension) *
                       Eigen::Map<const RowMatrix>(weighted.row(mu).data(), paths_, dimension).transpose();
  return scale_ / 2 * (slope + slope.transpose());
}

double kernel_scale(const RowMatrix& inputs, double input_variance) {
  return input_variance / inputs.cols();
}

void mix_paths(const RowMatrix& inputs, const MatrixXd& u, Eigen::Ref<RowMatrix> mixed) {
  const Index paths = u.rows(), dimension = inputs.cols() / paths;
  for (Index mu = 0; mu < inputs.rows(); ++mu) {
    const Eigen::Map<const RowMatrix> all(inputs.row(mu).data(), paths, dimension);
    // (U xi)^pi = sum_pi' U^{pi pi'} xi^pi'
    Eigen::Map<RowMatrix>(mixed.row(mu).data(), paths, dimension).noalias() = u * all;
  }
}

MatrixXd cross_kernel(const RowMatrix& others, const RowMatrix& inputs, const MatrixXd& u,
                      double input_variance) {
  const double scale = kernel_scale(inputs, input_variance);
  return scale * (others * mixed(inputs, u).transpose());
}

VectorXd own_kernel(const RowMatrix& inputs, const MatrixXd& u, double input_variance) {
  const double scale = kernel_scale(inputs, input_variance);
  // k(x, x) = s_0^2/(D Hs) sum_pi (U xi)^pi . xi^pi
  return scale * inputs.cwiseProduct(mixed(inputs, u)).rowwise().sum();
}

namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

/// `a` becomes the Cholesky factor of K + T I (lower triangle).
KernelEnergy factorised(MatrixXd& a, const VectorXd& targets, double temperature) {
  a.diagonal().array() += temperature;
  const int n = a.rows(), one = 1;
  int info = 0;
  KernelEnergy energy{.value = std::numeric_limits<double>::infinity(), .weights = targets};
  dpotrf_("L", &n, a.data(), &n, &info);
  if (info != 0) return energy;
  dpotrs_("L", &n, &one, a.data(), &n, energy.weights.data(), &n, &info);
  // ln det A = 2 sum ln L_ii, b = A^-1 y
  energy.value = 2 * a.diagonal().array().log().sum() + targets.dot(energy.weights);
  return energy;
}

}  // namespace

KernelEnergy kernel_energy(MatrixXd kernel, const VectorXd& targets, double temperature) {
  return factorised(kernel, targets, temperature);
}

KernelEnergy kernel_energy_and_slope(MatrixXd kernel, const VectorXd& targets, double temperature) {
  auto energy = factorised(kernel, targets, temperature);
  const int n = kernel.rows();
  int info = 0;
  // M = A^-1 - b b^T
  dpotri_("L", &n, kernel.data(), &n, &info);
  kernel.selfadjointView<Eigen::Lower>().rankUpdate(energy.weights, -1.0);
  energy.slope = kernel.selfadjointView<Eigen::Lower>();
  return energy;
}

double data_virial(const KernelEnergy& energy, const MatrixXd& kernel) {
  // -tr M K = b^T K b - tr A^-1 K with M = A^-1 - b b^T
  return -energy.slope.cwiseProduct(kernel).sum();
}

using Eigen::MatrixXd;
using Eigen::VectorXd;

NumericalFailure not_positive() {
  return NumericalFailure("the kernel of attention paths is not positive definite");
}

Predictor::Predictor(MatrixXd kernel, const VectorXd& targets, double temperature)
    : targets_(targets), factor_((kernel.diagonal().array() += temperature, kernel)) {
  if (!factor_.positive()) throw not_positive();
}

Prediction Predictor::operator()(const MatrixXd& cross, const VectorXd& own) const {
  // A row of `cross` is k = [K(x, x_mu)]: mean = k A^-1 y, variance = k(x, x) - k A^-1 k^T.
  const MatrixXd solved = factor_.solve(cross.transpose());  // P x Q
  return {.mean = solved.transpose() * targets_,
          .variance = own - cross.cwiseProduct(solved.transpose()).rowwise().sum()};
}

Prediction predict(const MatrixXd& kernel, const VectorXd& targets, double temperature, const MatrixXd& cross,
                   const VectorXd& own) {
  return Predictor(kernel, targets, temperature)(cross, own);
}

double accuracy(const VectorXd& mean, const VectorXd& targets) {
  return (mean.array() * targets.array() > 0).cast<double>().mean();
}

double draw_accuracy(const Prediction& prediction, const VectorXd& targets) {
  double sum = 0;
  for (Index i = 0; i < targets.size(); ++i) {
    const double right = targets[i] * prediction.mean[i], variance = prediction.variance[i];
    // Phi(z) = erfc(-z / sqrt(2)) / 2; round-off may leave a variance of 0 slightly negative.
    sum += variance > 0 ? std::erfc(-right / std::sqrt(2 * variance)) / 2 : right > 0 ? 1 : 0;
  }
  return sum / targets.size();
}

Eigen::VectorXd task_overlaps(const Eigen::MatrixXd& kernel, const Eigen::VectorXd& targets) {
  const auto components = symmetric_eigen(kernel);
  if (!components.converged) return Eigen::VectorXd::Constant(targets.size(), std::nan(""));
  // |v_k . y|/sqrt(P); eigenvalues come rising.
  const Eigen::VectorXd rising = components.vectors.transpose() * targets;
  return rising.reverse().cwiseAbs() / std::sqrt(targets.size());
}

}  // namespace fluxformer::paths
