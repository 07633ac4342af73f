#pragma once

// The structure of a model: sizes, depth, order of sub-layers, place of normalisation.

#include <string>
#include <vector>

#include "model/depth_cells.hpp"
#include "operators/attention/attention.hpp"
#include "operators/reaction/reaction.hpp"

namespace fluxformer {

enum class ModelKind { transformer, pde };
/// How parameters vary with depth: one set per layer, or linear between knots.
enum class DepthVariation { constant, linear };
enum class Norm { pre, post, sphere, none };
enum class SubLayerOrder { sequential, parallel, macaron };
/// The linear maps of a layer that have biases: all; W_Q, W_K, W_V; these and W_O; those of the reaction; none,
/// and then norms have none, either.
enum class Biases { all, qkv, attention, reaction, none };
/// The discretisation of equation (1) through depth (model/equation.hpp).
enum class DepthScheme { shift, upwind, upwind2 };
/// How a sub-layer advances over its part of h: forward Euler (a Transformer) or the explicit midpoint rule.
enum class SubLayerIntegrator { euler, midpoint };

/// The tokens that a classifier sees: the mean over the real ones, token 0, the last real one, or all class
/// tokens side by side.
enum class Pooling { mean, first, last, front };
/// The activation between the dense map of a head and its output.
enum class HeadActivation { none, tanh, relu, gelu_erf, gelu_tanh };

/// A dense map d x d in front of the output matrix of a head: g = N(act(T p + t)).
struct HeadTransform {
  bool present = false;                              ///< false: g = p
  HeadActivation activation = HeadActivation::none;  ///< act
  bool norm = false;                                 ///< N is the norm of the model, not the identity
  bool bias = true;                                  ///< there is a t
};

/// The head that turns every token into logits of words.
struct WordHead {
  bool present = false;
  bool own_matrix = false;       ///< false: the output matrix is the word table of the embedding
  bool bias = true;              ///< the logits have a bias
  HeadTransform transform = {};  ///< transform in front of the output matrix
};

/// The angles of rotary positions (operators/attention/attention.hpp), with all scalings of published models.
struct RotaryAngles {
  std::vector<double> theta = {};  ///< [table][rotary channels / 2], angle per token
  std::vector<int> table = {};     ///< the table of each layer, counted from 0
};

/// The structure of a model: all that decides which parameters it has and what is computed with them, but not
/// their values.
struct ModelSpec {
  ModelKind kind = ModelKind::transformer;
  int layers = 1;  ///< S, the depth of the domain in layers
  int knots = 1;   ///< parameter sets: S for constant weights, K >= 1 for linear
  DepthVariation variation = DepthVariation::constant;
  int width = 1;  ///< d
  int ffn = 1;    ///< f
  AttentionSettings attention = {};
  Activation activation = Activation::gelu_erf;
  bool gated = false;  ///< the reaction multiplies g(W_G N u + b_G) and W_1 N u + b_1
  Biases biases = Biases::all;
  Norm norm = Norm::pre;
  NormMap norm_map = NormMap::layer;  ///< the map of every norm
  double norm_eps = layer_norm_eps;   ///< eps of every norm
  bool first_norm = true;             ///< false: norm = pre, but attention of the first layer has no norm
  bool residual = true;
  SubLayerOrder order = SubLayerOrder::sequential;
  SubLayerIntegrator subflow = SubLayerIntegrator::euler;
  bool own_halves = false;  ///< macaron: the first half step has its own weights
  bool kappa_per_channel = false;
  bool transport = false;  ///< there is transport over tokens, by nu
  bool nu_per_channel = false;
  RotaryAngles rotary = {};       ///< for attention.rotary
  std::vector<int> windows = {};  ///< AttentionWeights::window of each layer; empty: none
  int longest = 0;  ///< tokens that lines had in training, if positions do not limit them; 0: unknown
  bool longer_refused = false;  ///< the model is another one for longer lines than these
  bool causal = false;  ///< a token attends only to itself and earlier ones; the context's mask must agree
  int cells = 0;        ///< depth cells in training; 0: unknown
  std::vector<double> edges = {};  ///< depths s_0 .. s_M of their edges; empty: equal cells
  int features = 0;                ///< numbers per input token; 0: no linear embedding
  int vocabulary = 0;              ///< words, for tokens that are word indices (then features = 0); 0: none
  int segments = 0;                ///< rows of the segment embedding, for words; 0: none
  int pad_word = -1;     ///< word that would shift the positions behind it, and so is no real token; -1: none
  int tokens = 0;        ///< learned positions; 0: none
  int class_tokens = 0;  ///< learned vectors in place of the first tokens; with features only
  bool embedding_norm = false;  ///< a norm on the embedded tokens
  bool final_norm = false;      ///< norm = pre: a final norm also without a head
  int classes = 0;              ///< outputs of the classifier; 0: none
  bool head_bias = true;        ///< the classifier has a bias
  Pooling pooling = Pooling::mean;
  HeadTransform head_transform = {};  ///< transform in front of the classifier
  WordHead word_head = {};

  /// The cells of the training.
  DepthCells depth() const { return {layers, cells, edges}; }
  /// Takes cells and edges of `depth`, of as many layers.
  void set_depth(const DepthCells& depth) {
    cells = depth.cells;
    edges = depth.edges;
  }
  /// Numbers per input token: features, 1 for a word index, 2 with the index of its segment; 0 without an
  /// embedding.
  int input_size() const { return vocabulary > 0 ? (segments > 0 ? 2 : 1) : features; }
  /// Tokens whose states the classifier reads side by side.
  int pooled_tokens() const { return pooling == Pooling::front ? class_tokens : 1; }
  /// Map and eps of every norm.
  NormSettings norm_settings() const { return {norm_map, norm_eps}; }
  /// True if norms add a bias: RMSNorm has none.
  bool norms_have_biases() const { return norm_map == NormMap::layer && biases != Biases::none; }
  bool qkv_have_biases() const {
    return biases == Biases::all || biases == Biases::qkv || biases == Biases::attention;
  }
  bool output_has_bias() const { return biases == Biases::all || biases == Biases::attention; }
  bool reaction_has_biases() const { return biases == Biases::all || biases == Biases::reaction; }
  /// Rows of W_Q and of W_K: H c and G c.
  int query_width() const { return attention.heads * attention.channels(width); }
  int key_width() const { return attention.key_groups() * attention.channels(width); }
  /// The window of a layer (counted from 1), 0: none; its angles of rotary positions, null: none.
  int window(int layer) const { return windows.empty() ? 0 : windows[layer - 1]; }
  const double* theta(int layer) const {
    return rotary.table.empty()
               ? nullptr
               : rotary.theta.data() + rotary.table[layer - 1] * (attention.rotary.channels / 2);
  }
  /// True if the loss of the model is that of words: it has a word head and no classes.
  bool guesses_words() const { return word_head.present && classes == 0; }
  /// True if the last state passes a norm before it is read.
  bool has_final_norm() const {
    return norm == Norm::pre && (final_norm || classes > 0 || word_head.present);
  }

  /// Throws BadInput naming the key for combinations that are not defined, such as heads that do not divide
  /// the width. (Attention refuses sinkhorn with a causal mask.)
  void validate() const;
};

/// The sizes of a model that its input and its task decide; 0 stands for none.
struct InputShape {
  int features = 0, vocabulary = 0, tokens = 0, classes = 0, segments = 0;
  bool word_head = false;        ///< the model guesses words
  bool own_word_matrix = false;  ///< the word head has a matrix of its own
  bool any() const { return features > 0 || vocabulary > 0; }
};

/// The word of a value in decks and model files, for the enumerations above, Activation, Kernel and
/// Normalisation.
template <class E>
std::string to_word(E value);
/// The inverse of `to_word`. Throws BadInput for an unknown word.
template <class E>
E from_word(const std::string& word);

}  // namespace fluxformer
