#pragma once

// All parameters of a model in one flat vector of doubles, with named views.
//
// Order: embedding | one block per knot, all of the same layout | final norm | head | word head | alpha, rho.
// Within a block the names are those of model files: norm1_gain, norm1_bias, W_Q, W_K, W_V, b_Q, b_K, b_V,
// W_O, b_O, q_gain, k_gain, norm2_gain, norm2_bias, W_G, b_G, W_1, b_1, W_2, b_2, [half_* for the first half of
// macaron], kappa, nu. Arrays that a model does not have are left out; all blocks are alike, but that the first
// has no norm1_* for ModelSpec::first_norm = false.

#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/index.hpp"
#include "model/model_spec.hpp"

namespace fluxformer {

/// The part of a model's parameters that a rank holds: by default all of them. alpha and rho are in every
/// part; the word table is where the embedding is, and with the head that guesses words by it.
struct ParameterShare {
  int first_knot = 0, last_knot = -1;  ///< 0-based, both included; -1: the last of the model
  bool embedding = true, head = true;  ///< the arrays before the first layer and behind the last
  bool words = false;                  ///< hold the word table in any case
};

/// A named array within the flat vector.
struct ParameterView {
  std::string group;  ///< "embedding", "layers/<l>", "final_norm", "head", "word_head", "equation"
  std::string name;   ///< "W_Q", for example
  std::vector<int> shape;
  Index offset = 0;
  /// The number of arrays, and of numbers, that come before this one in the model with all its parameters.
  Index place = 0, offset_in_model = 0;
  /// Number of entries, the product of the extents.
  Index size() const;
  std::string path() const { return group + "/" + name; }
};

/// Number of parameters of a share, as a real number: it may be too large for memory or for a whole number.
double parameter_count(const ModelSpec& spec, const ParameterShare& share = {});

/// The layout of a share: the place of each array in its flat vector.
class ParameterLayout {
 public:
  /// Lays out the arrays of a model of this spec: no embedding without features or words, and so on.
  explicit ParameterLayout(const ModelSpec& spec, const ParameterShare& share = {});
  const ParameterShare& share() const { return share_; }
  Index size() const { return size_; }
  /// Number of parameters of the whole model.
  Index size_of_model() const { return whole_.size; }
  const std::vector<ParameterView>& views() const { return views_; }
  /// The array of this path. Throws std::out_of_range for an unknown one.
  const ParameterView& at(const std::string& path) const;
  bool has(const std::string& path) const;
  /// First and last knot of the share, 0-based.
  int first_knot() const { return share_.first_knot; }
  int last_knot() const { return share_.last_knot; }
  /// Offset of the block of a knot of the share; for the knot after the last, the end of the blocks. A block
  /// without norm1_* overlaps what is in front of it: all have the same size.
  Index block_offset(int knot) const { return first_block_ + block_size_ * (knot - share_.first_knot); }
  Index block_size() const { return block_size_; }
  /// Offset of the first number of a layer of the share.
  Index layers_begin() const { return layers_begin_; }
  Index alpha() const { return alpha_; }
  Index rho() const { return alpha_ + 1; }

  /// The weights of the layer whose block starts at `block`, with kappa and nu from `coefficients` (the block in
  /// double) and alpha and rho from `alpha_rho` (two numbers). Arrays that the model does not have are null;
  /// what differs from layer to layer beside weights is left to DepthWeights.
  template <class P>
  LayerWeights<P> layer(P* block, Coefficient<P>* coefficients, Coefficient<P>* alpha_rho) const;

 private:
  struct Extent {
    Index views = 0, size = 0;
  };
  /// Lays out the next array of the model, which the share holds or not.
  void add(bool held, const std::string& group, const std::string& name, std::vector<int> shape);
  /// Looks up the places of the arrays of a layer, of these names.
  void set_places(const std::map<std::string, Index>& places, bool own_halves);
  bool kappa_per_channel_, nu_per_channel_;
  NormSettings norm_;
  ParameterShare share_;
  Extent whole_;
  std::vector<ParameterView> views_;
  Index size_ = 0, layers_begin_ = 0, first_block_ = 0, block_size_ = 0, alpha_ = 0;
  static constexpr Index nowhere = -1;
  /// Places of the arrays of a layer within its block; `nowhere`: the model does not have it. Looked up once, since
  /// every cell of every pass asks for its weights.
  struct AttentionPlaces {
    Index gain = nowhere, bias = nowhere, w_qkv = nowhere, b_qkv = nowhere, w_o = nowhere, b_o = nowhere,
          q_gain = nowhere, k_gain = nowhere;
  };
  struct ReactionPlaces {
    Index gain = nowhere, bias = nowhere, w_g = nowhere, b_g = nowhere, w_1 = nowhere, b_1 = nowhere,
          w_2 = nowhere, b_2 = nowhere;
  };
  AttentionPlaces attention_;
  ReactionPlaces reaction_, first_reaction_;
  Index kappa_ = 0, nu_ = nowhere;
};

/// The parameters of a model, or a share of them.
struct Parameters {
  explicit Parameters(const ModelSpec& model, const ParameterShare& share = {})
      : spec(model), layout(model, share), values(layout.size(), 0.0) {}
  /// The array of this path, "layers/1/W_Q" say. Throws std::out_of_range for an unknown one.
  std::span<double> view(const std::string& path);
  std::span<const double> view(const std::string& path) const;

  ModelSpec spec;
  ParameterLayout layout;
  std::vector<double> values;
};

/// Numbers laid out as the parameters of a model: these themselves, or a direction of them. Borrows both.
struct ParameterVector {
  /// The parameters themselves.
  ParameterVector(const Parameters& parameters) : layout(parameters.layout), values(parameters.values) {}
  /// Numbers in this layout.
  ParameterVector(const ParameterLayout& laid_out, std::span<const double> numbers)
      : layout(laid_out), values(numbers) {}
  /// The array of this path. Throws std::out_of_range for an unknown one.
  std::span<const double> view(const std::string& path) const;

  const ParameterLayout& layout;
  std::span<const double> values;
};

}  // namespace fluxformer
