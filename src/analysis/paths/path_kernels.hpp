#pragma once

// Kernels between attention paths. Source: Tiberi et al., arXiv 2405.15926; specification of attention paths,
// section 2.1.
//
//   C_{pi pi'}(mu, nu) = s_0^2/(D Hs) xi^pi_mu . xi^pi'_nu        K(U) = sum_{pi pi'} U^{pi pi'} C_{pi pi'}

#include <Eigen/Core>

#include "analysis/dense_matrices.hpp"
#include "analysis/paths/path_examples.hpp"
#include "base/error.hpp"

namespace fluxformer::paths {

/// What is kept: the kernels of all pairs of paths, or only what they are made of.
enum class KernelStorage {
  automatic,  ///< pairs up to a gigabyte
  pairs,  ///< U and M are symmetric, so that only C + C^T is needed, and of this one triangle: kernel_pair_bytes
  inputs  ///< nothing: K(U) = s_0^2/(D Hs) (sum_pi' U^{pi pi'} xi^pi') . xi^pi from the inputs each time
};

/// Hs(Hs+1)/2 P(P+1)/2 numbers, in bytes.
double kernel_pair_bytes(double examples, double paths);
/// What is needed for the work on each of `ranks` ranks that share the examples, in bytes: stored pairs (one rank), or a share of three
/// matrices of the size of inputs and one of K's (one rank: three, as draws take kernels made anew).
double kernel_bytes(double examples, double paths, double dimension, int ranks = 1);

/// All C_{pi pi'} of P examples with themselves. Not collective.
class PathKernels {
 public:
  /// From P x (paths D) attentioned inputs, which are used, not copied. O(Hs^2 P^2 D) if pairs are stored.
  PathKernels(const RowMatrix& inputs, int paths, double input_variance = 1,
              KernelStorage storage = KernelStorage::automatic);

  Eigen::Index examples() const { return inputs_.rows(); }
  int paths() const { return paths_; }
  const RowMatrix& inputs() const { return inputs_; }
  double input_variance() const { return input_variance_; }
  /// K(U), P x P, from a symmetric Hs x Hs matrix. O(Hs^2 P^2 / 2) from stored pairs, O(2 Hs D P^2) from inputs.
  Eigen::MatrixXd kernel(const Eigen::MatrixXd& u) const;
  /// sum_{mu nu} M_{mu nu} C_{pi pi'}(mu, nu) of a symmetric P x P matrix, symmetrised: d(tr M K)/dU, where all
  /// entries of U count as independent. The same cost.
  Eigen::MatrixXd contract(const Eigen::MatrixXd& m) const;
  /// Whether pairs are stored.
  bool stored() const { return blocks_.size() > 0; }

 private:
  void store_pairs();
  Eigen::MatrixXd contract_inputs(const Eigen::MatrixXd& m) const;

  const RowMatrix& inputs_;
  int paths_;
  double input_variance_, scale_;
  Eigen::MatrixXd blocks_;  ///< [entry of the lower triangle by columns][pair pi >= pi'], or empty
};

/// s_0^2/(D Hs) for inputs of D Hs columns.
double kernel_scale(const RowMatrix& inputs, double input_variance);

/// sum_pi' U^{pi pi'} xi^pi' of each example, in the place of path pi.
void mix_paths(const RowMatrix& inputs, const Eigen::MatrixXd& u, Eigen::Ref<RowMatrix> mixed);

/// k: Q x P, kernels between other examples and those of the theory, sum U^{pi pi'} C_{pi pi'}. O(Hs D (Hs P + Q P)).
Eigen::MatrixXd cross_kernel(const RowMatrix& others, const RowMatrix& inputs, const Eigen::MatrixXd& u,
                             double input_variance = 1);

/// k(x, x) of each example.
Eigen::VectorXd own_kernel(const RowMatrix& inputs, const Eigen::MatrixXd& u, double input_variance = 1);

// What the data cost under a kernel. Source: specification of attention paths, sections 2.2 and 2.3.
//
//   E = ln det(K + T I) + y^T (K + T I)^-1 y            dE/dK = M = A^-1 - b b^T,   A = K + T I,   b = A^-1 y

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

// What a network of attention paths predicts for other examples. Source: specification of attention paths, section 2.5.
//
//   mean(x) = k^T (K + T I)^-1 y        var(x) = k(x, x) - k^T (K + T I)^-1 k

/// By examples.
struct Prediction {
  Eigen::VectorXd mean = {}, variance = {};  ///< of each example; the noise T is not added to the variance
};

/// For any number of sets of other examples.
class Predictor {
 public:
  /// From K (P x P) and y of the examples that are known. Throws NumericalFailure if K + T I is not positive definite. O(P^3).
  Predictor(Eigen::MatrixXd kernel, const Eigen::VectorXd& targets, double temperature);
  /// From k (Q x P) and k(x, x) (Q) of other examples. O(Q P^2).
  Prediction operator()(const Eigen::MatrixXd& cross, const Eigen::VectorXd& own) const;

 private:
  const Eigen::VectorXd& targets_;
  Cholesky factor_;
};

/// What is thrown where K + T I is not positive definite.
NumericalFailure not_positive();

/// The same for one set.
Prediction predict(const Eigen::MatrixXd& kernel, const Eigen::VectorXd& targets, double temperature,
                   const Eigen::MatrixXd& cross, const Eigen::VectorXd& own);

/// Share of examples whose mean has the sign of the target; a mean of 0 is wrong.
double accuracy(const Eigen::VectorXd& mean, const Eigen::VectorXd& targets);

/// Probability that one draw of the posterior is right, mean over examples of Phi(y mean / sqrt(var)); where the variance is
/// 0, whether the mean is right.
double draw_accuracy(const Prediction& prediction, const Eigen::VectorXd& targets);

// Where the labels stand in the principal components of a kernel. Source: specification of attention paths, section 2.7.

/// |v_k . y|/sqrt(P) for the eigenvectors v_k of a symmetric P x P matrix, that of the largest eigenvalue first; for targets +1
/// and -1 the squares add up to 1. O(P^3). NaN if the eigenvectors are not found.
Eigen::VectorXd task_overlaps(const Eigen::MatrixXd& kernel, const Eigen::VectorXd& targets);

}  // namespace fluxformer::paths
