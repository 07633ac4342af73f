#include "analysis/derivatives/logit_jacobian.hpp"

#include <cmath>
#include <cstddef>

#include "analysis/dense_matrices.hpp"
#include "model/loss.hpp"

namespace fluxformer::derivatives {

void LogitJacobian::set() {
  auto& probe = input_.probe();
  const int classes = probe.spec().classes, samples = input_.samples();
  auto u = input_.clean_embedded();
  logits_ = probe.forward(u, Keep::activations);
  rows_.resize(classes);
  for (int c = 0; c < classes; ++c) {
    std::vector<double> one(logits_.size(), 0.0);
    for (int b = 0; b < samples; ++b) one[b * classes + c] = 1;
    probe.adjoint(one, rows_[c]);
  }
  values_.assign(static_cast<std::size_t>(samples), {});
  left_.assign(static_cast<std::size_t>(samples), {});
  for (int b = 0; b < samples; ++b) {
    if (input_.slab_block(u, b).rows() == 0) continue;
    Eigen::MatrixXd gram(classes, classes);
    for (int i = 0; i < classes; ++i)
      for (int j = 0; j <= i; ++j)
        gram(i, j) = gram(j, i) =
            input_.slab_block(rows_[i], b).cwiseProduct(input_.slab_block(rows_[j], b)).sum();
    const SymmetricEigen eigen = symmetric_eigen(gram);  // in ascending order
    const auto at = static_cast<std::size_t>(b);
    values_[at] = eigen.values.reverse().cwiseMax(0).cwiseSqrt();
    left_[at] = eigen.vectors.col(classes - 1);
  }
}

void LogitJacobian::worst_direction(std::vector<double>& v) const {
  const int classes = input_.probe().spec().classes;
  v.assign(input_.clean_embedded().size(), 0.0);
  for (int b = 0; b < input_.samples(); ++b) {
    const auto at = static_cast<std::size_t>(b);
    if (values_[at].size() == 0 || !(values_[at][0] > 0)) continue;
    Eigen::VectorXd slope(classes);
    loss_of({}, logits_.data() + b * classes, classes, input_.batch().label[at], 1.0, slope.data());
    const double scale = std::copysign(1 / values_[at][0], slope.dot(left_[at]));
    for (int c = 0; c < classes; ++c)
      input_.slab_block(v, b) += scale * left_[at][c] * input_.slab_block(rows_[c], b);
  }
}

// The sums: singular values; worst sensitivity; samples with a worst sensitivity; samples.

void JacobianMeter::add(const ModelInput& input, const LogitJacobian& jacobian) {
  const std::size_t classes = size() - 3;
  double *const sums = local(), *const worst = sums + classes;
  for (int b = 0; b < input.samples(); ++b) {
    const auto& values = jacobian.singular_values(b);
    if (values.size() == 0) continue;
    worst[2] += 1;
    for (std::size_t c = 0; c < classes; ++c) sums[c] += values[static_cast<Eigen::Index>(c)];
    const Eigen::Map<const Eigen::VectorXd> z(
        jacobian.logits().data() + static_cast<std::size_t>(b) * classes, static_cast<Eigen::Index>(classes));
    if (z.norm() == 0) continue;
    worst[0] += values[0] * input.slab_block(input.clean_embedded(), b).norm() / z.norm();
    worst[1] += 1;
  }
}

long JacobianMeter::samples() const {
  return std::lround(total().back());
}

std::vector<double> JacobianMeter::singular_values() const {
  std::vector<double> mean(total().begin(), total().end() - 3);
  for (double& value : mean) value /= total().back();
  return mean;
}

double JacobianMeter::worst_sensitivity() const {
  const double* const worst = total().data() + size() - 3;
  return worst[0] / worst[1];
}

}  // namespace fluxformer::derivatives
