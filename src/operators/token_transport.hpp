#pragma once

// One-sided transport over tokens, -nu d/dx u, by the first-order upwind difference with token spacing 1:
//
//   (T u)(x) = nu (u(x-1) - u(x))
//
// What a token holds moves to those behind it, so that causal models may have it; on a grid along each row.
// Zero flux at the first token, which keeps its state; padding does not change. Periodic: the first token
// follows the last.
// Forward Euler with nu dt <= 1 takes means of neighbours: the largest norm never grows; nu dt = 1 shifts
// the line by one token.

#include "operators/slab_term.hpp"

namespace fluxformer {

/// The slab term T u. Collective over the token line: ranks exchange the tokens along their common edges.
template <class T>
class TokenTransport final : public SlabTerm<T> {
 public:
  /// `context` is borrowed. Throws BadInput for a periodic line with a causal mask: the first token would see
  /// the last.
  explicit TokenTransport(const SlabContext& context);

  /// Null: the term is linear in nu and in u.
  std::unique_ptr<TermTape> make_tape(Order) const override { return nullptr; }
  void apply(const LayerWeights<const T>& theta, const double* u, Sum out, TermTape* tape) override;
  void push(const LayerWeights<const T>& theta, const LayerWeights<const T>* theta_dot, Point at, Sum out,
            TermTape* tape) override;
  void pull(const LayerWeights<const T>& theta, const double* u, const double* w, Sum u_bar,
            const LayerWeights<double>* gradient, TermTape* tape) override;
  void pull_along(const LayerWeights<const T>& theta, const LayerWeights<const T>& theta_dot, Point at,
                  Cotangent w, Sum u_bar_dot, const LayerWeights<double>& gradient_dot,
                  TermTape* tape) override;

 private:
  const SlabContext& context_;
  TokenHalo halo_;
};

extern template class TokenTransport<float>;
extern template class TokenTransport<double>;

}  // namespace fluxformer
