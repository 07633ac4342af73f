#pragma once

// Kernels between attention paths, and what follows from a kernel: energy, predictor, overlaps with the
// labels. Source: Tiberi et al., arXiv 2405.15926; docs/model.md, sections 11.3, 11.4 and 11.6.
//
//   C_{pi pi'}(mu, nu) = s_0^2/(D Hs) xi^pi_mu . xi^pi'_nu        K(U) = sum_{pi pi'} U^{pi pi'} C_{pi pi'}
//   A = K + T I,   b = A^-1 y,   E = ln det A + y^T b,            dE/dK = M = A^-1 - b b^T

#include "analysis/dense_matrices.hpp"
#include "analysis/paths/path_examples.hpp"
#include "base/error.hpp"
#include "base/index.hpp"

namespace fluxformer::paths {

/// The storage of kernels: those of all pairs of paths, or only the inputs they are made of.
enum class KernelStorage {
  automatic,  ///< pairs up to a gigabyte
  pairs,  ///< C + C^T of all pairs, one triangle: U and M are symmetric and need no more (kernel_pair_bytes)
  inputs  ///< nothing: K(U) = s_0^2/(D Hs) (sum_pi' U^{pi pi'} xi^pi') . xi^pi from the inputs each time
};

/// Bytes of all pairs: Hs(Hs+1)/2 P(P+1)/2 numbers.
double kernel_pair_bytes(double examples, double paths);
/// Bytes of work space on each of `ranks` ranks that share the examples: stored pairs (one rank), or a share
/// of three matrices of the size of the inputs and of one of the size of K (one rank: three of these, as
/// draws make kernels anew).
double kernel_bytes(double examples, double paths, double dimension, int ranks = 1);

/// All C_{pi pi'} of P examples with themselves. Not collective.
class PathKernels {
 public:
  /// Kernels of P x (paths D) attentioned inputs, which are borrowed. O(Hs^2 P^2 D) if pairs are stored.
  PathKernels(const RowMatrix& inputs, int paths, double input_variance = 1,
              KernelStorage storage = KernelStorage::automatic);

  Index examples() const { return inputs_.rows(); }
  int paths() const { return paths_; }
  const RowMatrix& inputs() const { return inputs_; }
  double input_variance() const { return input_variance_; }
  /// K(U), P x P, from a symmetric Hs x Hs matrix. O(Hs^2 P^2 / 2) from stored pairs, O(2 Hs D P^2) from
  /// inputs.
  Eigen::MatrixXd kernel(const Eigen::MatrixXd& u) const;
  /// sum_{mu nu} M_{mu nu} C_{pi pi'}(mu, nu) of a symmetric P x P matrix, symmetrised: d(tr M K)/dU, where
  /// all entries of U count as independent. Costs as much as `kernel`.
  Eigen::MatrixXd contract(const Eigen::MatrixXd& m) const;
  /// True if pairs are stored.
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

/// Writes sum_pi' U^{pi pi'} xi^pi' of each example to the place of path pi.
void mix_paths(const RowMatrix& inputs, const Eigen::MatrixXd& u, Eigen::Ref<RowMatrix> mixed);

/// k (Q x P), sum U^{pi pi'} C_{pi pi'} between Q other examples and the P of the theory. O(Hs D (Hs P + Q
/// P)).
Eigen::MatrixXd cross_kernel(const RowMatrix& others, const RowMatrix& inputs, const Eigen::MatrixXd& u,
                             double input_variance = 1);

/// k(x, x) of each example.
Eigen::VectorXd own_kernel(const RowMatrix& inputs, const Eigen::MatrixXd& u, double input_variance = 1);

/// E and what follows from the factorisation of K + T I.
struct KernelEnergy {
  double value = 0;  ///< E; infinite if K + T I is not positive definite, the rest then has no meaning
  Eigen::VectorXd weights = {};  ///< b (P)
  Eigen::MatrixXd slope = {};    ///< M (P x P), symmetric; empty unless asked for
};

/// E and b. `kernel`: symmetric, P x P; only its lower triangle is used. O(P^3 / 3).
KernelEnergy kernel_energy(Eigen::MatrixXd kernel, const Eigen::VectorXd& targets, double temperature);
/// E, b and M. O(P^3).
KernelEnergy kernel_energy_and_slope(Eigen::MatrixXd kernel, const Eigen::VectorXd& targets,
                                     double temperature);

/// y^T A^-1 K A^-1 y - tr(A^-1 K) from an energy with its slope: the data's side of the virials
/// (docs/model.md, 11.5).
double data_virial(const KernelEnergy& energy, const Eigen::MatrixXd& kernel);

/// Mean and variance of the predictor, by examples.
struct Prediction {
  Eigen::VectorXd mean = {}, variance = {};  ///< [example]; the noise T is not added to the variance
};

/// The predictor mean(x) = k^T A^-1 y, var(x) = k(x, x) - k^T A^-1 k, for any number of sets of other
/// examples.
class Predictor {
 public:
  /// Factorises K + T I for K (P x P) and y of the known examples; y is borrowed. Throws NumericalFailure if
  /// K + T I is not positive definite. O(P^3).
  Predictor(Eigen::MatrixXd kernel, const Eigen::VectorXd& targets, double temperature);
  /// Predicts from k (Q x P) and k(x, x) (Q) of other examples. O(Q P^2).
  Prediction operator()(const Eigen::MatrixXd& cross, const Eigen::VectorXd& own) const;

 private:
  const Eigen::VectorXd& targets_;
  Cholesky factor_;
};

/// The exception for K + T I that is not positive definite.
NumericalFailure not_positive();

/// Prediction for one set of other examples: Predictor, used once.
Prediction predict(const Eigen::MatrixXd& kernel, const Eigen::VectorXd& targets, double temperature,
                   const Eigen::MatrixXd& cross, const Eigen::VectorXd& own);

/// Share of examples whose mean has the sign of the target; a mean of 0 is wrong.
double accuracy(const Eigen::VectorXd& mean, const Eigen::VectorXd& targets);

/// Probability that one draw of the posterior is right, mean over examples of Phi(y mean / sqrt(var)). Where
/// the variance is 0 the mean is right or wrong.
double draw_accuracy(const Prediction& prediction, const Eigen::VectorXd& targets);

/// |v_k . y|/sqrt(P) for the eigenvectors v_k of a symmetric P x P matrix, largest eigenvalue first; for
/// targets +1 and -1 the squares add up to 1. O(P^3). NaN if the eigenvectors are not found.
Eigen::VectorXd task_overlaps(const Eigen::MatrixXd& kernel, const Eigen::VectorXd& targets);

}  // namespace fluxformer::paths
