#pragma once

// Diffusion over tokens: nabla_x.(kappa nabla_x u), second-order differences with token spacing 1.
//
//   (D u)(x) = sum over the 2 (line) or 4 (grid) neighbours y of kappa (u(y) - u(x))
//
// Zero flux: no neighbour, no term; padding is a boundary too. Periodic: wraps around. D is symmetric and
// its row sums are 0, so that the mean is conserved. Forward Euler is stable for kappa dt axes <= 1/2, with
// axes the number of token axes.

#include "operators/slab_term.hpp"

namespace fluxformer {

/// The slab term D u. Collective over the token line: ranks exchange the tokens along their common edges.
template <class T>
class TokenDiffusion final : public SlabTerm<T> {
 public:
  /// `context` is borrowed. Throws BadInput for a causal mask: a token would see later ones.
  explicit TokenDiffusion(const SlabContext& context);

  /// Null: the term is linear in kappa and in u.
  std::unique_ptr<TermTape> make_tape(Order) const override { return nullptr; }
  void apply(const LayerWeights<const T>& theta, const double* u, Sum out, TermTape* tape) override;
  void push(const LayerWeights<const T>& theta, const LayerWeights<const T>* theta_dot, Point at, Sum out,
            TermTape* tape) override;
  void pull(const LayerWeights<const T>& theta, const double* u, const double* w, Sum u_bar,
            const LayerWeights<double>* gradient, TermTape* tape) override;
  void pull_along(const LayerWeights<const T>& theta, const LayerWeights<const T>& theta_dot, Point at,
                  Cotangent w, Sum u_bar_dot, const LayerWeights<double>& gradient_dot,
                  TermTape* tape) override;

  /// diagonal += scale * diag(D).
  void add_diagonal(const LayerWeights<const T>& weights, double scale, double* diagonal) const;

 private:
  const SlabContext& context_;
  TokenHalo halo_;
};

extern template class TokenDiffusion<float>;
extern template class TokenDiffusion<double>;

}  // namespace fluxformer
