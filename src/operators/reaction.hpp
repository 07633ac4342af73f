#pragma once

// Local reaction: the feed-forward network, token by token.
//
//   R(u) = W_2 g(W_1 N(u) + b_1) + b_2      g = GELU (erf or tanh form) or ReLU
//
// N is LayerNorm (eps 1e-5) for norm = pre and the identity otherwise. Cost: 4 r d f flops for r rows, hidden
// width f. Source of the GELU forms: Hendrycks and Gimpel, arXiv 1606.08415.

#include "operators/scratch.hpp"
#include "operators/slab.hpp"

namespace fluxformer {

enum class Activation { gelu_erf, gelu_tanh, relu };

struct ReactionSettings {
  int hidden = 1;  ///< f
  Activation activation = Activation::gelu_erf;
  bool layer_norm = true;
  bool first_half = false;  ///< use LayerWeights::first_reaction (macaron)
};

template <class T>
class Reaction final : public SlabTerm<T> {
 public:
  /// `context` is borrowed.
  Reaction(const SlabContext& context, const ReactionSettings& settings);

  std::string_view name() const override { return "reaction"; }
  Locality locality() const override { return Locality::pointwise; }
  void add_rhs(const LayerWeights<const T>& weights, const double* u, double scale, double* out) override;
  void add_tangent(const LayerWeights<const T>& weights, const double* u, const double* v, double scale,
                   double* out) override;
  void add_adjoint(const LayerWeights<const T>& weights, const double* u, const double* w, double scale,
                   double* u_bar, const LayerWeights<double>* gradient) override;

 private:
  template <class P>
  const ReactionWeights<P>& mine(const LayerWeights<P>& weights) const {
    return settings_.first_half ? weights.first_reaction : weights.reaction;
  }
  /// normal := N(u), or u, in T.
  void inner_input(const ReactionWeights<const T>& weights, const double* u, std::size_t rows,
                   T* normal) const;
  /// value := g(z) and slope := g'(z) (if not null), z = W_1 normal + b_1.
  void hidden_values(const ReactionWeights<const T>& weights, const T* normal, std::size_t rows, T* value,
                     T* slope) const;
  /// body(first number of the block, its rows) over blocks of rows whose hidden values stay in the cache.
  template <class Body>
  void over_blocks(Body&& body) const;

  const SlabContext& context_;
  ReactionSettings settings_;
  std::size_t width_, hidden_;
  std::size_t block_;  ///< rows worked on at a time
  Scratch<T> scratch_;
};

extern template class Reaction<float>;
extern template class Reaction<double>;

}  // namespace fluxformer
