#pragma once

// What the data cost under a kernel. Source: specification of attention paths, sections 2.2 and 2.3.
//
//   E = ln det(K + T I) + y^T (K + T I)^-1 y            dE/dK = M = A^-1 - b b^T,   A = K + T I,   b = A^-1 y

#include <Eigen/Core>

namespace fluxformer::paths {

/// E and what follows from the factorisation of K + T I.
struct KernelEnergy {
  double value = 0;  ///< E; infinite if K + T I is not positive definite, the rest then has no meaning
  Eigen::VectorXd weights = {};  ///< b (P)
  Eigen::MatrixXd slope = {};    ///< M (P x P), symmetric; empty unless asked for
};

/// E and b. `kernel`: symmetric, P x P; only its lower triangle is used. O(P^3 / 3).
KernelEnergy kernel_energy(Eigen::MatrixXd kernel, const Eigen::VectorXd& targets, double temperature);
/// The same with M, O(P^3).
KernelEnergy kernel_energy_and_slope(Eigen::MatrixXd kernel, const Eigen::VectorXd& targets,
                                     double temperature);

/// y^T A^-1 K A^-1 y - tr(A^-1 K) from an energy with its slope: what each of the virials of section 5.2 is at the saddle point.
double data_virial(const KernelEnergy& energy, const Eigen::MatrixXd& kernel);

}  // namespace fluxformer::paths
