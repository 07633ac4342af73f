#pragma once

// Local reaction: the feed-forward network, token by token.
//
//   R(u) = W_2 g(W_1 N(u) + b_1) + b_2
//   R(u) = W_2 (g(W_G N(u) + b_G) . (W_1 N(u) + b_1)) + b_2      gated
//
// g = GELU (erf or tanh form), ReLU or SiLU; a . b is the product number by number. N is the norm of the model
// for norm = pre and the identity otherwise. Biases may be absent. Cost: 4 r d f flops for r rows and hidden
// width f, gated 6 r d f. Without a norm a gated network grows like |u|^2: solutions can blow up within a finite
// depth. Sources: Hendrycks and Gimpel, arXiv 1606.08415 (GELU); Shazeer, arXiv 2002.05202 (gates).

#include <algorithm>

#include "base/index.hpp"
#include "base/phases.hpp"
#include "operators/kernels/linear_map.hpp"
#include "operators/kernels/scratch.hpp"
#include "operators/slab_term.hpp"

namespace fluxformer {

/// The function g; silu(z) = z / (1 + e^-z).
enum class Activation { gelu_erf, gelu_tanh, relu, silu };

/// The network of one sub-layer.
struct ReactionSettings {
  int hidden = 1;  ///< f
  Activation activation = Activation::gelu_erf;
  bool layer_norm = true;   ///< there is a norm N; false: the identity
  bool first_half = false;  ///< use LayerWeights::first_reaction (macaron)
  bool gated = false;       ///< g(W_G N + b_G) multiplies W_1 N + b_1
};

/// A linear map from N(u) to hidden numbers, or sums for its gradient: matrix [f][d] and bias [f], which may be
/// null.
template <class P>
struct InnerMap {
  P *w, *b;
};

/// The slab term rho R(u) in the arithmetic T. Not collective: tokens are independent.
template <class T>
class Reaction final : public SlabTerm<T> {
 public:
  /// `context` is borrowed.
  Reaction(const SlabContext& context, const ReactionSettings& settings, Operands operands = Operands::exact);

  /// A tape of first order keeps N(u), the hidden values and their slopes: d + 2 f numbers of type T per row,
  /// gated d + 3 f. One of second order keeps 3 d + 5 f, gated 3 d + 8 f: also curvatures (f fewer for ReLU),
  /// a_bar, N_bar, N_dot, z_dot and v_dot (reaction.cpp).
  std::unique_ptr<TermTape> make_tape(Order upto) const override;
  void apply(const LayerWeights<const T>& theta, const double* u, Sum out, TermTape* tape) override;
  void push(const LayerWeights<const T>& theta, const LayerWeights<const T>* theta_dot, Point at, Sum out,
            TermTape* tape) override;
  void pull(const LayerWeights<const T>& theta, const double* u, const double* w, Sum u_bar,
            const LayerWeights<double>* gradient, TermTape* tape) override;
  void pull_along(const LayerWeights<const T>& theta, const LayerWeights<const T>& theta_dot, Point at,
                  Cotangent w, Sum u_bar_dot, const LayerWeights<double>& gradient_dot,
                  TermTape* tape) override;

 private:
  struct Hidden;
  class ValueTape;
  class SecondOrderTape;
  template <class P>
  const ReactionWeights<P>& mine(const LayerWeights<P>& weights) const {
    return settings_.first_half ? weights.first_reaction : weights.reaction;
  }
  /// Counts flops: `passes` times the products of the value, 2 d f per row each.
  void count(int passes) const {
    count_flops((settings_.gated ? 6.0 : 4.0) * passes * context_.rows() * (width_ * hidden_));
  }
  /// The map to z, on which g acts.
  template <class P>
  InnerMap<P> map_to_z(const ReactionWeights<P>& theta) const {
    return settings_.gated ? InnerMap<P>{theta.w_g, theta.b_g} : InnerMap<P>{theta.w_1, theta.b_1};
  }
  /// The map to v, which g(z) multiplies in a gated network.
  template <class P>
  InnerMap<P> map_to_v(const ReactionWeights<P>& theta) const {
    return {theta.w_1, theta.b_1};
  }
  /// The hidden width if there is a gate, else 0: the size of arrays that gates alone need.
  Index gate() const { return settings_.gated ? hidden_ : 0; }
  /// Sets the linear maps, before the first product of a call.
  void set_maps(const ReactionWeights<const T>& theta);
  /// Computes N(u), or u in T, and the hidden values with their derivatives (those not null).
  void compute_hidden(const ReactionWeights<const T>& theta, const double* u, Index rows,
                      const Hidden& hidden);
  /// The hidden values of the block from row `first` on: those of the tape, or (null) computed in `scratch`.
  Hidden known_hidden(const ReactionWeights<const T>& theta, const double* u, Index first, Index rows,
                      const ValueTape* tape, const Hidden& scratch);
  /// Scratch memory for the hidden values of a block, 4 parts; nothing if there is a tape.
  Index hidden_scratch(const ValueTape* tape) const;
  Hidden take_hidden(const ValueTape* tape);
  /// Scratch memory for sums of a gradient with so many hidden numbers, set to 0.
  InnerMap<T> take_sums(Index hidden);
  /// bar += factor * these sums, in the arrays that z and v come from.
  void add_sums(double factor, const InnerMap<T>& z_sums, const InnerMap<T>& v_sums,
                const ReactionWeights<double>& bar) const;
  /// The two cases of `push`: along the state, or along state and weights.
  void push_state(const ReactionWeights<const T>& theta, Point at, Sum out, const ValueTape* tape);
  void push_all(const ReactionWeights<const T>& theta, const ReactionWeights<const T>& theta_dot, Point at,
                Sum out, const ValueTape* tape, SecondOrderTape* keep);
  /// body(first row, rows) over blocks of rows whose hidden values fit in the cache.
  template <class Body>
  void over_blocks(Body&& body) const {
    const Index rows = context_.rows();
    for (Index first = 0; first < rows; first += block_) body(first, std::min(block_, rows - first));
  }

  const SlabContext& context_;
  ReactionSettings settings_;
  Index width_, hidden_;
  Index block_;  ///< rows processed at a time
  LinearMap<T> to_z_, to_v_, w_2_;
  Scratch<T> scratch_;
};

extern template class Reaction<float>;
extern template class Reaction<double>;

}  // namespace fluxformer
