#pragma once

// The model of the experiments of arXiv 2410.10986: a decoder with one head per layer, head width d,
//
//   X_0 = W_E[token] + W_pos
//   layer:  R = rho X + A(n(X)) n(X) W_V W_O,   X' = R + relu(n(R) W_in + b_in) W_out + b_out
//   logits = n(X_depth) W_U + b_U
//
// with scores Q K^T / sqrt(d), n = LayerNorm without gain and bias or the identity, and its loss on token
// batches. With the LayerNorms behind the sums instead (post-norm),
//
//   layer:  R = n(rho X + A(X) X W_V W_O),   X' = n(R + relu(R W_in + b_in) W_out + b_out)
//   logits = X_depth W_U + b_U

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analysis/decoder/addition_task.hpp"
#include "analysis/decoder/attention_layer.hpp"
#include "analysis/decoder/row_maps.hpp"
#include "base/index.hpp"

namespace fluxformer::decoder {

/// Place of the LayerNorms: in front of attention, MLP and unembedding, or behind the two sums of a layer.
enum class NormPlace { before, behind };

/// Sizes and kind of a decoder.
struct DecoderShape {
  /// Sizes. `hidden` is the width of the MLPs; 0: there are none, as in the source's study of linear
  /// attention.
  Index vocabulary = addition_vocabulary, length = addition_length, width = 16, hidden = 64, depth = 1;
  Scores scores = Scores::softmax;
  Mask mask = Mask::causal;
  double residual = 1;  ///< rho
  std::optional<double> norm_epsilon =
      std::nullopt;  ///< epsilon of the LayerNorms; std::nullopt: n is the identity
  NormPlace norm_place = NormPlace::before;

  /// Epsilon of the LayerNorms at a place; std::nullopt if there are none.
  std::optional<double> norms(NormPlace place) const {
    return place == norm_place ? norm_epsilon : std::nullopt;
  }
  /// Form of the attention of each layer.
  AttentionForm form() const;
};

/// Weights of one layer: W_Q, W_K, W_V, W_O d x d, W_in d x h, W_out h x d; biases are rows.
struct DecoderLayerWeights {
  Matrix query, key, value, output, in, in_bias, out, out_bias;
};

/// All weights of a decoder, or a direction in their space, or a gradient.
struct DecoderWeights {
  Matrix embedding, position;  ///< vocabulary x d, length x d
  std::vector<DecoderLayerWeights> layers;
  Matrix readout, readout_bias;  ///< d x vocabulary, 1 x vocabulary
};

/// Place of one matrix in the flat vector.
struct ParameterBlock {
  std::string name;  ///< W_E, W_pos, W_Q, W_K, W_V, W_O, W_in, b_in, W_out, b_out, W_U, b_U
  Index layer;       ///< layer from 0; -1 if the matrix belongs to none
  Index begin, rows, columns;

  Index size() const { return rows * columns; }
};

/// Matrices in the order of the flat vector: W_E, W_pos, each layer, W_U, b_U.
std::vector<ParameterBlock> parameter_blocks(const DecoderShape& shape);
/// Flat vector of the weights, matrices by rows.
Vector flattened(const DecoderWeights& weights);
/// Weights of a flat vector: the inverse of flattened().
DecoderWeights unflattened(const Vector& theta, const DecoderShape& shape);

/// Random weights: matrices are normal with standard deviation 0.8 / sqrt(d), biases 0; numbers are keyed by
/// (seed, name, entry).
DecoderWeights initial_decoder(const DecoderShape& shape, std::uint64_t seed);
/// Replaces token and position embeddings by normal numbers of standard deviation sigma: for equal seeds the
/// same numbers times sigma.
void scale_embeddings(DecoderWeights& weights, std::uint64_t seed, double sigma);

/// Loss of a row of logits: cross entropy with the next token, or squared error to the one-hot of the current
/// token.
enum class LogitLoss { cross_entropy, squared_error };

/// Embedding X_0 of one sequence of the batch, length x d.
Matrix embedded(const DecoderWeights& weights, const TokenBatch& batch, Index sequence);

/// Attention layers of a decoder of depth 1, one for each sequence, with everything behind them as tail, for
/// the closed form. `weight` is that of one row in the loss, 1 / (scored rows of all ranks) for a mean.
/// Throws std::logic_error for another depth.
std::vector<AttentionLayer> attention_layers(const DecoderShape& shape, const DecoderWeights& weights,
                                             const TokenBatch& batch, LogitLoss loss, double weight);

// One layer of the decoder with its tangent, its adjoint and the tangent of the adjoint (the R-operator of
// Pearlmutter 1994), for products with the Hessian of a stack of layers. Arrays hold all sequences of the
// batch, one below the other (n L x d); attention works sequence by sequence.
//
//   forward     A from T = tau Q K^T,  Z = A V,  R = rho X + Z W_O,
//               X' = R + relu(n(R) W_in + b_in) W_out + b_out
//               post-norm: R and X' are n of these sums
//   tangent     A_dot = A o (T_dot - rowsum(A o T_dot)), linear: T_dot on the mask; else by the product rule
//   adjoint     T_bar = A o (A_bar - s), s = rowsum(A o A_bar), linear: A_bar on the mask
//   its tangent T_bar_dot = A_dot o (A_bar - s) + A o (A_bar_dot - s_dot),
//               s_dot = rowsum(A_dot o A_bar + A o A_bar_dot)

/// Adjoints (bar) of the values of a layer, or their tangents.
struct LayerAdjoint {
  Matrix normed, q, k, v, z, sum, r, normed_r, pre, last,
      next;                             ///< n(X), ..., R and X' behind `sum` and `last`
  std::vector<Matrix> weights, scores;  ///< A_bar and T_bar of each sequence
};

/// Values of a layer, or their tangents.
struct LayerValues {
  Matrix x, normed, q, k, v, z, sum, r, normed_r, hidden, last,
      next;                     ///< X, n(X), ..., R and X' behind `sum` and `last`
  std::vector<Matrix> weights;  ///< A of each sequence
};

/// Layer at one theta and one batch. Each call costs O(n L (L d + d^2 + d h)).
class DecoderLayer {
 public:
  /// `x` is n length x d.
  DecoderLayer(const DecoderShape& shape, DecoderLayerWeights weights, const Matrix& x);

  /// Output X'.
  const Matrix& output() const { return at_.next; }
  /// Tangents of all values along x_dot and a direction of the weights.
  LayerValues tangent(const Matrix& x_dot, const DecoderLayerWeights& direction) const;
  /// Adjoint X_bar from X'_bar; overwrites `gradient`, and `kept` with what adjoint_tangent needs.
  Matrix adjoint(const Matrix& next_bar, DecoderLayerWeights& gradient, LayerAdjoint& kept) const;
  /// Tangents of X_bar and of the gradient, from the tangent of X'_bar.
  Matrix adjoint_tangent(const Matrix& next_bar_dot, const LayerAdjoint& bar, const LayerValues& dot,
                         const DecoderLayerWeights& direction, DecoderLayerWeights& gradient_dot) const;

 private:
  Matrix masked(Matrix scores) const;
  Matrix normed_times(const std::optional<RowNorm>& norm, const Matrix& v) const;

  DecoderShape shape_;
  DecoderLayerWeights w_;
  double tau_;
  LayerValues at_;
  Matrix on_;                                   // 1 if the pre-activation is positive, else 0
  std::optional<RowNorm> norm_, norm_r_;        // in front of attention and MLP
  std::optional<RowNorm> behind_, behind_mlp_;  // behind their sums
};

/// Loss, gradient and products with the Hessian of a decoder of any depth with respect to all its weights, at
/// one theta and one batch; a loss over several batches is a sum. A product costs about four gradients, one
/// with H_o about two. Memory of a layer: that of one gradient, with a matrix length x length for each
/// sequence. Not collective.
class DecoderProducts {
 public:
  /// `weight` is that of one scored row in the loss (1 / scored rows for a mean, 1 for a sum).
  DecoderProducts(const DecoderShape& shape, DecoderWeights weights, TokenBatch batch, LogitLoss loss,
                  double weight);

  double loss() const { return loss_; }
  const Vector& gradient() const { return gradient_; }
  Index size() const { return gradient_.size(); }
  /// Product of a part with a direction of length p.
  Vector product(HessianTerm part, const Vector& direction) const;
  /// Rows and columns [begin, begin + count) of a part, from `count` products.
  Matrix block(HessianTerm part, Index begin, Index count) const;

 private:
  struct Tangents;
  Tangents tangents(const Vector& direction) const;
  Vector adjoint(const Matrix& logits_bar) const;
  Vector adjoint_tangent(const Tangents& dot, const Matrix& logits_bar_dot) const;
  void seed();
  Matrix seed_tangent(const Matrix& logits_dot) const;
  Matrix normed_times(const Matrix& v) const;
  void scatter(const Matrix& x_bar, DecoderWeights& gradient) const;

  DecoderShape shape_;
  DecoderWeights w_;
  TokenBatch batch_;
  LogitLoss kind_;
  double weight_;
  std::vector<DecoderLayer> layers_;
  std::vector<LayerAdjoint> adjoints_;
  std::optional<RowNorm> norm_;
  Matrix normed_, normed_bar_;  // n(X_depth)
  Matrix logits_;      // n length x vocabulary; in scored rows probabilities (cross entropy) or residuals
  Matrix logits_bar_;  // zero in rows that are not scored
  double loss_ = 0;
  Vector gradient_;
};

}  // namespace fluxformer::decoder
