#include "analysis/paths/kernel_energy.hpp"

#include <limits>

#include "analysis/lapack.hpp"

namespace fluxformer::paths {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

/// `a` becomes the Cholesky factor of K + T I (lower triangle).
KernelEnergy factorised(MatrixXd& a, const VectorXd& targets, double temperature) {
  a.diagonal().array() += temperature;
  const int n = static_cast<int>(a.rows()), one = 1;
  int info = 0;
  KernelEnergy energy{.value = std::numeric_limits<double>::infinity(), .weights = targets};
  dpotrf_("L", &n, a.data(), &n, &info);
  if (info != 0) return energy;
  dpotrs_("L", &n, &one, a.data(), &n, energy.weights.data(), &n, &info);
  energy.value = 2 * a.diagonal().array().log().sum() + targets.dot(energy.weights);
  return energy;
}

}  // namespace

KernelEnergy kernel_energy(MatrixXd kernel, const VectorXd& targets, double temperature) {
  return factorised(kernel, targets, temperature);
}

KernelEnergy kernel_energy_and_slope(MatrixXd kernel, const VectorXd& targets, double temperature) {
  auto energy = factorised(kernel, targets, temperature);
  const int n = static_cast<int>(kernel.rows());
  int info = 0;
  dpotri_("L", &n, kernel.data(), &n, &info);
  kernel.selfadjointView<Eigen::Lower>().rankUpdate(energy.weights, -1.0);
  energy.slope = kernel.selfadjointView<Eigen::Lower>();
  return energy;
}

double data_virial(const KernelEnergy& energy, const MatrixXd& kernel) {
  return -energy.slope.cwiseProduct(kernel).sum();
}

}  // namespace fluxformer::paths
