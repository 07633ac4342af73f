#pragma once

// Influence of training samples on the losses of test samples (Koh, Liang 2017, "Understanding Black-box
// Predictions via Influence Functions", arXiv 1703.04730), with the Gauss-Newton part H_o of the Hessian and
// damping d > 0, of all pairs at once and without iterations:
//
//   I(i, t) = -g_t^T (H_o + d)^-1 g_i
//
// With theta(e) = argmin L + e l_i it is the slope of the test loss in e: to first order, the test loss
// changes by -I(i, t)/N if sample i is left out. With the rows R of the gradients of all outputs (samples x
// classes), H_o = R^T R, and K = R R^T, Woodbury's formula gives
//
//   (d + R^T R)^-1 = (1 - R^T (d + K)^-1 R) / d
//   I(i, t) = -(g_t . g_i - (R g_t)^T (d + K)^-1 (R g_i)) / d.
//
// The difference loses digits as d falls: the relative round-off is about 1e-16 times lambda_max / d.

#include <vector>

#include "analysis/dense_matrices.hpp"
#include "analysis/hessian/spread_rows.hpp"
#include "analysis/hessian/training_hessian.hpp"
#include "analysis/influence/sample_gradients.hpp"
#include "base/index.hpp"
#include "model/sample_set.hpp"

namespace fluxformer::influence {

/// Scores of all pairs for one damping.
struct InfluenceScores {
  double damping = 0;        ///< d
  RowMatrix pairs;           ///< [test][train]: I(i, t)
  std::vector<double> self;  ///< [train]: -I(i, i) >= 0, the self-influence
};

/// The part of the work that all dampings share: R, the gradients of training and test samples, and their
/// products. The rows of R and the gradients stay on the ranks that compute them, the products are on all.
class GramInfluence {
 public:
  /// `of` is the objective on the training samples (R costs least in batches of one sample), `train` and
  /// `test` have the same block and communicator. Computes all gradients, and keeps them. Collective over the
  /// ranks of the samples. Throws BadInput for different blocks, a model with too many outputs, and as
  /// TrainingHessian does.
  GramInfluence(hessian::TrainingHessian& of, SampleGradients& train, SampleGradients& test);

  /// Largest eigenvalue of H_o over the block: the unit of relative damping.
  double largest() const { return largest_; }
  /// Number of outputs: rows of R.
  Index outputs() const { return rows_.count(); }
  const SampleNumbers& train() const { return train_numbers_; }
  const SampleNumbers& test() const { return test_numbers_; }

  /// The scores for each damping, given relative to `largest()`; the same on all ranks. One Cholesky
  /// factorisation for each, which the ranks share out. Collective. Throws BadInput unless every damping is
  /// above 0 and `largest()` is, NumericalFailure (agreed) if d + K is not positive definite to round-off.
  std::vector<InfluenceScores> scores(const std::vector<double>& relative_dampings) const;
  /// Scores of the cheapest curvature, the identity: pairs -g_t . g_i, self |g_i|^2, damping 0. Not
  /// collective.
  InfluenceScores identity() const;
  /// Scores of the diagonal of H_o, h_j = sum of the squares of column j of R: -sum_j g_tj g_ij / (h_j + d),
  /// with d relative to `largest()`. Collective. Throws BadInput as `scores`.
  InfluenceScores diagonal(double relative_damping) const;

 private:
  double absolute(double relative_damping) const;
  /// The scores for an absolute damping. Not collective.
  InfluenceScores damped(double damping) const;
  hessian::SpreadRows rows_, train_, test_;
  SampleNumbers train_numbers_, test_numbers_;
  RowMatrix gram_;                // K
  RowMatrix on_train_, on_test_;  // R G^T, [output][sample]
  RowMatrix dots_;                // g_t . g_i, [test][train]
  Index columns_ = 0;             // variables
  double largest_ = 0;
};

/// Largest memory of GramInfluence and one factorisation on any rank, in bytes, for so many variables and
/// outputs of a sample. Not collective.
double gram_bytes(const SampleSet& train, const SampleSet& test, Index variables, Index outputs);

}  // namespace fluxformer::influence
