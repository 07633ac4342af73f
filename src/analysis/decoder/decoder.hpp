#pragma once

// The model of the experiments of arXiv 2410.10986: a decoder with one head per layer, head width d,
//
//   X_0 = W_E[token] + W_pos,   layer:  R = rho X + A(n(X)) n(X) W_V W_O,   X' = R + relu(n(R) W_in + b_in) W_out + b_out
//   logits = n(X_depth) W_U + b_U
//
// with scores Q K^T / sqrt(d), n = LayerNorm without gain and bias or the identity, and its loss on token batches.
// With the LayerNorms behind the sums instead (post-norm),
//
//   R = n(rho X + A(X) X W_V W_O),   X' = n(R + relu(R W_in + b_in) W_out + b_out),   logits = X_depth W_U + b_U

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analysis/decoder/addition_task.hpp"
#include "analysis/decoder/attention_layer.hpp"
#include "analysis/decoder/row_maps.hpp"

namespace fluxformer::decoder {

/// Where LayerNorms stand: in front of attention, MLP and unembedding, or behind the two sums of a layer.
enum class NormPlace { before, behind };

/// Sizes and kind of a decoder.
struct DecoderShape {
  /// `hidden`: width of the MLPs; 0: there are none, as in the source's study of linear attention.
  Index vocabulary = addition_vocabulary, length = addition_length, width = 16, hidden = 64, depth = 1;
  Scores scores = Scores::softmax;
  Mask mask = Mask::causal;
  double residual = 1;                                ///< rho
  std::optional<double> norm_epsilon = std::nullopt;  ///< of the LayerNorms; none: n is the identity
  NormPlace norm_place = NormPlace::before;

  /// The epsilon of the LayerNorms at this place; none: there are none.
  std::optional<double> norms(NormPlace place) const {
    return place == norm_place ? norm_epsilon : std::nullopt;
  }
  /// Sizes and kind of one of its attention layers.
  AttentionForm form() const;
};

/// Weights of one layer: d x d, W_in d x h, W_out h x d; biases are rows.
struct DecoderLayerWeights {
  Matrix query, key, value, output, in, in_bias, out, out_bias;
};

/// All weights, or a direction in their space, or a gradient.
struct DecoderWeights {
  Matrix embedding, position;  ///< vocabulary x d, length x d
  std::vector<DecoderLayerWeights> layers;
  Matrix readout, readout_bias;  ///< d x vocabulary, 1 x vocabulary
};

/// One matrix in the flat vector.
struct ParameterBlock {
  std::string name;  ///< W_E, W_pos, W_Q, W_K, W_V, W_O, W_in, b_in, W_out, b_out, W_U, b_U
  Index layer;       ///< -1: belongs to none
  Index begin, rows, columns;

  Index size() const { return rows * columns; }  ///< numbers
};

/// In the order of the flat vector: W_E, W_pos, each layer, W_U, b_U.
std::vector<ParameterBlock> parameter_blocks(const DecoderShape& shape);
/// The flat vector, matrices by rows.
Vector flattened(const DecoderWeights& weights);
/// The inverse of flattened().
DecoderWeights unflattened(const Vector& theta, const DecoderShape& shape);

/// All matrices normal with standard deviation 0.8 / sqrt(d), biases 0; numbers keyed by (seed, name, entry).
DecoderWeights initial_decoder(const DecoderShape& shape, std::uint64_t seed);
/// Token and position embeddings normal with standard deviation sigma: for equal seeds the same numbers times sigma.
void scale_embeddings(DecoderWeights& weights, std::uint64_t seed, double sigma);

/// Of the logits: cross entropy with the next token, or the sum of squares to the one-hot of the token at hand.
enum class LogitLoss { cross_entropy, squared_error };

/// X_0 of one sequence of the batch, length x d.
Matrix embedded(const DecoderWeights& weights, const TokenBatch& batch, Index sequence);

/// The attention layers of a decoder of depth 1, one for each sequence, with everything behind them as tail, for
/// the closed form. `weight`: of one row in the loss, 1 / (scored rows of all ranks) for a mean. Throws
/// std::logic_error for another depth.
std::vector<AttentionLayer> attention_layers(const DecoderShape& shape, const DecoderWeights& weights,
                                             const TokenBatch& batch, LogitLoss loss, double weight);

// One layer of the decoder with its tangent, its adjoint and the tangent of the adjoint (the R-operator of
// Pearlmutter 1994), for products with the Hessian of a stack of layers. Arrays hold all sequences of the batch,
// one below the other (n L x d); attention works sequence by sequence.
//
//   forward     A from T = tau Q K^T,  Z = A V,   R = rho X + Z W_O,   X' = R + relu(n(R) W_in + b_in) W_out + b_out
//               post-norm: R and X' are n of these sums
//   tangent     A_dot = A o (T_dot - rowsum(A o T_dot)), linear: T_dot on the mask; the others by the product rule
//   adjoint     T_bar = A o (A_bar - s), s = rowsum(A o A_bar), linear: A_bar on the mask
//   its tangent T_bar_dot = A_dot o (A_bar - s) + A o (A_bar_dot - s_dot), s_dot = rowsum(A_dot o A_bar + A o A_bar_dot)

/// Adjoints (bar) of what a layer computes, or their tangents.
struct LayerAdjoint {
  Matrix normed, q, k, v, z, sum, r, normed_r, pre, last,
      next;                             ///< n(X), ..., R and X' behind `sum` and `last`
  std::vector<Matrix> weights, scores;  ///< A_bar and T_bar of each sequence
};

/// Values of a layer, or their tangents.
struct LayerValues {
  Matrix x, normed, q, k, v, z, sum, r, normed_r, hidden, last, next;  ///< likewise
  std::vector<Matrix> weights;                                         ///< A of each sequence
};

/// At one theta and one batch. O(n L (L d + d^2 + d h)) for each call.
class DecoderLayer {
 public:
  /// `x`: n length x d.
  DecoderLayer(const DecoderShape& shape, DecoderLayerWeights weights, const Matrix& x);

  /// X'.
  const Matrix& output() const { return at_.next; }
  /// Values' tangent along x_dot and a direction of the weights.
  LayerValues tangent(const Matrix& x_dot, const DecoderLayerWeights& direction) const;
  /// X_bar from X'_bar; `gradient` is overwritten, and `kept` by what adjoint_tangent needs.
  Matrix adjoint(const Matrix& next_bar, DecoderLayerWeights& gradient, LayerAdjoint& kept) const;
  /// The tangent of X_bar and of the gradient, from that of X'_bar.
  Matrix adjoint_tangent(const Matrix& next_bar_dot, const LayerAdjoint& bar, const LayerValues& dot,
                         const DecoderLayerWeights& direction, DecoderLayerWeights& gradient_dot) const;

 private:
  Matrix masked(Matrix scores) const;
  Matrix normed_times(const std::optional<RowNorm>& norm, const Matrix& v) const;

  DecoderShape shape_;
  DecoderLayerWeights w_;
  double tau_;
  LayerValues at_;
  Matrix on_;                                   // 1 where the pre-activation is positive
  std::optional<RowNorm> norm_, norm_r_;        // in front of attention and MLP
  std::optional<RowNorm> behind_, behind_mlp_;  // behind their sums
};

// Loss, gradient and products with the Hessian of a decoder of any depth with respect to all its weights. A
// product costs about four gradients, one with H_o about two; memory per layer that of one gradient, with a
// matrix length x length for each sequence.

/// At one theta and one batch; a loss over several batches is a sum. Not collective.
class DecoderProducts {
 public:
  /// `weight`: of one scored row in the loss (1 / scored rows for a mean, 1 for a sum).
  DecoderProducts(const DecoderShape& shape, DecoderWeights weights, TokenBatch batch, LogitLoss loss,
                  double weight);

  double loss() const { return loss_; }
  const Vector& gradient() const { return gradient_; }
  Index size() const { return gradient_.size(); }
  /// The part times a direction of length p.
  Vector product(HessianTerm part, const Vector& direction) const;
  /// Rows and columns [begin, begin + count) of the part, from `count` products.
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
