#pragma once

// Local reaction: the feed-forward network, token by token.
//
//   R(u) = W_2 g(W_1 N(u) + b_1) + b_2      g = GELU (erf or tanh form) or ReLU
//
// N is LayerNorm for norm = pre and the identity otherwise. Cost: 4 r d f flops for r rows, hidden
// width f. Source of the GELU forms: Hendrycks and Gimpel, arXiv 1606.08415.

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

/// The slab term rho R(u) in the arithmetic T. Not collective: tokens are independent.
template <class T>
class Reaction final : public SlabTerm<T> {
 public:
  /// `context` is borrowed.
  Reaction(const SlabContext& context, const ReactionSettings& settings, Operands operands = Operands::exact);

  /// A tape of first order keeps N(u), the hidden values and slopes: d + 2 f numbers of type T per row. One
  /// of second order keeps 3 d + 5 f: also curvatures (none for ReLU), W_2^T w, W_1^T z_bar, N_dot and z_dot.
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
  /// Counts flops: `passes` times the two products of the value, 4 d f per row.
  void count(int passes) const { count_flops(4.0 * passes * context_.rows() * (width_ * hidden_)); }
  /// Sets the linear maps, before the first product of a call.
  void set_maps(const ReactionWeights<const T>& theta);
  /// Computes N(u), or u in T, and values, slopes and curvatures (if not null) of z = W_1 N(u) + b_1.
  void compute_hidden(const ReactionWeights<const T>& theta, const double* u, Index rows,
                      const Hidden& hidden);
  /// The hidden values of the block from row `first` on: those of the tape, or (null) computed in `scratch`.
  Hidden known_hidden(const ReactionWeights<const T>& theta, const double* u, Index first, Index rows,
                      const ValueTape* tape, const Hidden& scratch);
  /// Scratch memory for the hidden values of a block, 3 parts; nothing if there is a tape.
  Index hidden_scratch(const ValueTape* tape) const;
  Hidden take_hidden(const ValueTape* tape);
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
  LinearMap<T> w_1_, w_2_;
  Scratch<T> scratch_;
};

extern template class Reaction<float>;
extern template class Reaction<double>;

}  // namespace fluxformer
