#pragma once

// Maps from hidden states back to embedded tokens, linear and with one hidden layer. Source: Brunner et al.,
// arXiv 1908.04211, section 4.1; docs/model.md, section 10.6.
//
// Linear maps are g(u) = G^T u + b by ridge regression with intercept. With
// means over all tokens of the training samples removed, C = mean(u u^T) (d x d) and B = mean(u x^T) (d x m),
//
//   G = (C + lambda tr(C)/d I)^-1 B,    b = mean(x) - G^T mean(u),
//
// the minimum of mean |g(u) - x|^2 + lambda tr(C)/d |G|^2. lambda is relative to the mean variance of a
// channel, so that one grid does for all depths. One eigen-decomposition of C serves the whole grid. lambda
// is chosen by the rate on validation samples, which depends on the distance: one map per depth and distance.
//
// Accuracy: C squares the condition number of the states. Without noise, u = M x, and lambda = 0, the
// relative error of g is a few eps cond(C), with cond(C) = cond(U)^2: measured 7e-13 at cond(U) = 30, 8e-10
// at 1e3 (d = 12). Eigenvalues of C below d eps of the largest are round-off: at lambda = 0 G is 0 there
// (least norm). Moments are taken about a reference that the caller chooses near the mean; without one the
// error also grows by 1 + |mean|^2 / variance.

#include <mpi.h>

#include <Eigen/Core>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "analysis/accumulator.hpp"
#include "analysis/identifiability/nearest_tokens.hpp"
#include "analysis/identifiability/sample_head.hpp"
#include "base/index.hpp"

namespace fluxformer::identifiability {

/// The map g(u) = G^T u + b, on rows.
struct LinearMap {
  Matrix slope;               ///< G, d x m
  Eigen::RowVectorXd offset;  ///< b, m

  /// g of n states (n x d): n x m.
  Matrix operator()(const Matrix& states) const;
};

/// The moments of states and descriptions. Samples may be spread over ranks; only `reduce` is collective.
/// Memory: d (d + m) numbers; cost of n tokens: 2 n d (d + m) flops, most efficient with more tokens than
/// channels at a time.
class RidgeSums : public Accumulator {
 public:
  /// Sums moments about 0.
  RidgeSums(int width, int described);
  /// Sums moments about these references, width and described numbers, the same on all ranks.
  RidgeSums(Eigen::RowVectorXd states, Eigen::RowVectorXd descriptions);

  /// Adds one training sample, or some in one matrix: states n x d, descriptions n x m. Throws BadInput for
  /// other shapes.
  void add(const Matrix& states, const Matrix& descriptions);

  double tokens() const { return total()[0]; }
  /// Means over tokens; NaN without tokens.
  Eigen::RowVectorXd mean_state() const;
  Eigen::RowVectorXd mean_description() const;
  /// Mean variance of a channel of the states, tr(C)/d.
  double state_variance() const;
  /// Mean variance of a number of the descriptions.
  double description_variance() const;

  /// One map for each lambda >= 0, no unit. Cost: O(d^3) once, 2 d^2 m for each. Every rank computes the
  /// same. Throws BadInput for a negative lambda, NumericalFailure without tokens or if a state was not
  /// finite.
  std::vector<LinearMap> solve(const std::vector<double>& lambdas) const;

 private:
  using Vector = Eigen::Map<const Eigen::RowVectorXd>;
  Vector sum(std::size_t first, Index count) const { return {total().data() + first, count}; }

  Eigen::RowVectorXd state_, description_;  ///< references
  /// First places of the sums: number of tokens | u | x | |x|^2 | u u^T | u x^T.
  std::size_t described_, squares_, own_, cross_;
};

/// A training or validation sample on the rank that holds it.
struct TokenExample {
  Index place = 0;      ///< place among all samples of its set, over all ranks: 0 .. count - 1
  Matrix states;        ///< n x d
  Matrix descriptions;  ///< n x m
};

/// A map with one hidden layer, a plain value:
///
///     g(u) = mean(x) + s_x (tanh(((u - mean(u)) / s_u) W_1 + b_1) W_2 + b_2)
///
/// means over the training tokens, s the root mean square deviation of a channel (so that one learning rate
/// does for all depths), W_1 d x h, W_2 h x m. Its loss is the sum over tokens of
///
///     l2       |g(u) - x|^2 / (m s_x^2)     1 per token for the best constant map
///     cosine   1 - cos(g(u), x)             1 where a length is 0
class MlpMap {
 public:
  /// Draws weights, normal with variance 1/d and 1/h, keyed by seed; biases 0. `moments`: reduced, of the
  /// training samples. Throws BadInput for fewer than one hidden unit.
  MlpMap(const RidgeSums& moments, int hidden, std::uint64_t seed);

  /// g of n states (n x d): n x m.
  Matrix operator()(const Matrix& states) const;

  /// Sum of the losses of one sample's tokens (not their mean); gradient (of size()) += its gradient. Cost: 6
  /// n h (d + m) flops.
  double add_gradient(const TokenExample& sample, TokenDistance distance,
                      std::vector<double>& gradient) const;
  /// The summed loss alone.
  double loss(const TokenExample& sample, TokenDistance distance) const;

  /// The weights [W_1 | b_1 | W_2 | b_2], row-major.
  const std::vector<double>& weights() const { return weights_; }
  std::vector<double>& weights() { return weights_; }
  std::size_t size() const { return weights_.size(); }
  /// [entry]: 1 for W_1 and W_2, 0 for biases.
  std::vector<char> decays() const;

 private:
  using Weights = Eigen::Map<const Matrix>;
  Weights block(std::size_t first, Index rows, Index columns) const;
  Matrix hidden_of(const Matrix& scaled) const;
  Matrix output_of(const Matrix& hidden) const;
  /// The summed loss, and its derivative by g (n x m) unless it is null.
  double loss_of(const Matrix& g, const Matrix& x, TokenDistance distance, Matrix* derivative) const;

  Eigen::RowVectorXd mean_state_, mean_description_;
  double state_scale_ = 1, description_scale_ = 1;
  Index width_, hidden_, described_;
  std::vector<double> weights_;
};

/// Sizes and rates of a training.
struct MlpSettings {
  int hidden = 128;        ///< h
  int epochs = 50;         ///< largest number of epochs
  int batch = 16;          ///< samples of a step, over all ranks
  int patience = 5;        ///< epochs without a lower validation loss after which training ends
  double rate = 3e-3;      ///< learning rate at the start; falls to 0 as a cosine over `epochs`
  double decay = 1e-4;     ///< weight decay of W_1 and W_2
  std::uint64_t seed = 1;  ///< seed of weights and batches
};

/// A set of samples, spread over ranks.
struct TokenExamples {
  Index count = 0;                    ///< samples on all ranks
  std::vector<TokenExample> samples;  ///< samples of this rank, in any order
};

/// The result of a training.
struct MlpTraining {
  MlpMap map;
  int epochs = 0;         ///< number of epochs that were run
  int best = 0;           ///< the epoch whose weights are kept, from 1; 0: those of the start
  double training = 0;    ///< mean loss per token in that epoch, each batch before its step; NaN for epoch 0
  double validation = 0;  ///< mean loss per token with the kept weights
};

/// Trains a map by AdamW (training/optimiser.hpp) on the mean loss per token. A batch is some whole samples;
/// which ones depends on seed, epoch and their places among all training samples only, so that the training
/// is the same on any number of ranks but for the order of sums (round-off, which AdamW carries on). It ends
/// when the loss on the validation samples has stopped falling; the weights of the epoch where it was least
/// are kept. Gradients are summed over ranks at each step. Collective over `comm`. Throws BadInput for empty
/// sets or settings below 1, NumericalFailure for a loss that is not finite; all ranks together.
MlpTraining train_token_mlp(const TokenExamples& training, const TokenExamples& validation,
                            TokenDistance distance, const MlpSettings& settings, MPI_Comm comm);

}  // namespace fluxformer::identifiability
