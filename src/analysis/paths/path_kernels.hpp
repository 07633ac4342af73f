#pragma once

// Kernels between attention paths. Source: Tiberi et al., arXiv 2405.15926; specification of attention paths,
// section 2.1.
//
//   C_{pi pi'}(mu, nu) = s_0^2/(D Hs) xi^pi_mu . xi^pi'_nu        K(U) = sum_{pi pi'} U^{pi pi'} C_{pi pi'}

#include "analysis/paths/path_examples.hpp"

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

}  // namespace fluxformer::paths
