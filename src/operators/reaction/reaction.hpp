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
#include "operators/second_order.hpp"
#include "operators/slab_term.hpp"

namespace fluxformer {

template <class T>
class ReactionAdjointTape;

/// The function g.
enum class Activation { gelu_erf, gelu_tanh, relu };

/// The network of one sub-layer.
struct ReactionSettings {
  int hidden = 1;  ///< f
  Activation activation = Activation::gelu_erf;
  bool layer_norm = true;   ///< N is LayerNorm; false: the identity
  bool first_half = false;  ///< use LayerWeights::first_reaction (macaron)
};

/// The slab term rho R(u) in the arithmetic T. Not collective: tokens are independent.
template <class T>
class Reaction final : public SlabTerm<T>, public KeepsActivations<T>, public SecondOrder<T> {
 public:
  /// `context` is borrowed.
  Reaction(const SlabContext& context, const ReactionSettings& settings, Operands operands = Operands::exact);

  void add_rhs(const LayerWeights<const T>& weights, const double* u, double scale, double* out) override;
  void add_tangent(const LayerWeights<const T>& weights, const double* u, const double* v, double scale,
                   double* out) override;
  void add_adjoint(const LayerWeights<const T>& weights, const double* u, const double* w, double scale,
                   double* u_bar, const LayerWeights<double>* gradient) override;
  /// Keeps N(u), the hidden values and the slopes of the activation: d + 2 f numbers of type T per row.
  std::unique_ptr<TermTape> make_activations() const override;
  void set_rhs_keeping(const LayerWeights<const T>& weights, const double* u, double scale,
                       const double* base, double* out, TermTape& kept) override;
  void set_tangent_kept(const LayerWeights<const T>& weights, const double* u, const double* v, double scale,
                        const double* base, double* out, TermTape& kept) override;
  void set_adjoint_kept(const LayerWeights<const T>& weights, const double* u, const double* w, double scale,
                        const double* base, double* u_bar, const LayerWeights<double>* gradient,
                        TermTape& kept) override;

  /// Keeps 3 d + 5 f numbers of type T per row: N(u), the hidden values, slopes and curvatures (none for
  /// ReLU); of the adjoint W_1^T z_bar and W_2^T w; of the tangent N_dot and z_dot.
  Linearisation make_linearisation() const override;
  void set_rhs_linearised(const LayerWeights<const T>& weights, const double* u, double scale,
                          const double* base, double* out, Linearisation& at) override;
  void set_adjoint_linearised(const LayerWeights<const T>& weights, const double* u, const double* w,
                              double scale, const double* base, double* u_bar,
                              const LayerWeights<double>* gradient, Linearisation& at) override;
  void set_tangent(const LayerWeights<const T>& weights, const LayerWeights<const T>& weights_dot,
                   const double* u, const double* u_dot, double scale, const double* base, double* out,
                   Linearisation& at) override;
  void set_adjoint_tangent(const LayerWeights<const T>& weights, const LayerWeights<const T>& weights_dot,
                           const double* u, const double* u_dot, const double* w, const double* w_dot,
                           double scale, const double* base, double* u_bar_dot,
                           const LayerWeights<double>& gradient_dot, Linearisation& at) override;
  void set_gauss_newton(const LayerWeights<const T>& weights, const double* u, const double* w_dot,
                        double scale, const double* base, double* u_bar_dot,
                        const LayerWeights<double>& gradient_dot, Linearisation& at) override;

  /// Arrays of a block of rows: N(u) [row][width], g(z), g'(z) and g''(z) [row][hidden]. Slopes and
  /// curvatures may be null: not wanted, or no curvature.
  struct Hidden {
    T *normal, *value, *slope, *curvature = nullptr;
  };

 private:
  template <class P>
  const ReactionWeights<P>& mine(const LayerWeights<P>& weights) const {
    return settings_.first_half ? weights.first_reaction : weights.reaction;
  }
  /// Counts flops: `passes` times the two products of the value, 4 d f per row.
  void count(int passes) const { count_flops(4.0 * passes * context_.rows() * (width_ * hidden_)); }
  /// normal := N(u), or u, in T.
  void inner_input(const ReactionWeights<const T>& weights, const double* u, Index rows, T* normal) const;
  /// Computes values, slopes and curvatures (if not null) of z = W_1 hidden.normal + b_1.
  void hidden_values(const ReactionWeights<const T>& weights, Index rows, const Hidden& hidden);
  /// Sets the linear maps, before the first product of a call.
  void set_maps(const ReactionWeights<const T>& weights);
  /// out = base + scale * rho R of a block of rows; fills the arrays of `hidden` that are not null.
  void add_block(const ReactionWeights<const T>& weights, const double* u, Index rows, const Hidden& hidden,
                 double scale, T* result, const double* base, double* out);
  /// Numbers of scratch memory that pull_back takes.
  Index adjoint_scratch() const {
    return block_ * (2 * width_ + hidden_) + 2 * hidden_ * width_ + hidden_ + width_;
  }
  /// out = base + scale * J(u) v; slope_of(first row, rows) gives g'(z) of a block. Needs three scratch
  /// arrays.
  template <class SlopeOf>
  void push_forward(const ReactionWeights<const T>& weights, const double* u, const double* v, double scale,
                    const double* base, double* out, SlopeOf&& slope_of);
  /// u_bar = base + scale * J^T w, and the gradient if `bar` is not null; hidden_of(first row, rows) gives
  /// the hidden values of a block; fills `keep`, if not null. Needs adjoint_scratch().
  template <class HiddenOf>
  void pull_back(const ReactionWeights<const T>& weights, const double* u, const double* w, double scale,
                 const double* base, double* u_bar, const ReactionWeights<double>* bar,
                 ReactionAdjointTape<T>* keep, HiddenOf&& hidden_of);
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
