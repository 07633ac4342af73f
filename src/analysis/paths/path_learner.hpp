#pragma once

// A network of attention paths all of whose weights are trained: queries and keys, too. For one example x (D
// x T):
//
//   A^{l,h} = softmax over keys of (K_{l,h} x)^T (Q_{l,h} x) / sqrt(G)
//   z^0 = V_0 x,   z^l = 1/sqrt(H) sum_h V_{l,h} z^{l-1} A^{l,h},   f = a . (mean over tokens of z^L)
//
// and the loss is the mean of (f - y)^2. The factors 1/sqrt(D) and 1/sqrt(N) of the theory are part of the
// weights here. Source: docs/model.md, section 11.13.

#include <Eigen/Core>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "analysis/paths/frozen_attention.hpp"
#include "analysis/paths/path_examples.hpp"
#include "base/index.hpp"

namespace fluxformer::paths {

/// The sizes of a network. All layers have equally many heads.
struct LearnerShape {
  int dimension = 0;  ///< D, of a token
  int tokens = 0;     ///< T
  int width = 0;      ///< N
  int layers = 0;     ///< L
  int heads = 0;      ///< H
  int key = 0;        ///< G, of queries and keys
};

/// Places of the weights in the flat vector, each block row-major:
///
///     [V_0: width x dimension][layer][queries, keys: heads x key x dimension]
///     [layer][head][V^T: width in x width out][a: width]
class LearnerWeights {
 public:
  /// Throws BadInput for a size below 1.
  explicit LearnerWeights(const LearnerShape& shape);
  const LearnerShape& shape() const { return shape_; }
  Index size() const { return end_; }

  /// V_0: [width][dimension].
  std::span<const double> input(std::span<const double> all) const;
  /// Queries of one layer, from 0: [head][g][dimension].
  std::span<const double> queries(std::span<const double> all, int layer) const;
  /// Keys of one layer, from 0: [head][g][dimension].
  std::span<const double> keys(std::span<const double> all, int layer) const;
  /// V^T of all layers: [layer][head][in][out].
  std::span<const double> values(std::span<const double> all) const;
  /// a: [width].
  std::span<const double> readout(std::span<const double> all) const;

  /// First places of the blocks.
  Index values_at() const { return values_; }
  Index readout_at() const { return readout_; }
  Index projections_at() const { return projections_; }

  /// Normal numbers of variance 1 / (columns of the matrix), by (seed, place).
  std::vector<double> initial(std::uint64_t seed) const;
  /// The queries and keys as frozen attention with average pooling.
  FrozenAttention attention(std::span<const double> all) const;
  /// The network as a linear function of attentioned inputs, paths x D (`outputs` of path_examples.hpp).
  RowMatrix input_weights(std::span<const double> all) const;

 private:
  LearnerShape shape_;
  Index projections_, values_, readout_, end_;
};

/// Loss and gradient of a batch, in floats or doubles. Not collective.
template <typename Real>
class PathLearner {
 public:
  /// Columns are tokens; rows are contiguous where matrices of weights are meant.
  using Matrix = Eigen::Matrix<Real, Eigen::Dynamic, Eigen::Dynamic>;
  using ByRows = Eigen::Matrix<Real, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

  /// Makes work space for `at_once` examples.
  PathLearner(const LearnerShape& shape, int at_once);
  const LearnerWeights& weights() const { return places_; }

  /// Takes over the weights.
  void set(std::span<const double> weights);
  /// f of each example. x: D x (B T), token after token, example after example; B at most `at_once`. 2 B T
  /// flops for each weight, and 2 B T^2 (G + N) for each head of all layers, of which the last one mixes but
  /// one column.
  Eigen::VectorXd outputs(const Matrix& x);
  /// Adds the gradient of sum (f - y)^2 to `gradient` and returns f before. Three times the cost of
  /// `outputs`.
  Eigen::VectorXd gradient(const Matrix& x, const Eigen::VectorXd& targets, std::span<Real> gradient);

 private:
  using Block = Eigen::Map<ByRows>;
  using Weights = Eigen::Map<const ByRows>;
  Weights projections() const;
  Weights values(int layer) const;
  /// First row of the queries (0) or keys (1) of a head.
  Index row_of(int layer, int which, int head) const;
  Matrix& attention(int layer, int head, int example);
  void forward(const Matrix& x);
  /// Turns the slope of an attention matrix into that of queries and keys.
  void through_attention(int layer, int head, int example, Matrix& slope);
  void back_through_last(const Eigen::VectorXd& error, std::span<Real> gradient);
  void back_through_layer(int layer, std::span<Real> gradient);

  LearnerWeights places_;
  int at_once_, batch_ = 0;
  std::vector<Real> weights_;
  Matrix projected_, projected_slope_;  ///< queries and keys of all heads, their rows x (B T)
  std::vector<Matrix> attention_;       ///< [layer][head][example] T x T
  std::vector<Matrix> states_;          ///< z^0 .. z^{L-1}: N x (B T)
  std::vector<Matrix> mixed_;  ///< z^{l-1} A of all heads: (H N) x (B T), in the last layer (H N) x B
  Matrix pooled_attention_, pooled_states_;  ///< alpha: T x (H B); zbar: N x B
  Matrix state_slope_, mixed_slope_;
};

extern template class PathLearner<float>;
extern template class PathLearner<double>;

}  // namespace fluxformer::paths
