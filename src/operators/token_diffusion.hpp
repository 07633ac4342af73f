#pragma once

// Diffusion over tokens: nabla_x.(kappa nabla_x u), second-order differences with token spacing 1.
//
//   (D u)(x) = sum over the 2 (line) or 4 (grid) neighbours y of kappa (u(y) - u(x))
//
// Zero flux: no neighbour, no term; padding is a boundary too. Periodic: wraps around. D is symmetric and
// its row sums are 0, so that the mean is conserved. Forward Euler is stable for kappa dt axes <= 1/2, with
// axes the number of token axes.

#include "operators/second_order.hpp"
#include "operators/slab_term.hpp"

namespace fluxformer {

/// The slab term D u. Collective over the token line: ranks exchange the tokens along their common edges.
template <class T>
class TokenDiffusion final : public SlabTerm<T>, public SecondOrder<T> {
 public:
  /// `context` is borrowed. Throws BadInput for a causal mask: a token would see later ones.
  explicit TokenDiffusion(const SlabContext& context);

  void add_rhs(const LayerWeights<const T>& weights, const double* u, double scale, double* out) override;
  void add_tangent(const LayerWeights<const T>& weights, const double* u, const double* v, double scale,
                   double* out) override;
  void add_adjoint(const LayerWeights<const T>& weights, const double* u, const double* w, double scale,
                   double* u_bar, const LayerWeights<double>* gradient) override;

  /// Linear in kappa and in u: keeps nothing.
  Linearisation make_linearisation() const override { return {}; }
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

  /// diagonal += scale * diag(D).
  void add_diagonal(const LayerWeights<const T>& weights, double scale, double* diagonal) const;

 private:
  const SlabContext& context_;
  TokenHalo halo_;
};

extern template class TokenDiffusion<float>;
extern template class TokenDiffusion<double>;

}  // namespace fluxformer
