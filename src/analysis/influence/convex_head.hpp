#pragma once

// Influence on the last linear map of a classifier alone, where everything can be checked by training again. With fixed
// features x_i (a 1 appended for the bias), weights W [C][F + 1] and theta their rows one behind the other,
//
//   L(W) = 1/N sum_i l_i(W) + ridge/2 |W|^2 (bias included),     l_i = log sum_c exp z_c - z_y,   z = W x_i
//
// is convex; H is its Hessian, g_i the gradient of l_i, h_i its Hessian. Without the samples of a set S it is
// L - 1/N sum_S l_i: the divisor stays N. Nothing here is collective: every rank computes the same.

#include <string>
#include <vector>

#include "analysis/dense_matrices.hpp"
#include "base/index.hpp"

namespace fluxformer::influence {

/// Samples with their classes.
struct LabelledFeatures {
  RowMatrix features;       ///< [sample][feature]
  std::vector<int> labels;  ///< from 0
};

/// The matrix in the place of H in I = -g_t^T H^{-1} g_i:
///
///   exact       H
///   identity    1
///   diagonal    the diagonal of H
///   classes     the blocks of H of each class
///   truncated   the largest eigenvalues of H alone, by the pseudo-inverse (Schioppa et al. 2022)
///   kfac        G (x) A + ridge, A = 1/N sum x x^T, G = 1/N sum (diag p - p p^T) (Martens and Grosse 2015)
///   ekfac       eigenvectors of kfac with the diagonal of H in their basis (George et al. 2018)
enum class HeadCurvature { exact, identity, diagonal, classes, truncated, kfac, ekfac };

/// How the change of a loss is computed where samples are left out: to first order, -I/N summed, or by one Newton step
/// theta + (H - sum_S h_i/N)^{-1} sum_S g_i/N, at which the loss is evaluated.
enum class Removal { first, newton };

/// Softmax regression on features, and the influence of its samples.
class ConvexHead {
 public:
  /// Fits W by Newton's method from 0. Throws BadInput for ridge <= 0 or labels outside 0 .. classes - 1,
  /// NumericalFailure if the norm of the gradient does not fall to 1e-12 of that at 0 (1e-13 unless round-off ends it).
  ConvexHead(LabelledFeatures train, int classes, double ridge);

  Index size() const { return std::ssize(labels_); }
  /// Numbers of W: classes x (features + 1).
  Index variables() const { return weights_.size(); }
  const RowMatrix& weights() const { return weights_; }
  /// Newton steps of the fit, and the norm of the gradient of L behind it.
  int steps() const { return steps_; }
  double gradient_norm() const { return gradient_norm_; }
  /// The Hessian of L at W.
  const Eigen::MatrixXd& hessian() const { return hessian_; }
  /// Gradients g of the losses of samples, [sample][variable]; their losses.
  RowMatrix gradients(const LabelledFeatures& samples) const;
  std::vector<double> losses(const LabelledFeatures& samples) const { return losses_at(weights_, samples); }
  std::vector<double> losses_at(const RowMatrix& weights, const LabelledFeatures& samples) const;

  /// I(i, t) = -g_t^T C^{-1} g_i, [test][train]. `kept`: eigenvalues of `truncated`.
  RowMatrix influence(const LabelledFeatures& test, HeadCurvature by = HeadCurvature::exact,
                      Index kept = 0) const;
  /// Self-influence g_i^T H^{-1} g_i >= 0, and losses and gradient norms, of the training samples.
  std::vector<double> self_influence() const;
  std::vector<double> train_losses() const { return losses(train()); }
  std::vector<double> gradient_norms() const;

  /// The change of the losses of test samples where the training samples of a set are left out.
  std::vector<double> change_without(const std::vector<Index>& left_out, const LabelledFeatures& test,
                                     Removal by) const;
  /// The same by training again, from W on. Throws NumericalFailure as the constructor does.
  std::vector<double> retrained_without(const std::vector<Index>& left_out,
                                        const LabelledFeatures& test) const;
  /// The minimiser of L + eps l_i.
  RowMatrix with_weight(Index sample, double eps) const;

 private:
  LabelledFeatures train() const;
  /// Probabilities [sample][class].
  RowMatrix probabilities(const RowMatrix& weights, const RowMatrix& x) const;
  /// The gradient and the Hessian of 1/N sum of share_i l_i + ridge/2 |W|^2.
  Eigen::VectorXd gradient_of(const RowMatrix& weights, const Eigen::VectorXd& shares) const;
  Eigen::MatrixXd hessian_of(const RowMatrix& weights, const Eigen::VectorXd& shares) const;
  double objective_of(const RowMatrix& weights, const Eigen::VectorXd& shares) const;
  struct Fit {
    RowMatrix weights;
    int steps;
    double gradient_norm;
  };
  Fit fit(RowMatrix weights, const Eigen::VectorXd& shares) const;
  /// The matrix C^{-1} applied to columns.
  Eigen::MatrixXd solve(HeadCurvature by, Index kept, const Eigen::MatrixXd& right) const;
  Eigen::MatrixXd solve_kronecker(HeadCurvature by, const Eigen::MatrixXd& right) const;

  RowMatrix x_;  // [sample][feature + 1]
  std::vector<int> labels_;
  int classes_;
  double ridge_;
  RowMatrix weights_;
  int steps_ = 0;
  double gradient_norm_ = 0;
  Eigen::MatrixXd hessian_;
};

}  // namespace fluxformer::influence
