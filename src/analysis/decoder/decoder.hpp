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

}  // namespace fluxformer::decoder
