#pragma once

// The state of one depth cell on one rank, what all operators on it share, and the weights that they read.
//
// A slab is [token][sample][channel], row-major, in double: token over the rank's TokenBlock. Row r of the
// (tokens * samples) x width matrix is token r / samples of sample r % samples.
//
// Weights are views of the parameters of one layer (or of one depth of the PDE model), whose memory belongs
// to the model. P is `const float` or `const double` (weights in the arithmetic of the kernels) or `double`
// (gradients). Matrices are row-major [out][in], as in y = W x + b and as PyTorch stores them.

#include <type_traits>
#include <vector>

#include "base/index.hpp"
#include "mesh/token_line.hpp"
#include "operators/layer_norm.hpp"

namespace fluxformer {

/// The visible tokens, the same for all depth cells.
struct TokenMask {
  /// The number of real tokens (global indices 0 .. length-1) of each sample, at least 1; the others are
  /// padding. Empty: all are real. Terms read it at each call, so that it may change from batch to batch;
  /// the rest of the mask may not.
  std::vector<int> length;
  /// Token x sees tokens 0 .. x only.
  bool causal = false;
  /// Quadrature weight w_y of each token by global index; empty: 1.
  std::vector<double> weight;

  /// True if a token (global index) is not padding.
  bool real(int sample, int token) const { return length.empty() || token < length[sample]; }
};

class Dropout;
class KeptTokens;

/// Sizes, mask and dropout that all slab operators of a model share. They borrow it: it must outlive them.
struct SlabContext {
  const TokenLine* line = nullptr;
  int samples = 1;
  int width = 1;
  TokenMask mask = {};
  const Dropout* dropout = nullptr;  ///< dropout of the model's branches, in training; null: none
  /// Keys, values and states of tokens in front of a stretch of a line, to which those of the stretch are added
  /// (causal masks, values without tapes); null: none.
  KeptTokens* kept = nullptr;

  /// Real tokens of a sample on the whole line.
  int real_tokens(int sample) const { return mask.length.empty() ? line->tokens() : mask.length[sample]; }
  /// Numbers of one token: samples * width.
  Index row() const { return Index{samples} * width; }
  /// Rows of the slab: this rank's tokens * samples.
  int rows() const { return line->block().count() * samples; }
  /// Numbers of the slab: rows * width.
  Index size() const { return row() * line->block().count(); }
};

/// Coefficients of the equation are double whatever the arithmetic of the kernels.
template <class P>
using Coefficient = std::conditional_t<std::is_const_v<P>, const double, double>;

/// Weights of attention, A_s(u) = W_O concat_heads(k W_V N(u)) + b_O, times alpha, with H heads of c channels
/// and G groups of keys and values. Arrays that the model does not have are null, biases for example.
template <class P>
struct AttentionWeights {
  P* gain = nullptr;    ///< gain of N [d], null: no N; for norm = post the norm that follows the sub-layer
  P* bias = nullptr;    ///< bias of N [d]
  P* w_qkv = nullptr;   ///< W_Q, W_K, W_V stacked [(H + 2 G) c][d]
  P* b_qkv = nullptr;   ///< [(H + 2 G) c]
  P* w_o = nullptr;     ///< [d][H c]
  P* b_o = nullptr;     ///< [d]
  P* q_gain = nullptr;  ///< gain of the RMSNorm of each head's queries [c]
  P* k_gain = nullptr;  ///< the same of keys [c]
  Coefficient<P>* alpha = nullptr;  ///< [1]
  NormSettings norm = {};           ///< map and eps of all these norms (queries and keys: eps alone)
  // Of the layer, but no weights:
  const double* theta = nullptr;  ///< angles per token of the rotary positions [rotary channels / 2]
  int window = 0;  ///< how far a token hears (operators/attention/attention.hpp); 0: all tokens
};

/// Weights of the reaction, R_s(u) = W_2 g(W_1 N(u) + b_1) + b_2, or gated
/// W_2 (g(W_G N(u) + b_G) . (W_1 N(u) + b_1)) + b_2, times rho. Arrays that the model does not have are null.
template <class P>
struct ReactionWeights {
  P* gain = nullptr;              ///< gain of N [d]
  P* bias = nullptr;              ///< bias of N [d]
  P* w_g = nullptr;               ///< [f][d]
  P* b_g = nullptr;               ///< [f]
  P* w_1 = nullptr;               ///< [f][d]
  P* b_1 = nullptr;               ///< [f]
  P* w_2 = nullptr;               ///< [d][f]
  P* b_2 = nullptr;               ///< [d]
  Coefficient<P>* rho = nullptr;  ///< [1]
  NormSettings norm = {};         ///< map and eps of N
};

/// Coefficient of token diffusion: kappa >= 0, one value or one per channel, in token spacings squared per
/// unit of depth time.
template <class P>
struct DiffusionWeights {
  Coefficient<P>* kappa = nullptr;  ///< [1] or [d]
  bool per_channel = false;         ///< kappa has one value per channel
};

/// Coefficient of token transport: nu >= 0, one value or one per channel, in tokens per unit of depth time.
template <class P>
struct TransportWeights {
  Coefficient<P>* nu = nullptr;  ///< [1] or [d]
  bool per_channel = false;      ///< nu has one value per channel
};

/// All weights that one layer map reads, or a gradient of the same shape.
template <class P>
struct LayerWeights {
  DiffusionWeights<P> diffusion;
  TransportWeights<P> transport;
  AttentionWeights<P> attention;
  ReactionWeights<P> reaction;
  ReactionWeights<P> first_reaction;  ///< macaron: the half step before attention (may equal `reaction`)
};

}  // namespace fluxformer
