#pragma once

// A map with one hidden layer from hidden states back to embedded tokens:
//
//   g(u) = mean(x) + s_x (tanh(((u - mean(u)) / s_u) W_1 + b_1) W_2 + b_2)
//
// means over the training tokens, s the root mean square deviation of a channel (so that one learning rate does for
// all depths), W_1 d x h, W_2 h x m. Its loss is the sum over tokens of
//
//   l2       |g(u) - x|^2 / (m s_x^2)     1 per token for the best constant map
//   cosine   1 - cos(g(u), x)             1 where a length is 0
//
// Source: Brunner et al., arXiv 1908.04211, section 4.1. Training: token_mlp_training.hpp.

#include <Eigen/Core>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "analysis/identifiability/attention_head.hpp"
#include "analysis/identifiability/nearest_tokens.hpp"
#include "analysis/identifiability/token_map.hpp"

namespace fluxformer::identifiability {

/// A sample on the rank that holds it.
struct TokenExample {
  std::size_t place = 0;  ///< among all samples of its set, over all ranks: 0 .. count - 1, each once
  Matrix states;          ///< n x d
  Matrix descriptions;    ///< n x m
};

/// The map, a plain value.
class MlpMap {
 public:
  /// Random weights, normal with variance 1/d and 1/h, keyed by seed; biases 0. `moments`: reduced, of the training
  /// samples. Throws BadInput for fewer than one hidden unit.
  MlpMap(const RidgeSums& moments, int hidden, std::uint64_t seed);

  /// Of n states (n x d): n x m.
  Matrix operator()(const Matrix& states) const;

  /// Sum of the losses of one sample's tokens (not their mean); gradient (of size()) += its gradient. Cost: 6 n h (d + m)
  /// flops.
  double add_gradient(const TokenExample& sample, TokenDistance distance,
                      std::vector<double>& gradient) const;
  /// The same sum alone.
  double loss(const TokenExample& sample, TokenDistance distance) const;

  /// [W_1 | b_1 | W_2 | b_2], row-major.
  const std::vector<double>& weights() const { return weights_; }
  std::vector<double>& weights() { return weights_; }
  std::size_t size() const { return weights_.size(); }
  /// [entry]: 1 for W_1 and W_2, 0 for biases.
  std::vector<char> decays() const;

 private:
  using Weights = Eigen::Map<const Matrix>;
  Weights block(std::size_t first, Eigen::Index rows, Eigen::Index columns) const;
  Matrix hidden_of(const Matrix& scaled) const;
  Matrix output_of(const Matrix& hidden) const;
  /// The summed loss, and its derivative by g (n x m) unless it is null.
  double loss_of(const Matrix& g, const Matrix& x, TokenDistance distance, Matrix* derivative) const;

  Eigen::RowVectorXd mean_state_, mean_description_;
  double state_scale_ = 1, description_scale_ = 1;
  Eigen::Index width_, hidden_, described_;
  std::vector<double> weights_;
};

}  // namespace fluxformer::identifiability
