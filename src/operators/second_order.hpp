#pragma once

// The seam for Hessian products: how a slab term and its adjoint vary along a direction.
//
// With a direction (theta_dot, u_dot) of weights and state and w_dot of the adjoint's vector,
//
//   tangent            t = J(u) u_dot + (d term/d theta) theta_dot
//   adjoint's tangent  d/de of (J^T w, (d term/d theta)^T w) at theta + e theta_dot, u + e u_dot, w + e w_dot
//
// A gradient marches u forward and w backward; a product with the Hessian marches t forward and the adjoint's
// tangent backward (Pearlmutter 1994). A product with the Gauss-Newton matrix needs the adjoint of w_dot
// only.

#include <cstddef>
#include <memory>

#include "operators/slab_term.hpp"

namespace fluxformer {

/// Tapes of a term for products at one theta, u and w. Null where it keeps nothing.
struct Linearisation {
  std::unique_ptr<TermTape> value;    ///< tape of the evaluation at u
  std::unique_ptr<TermTape> adjoint;  ///< tape of the adjoint at w
  std::unique_ptr<TermTape> tangent;  ///< tape of the last tangent

  /// Memory held, in bytes.
  std::size_t bytes() const {
    std::size_t total = 0;
    for (const auto* part : {&value, &adjoint, &tangent}) total += *part != nullptr ? (*part)->bytes() : 0;
    return total;
  }
};

/// Optional seam of a SlabTerm, for products with the Hessian. The calls with one Linearisation come in this
/// order: set_rhs_linearised, set_adjoint_linearised, then for each direction set_tangent and one of the two
/// last. Weights, u, w, scale and mask are the same in all of them. The argument `base` may be the result or
/// the vector (u, w, u_dot, w_dot) of the same call. Collective over the token line, but for
/// make_linearisation.
template <class T>
class SecondOrder {
 public:
  virtual ~SecondOrder() = default;
  /// Makes room for the tapes. Throws BadInput, naming the key, where the term has no second derivative.
  virtual Linearisation make_linearisation() const = 0;
  /// out = base + scale * term(u; weights)
  virtual void set_rhs_linearised(const LayerWeights<const T>& weights, const double* u, double scale,
                                  const double* base, double* out, Linearisation& at) = 0;
  /// u_bar = base + scale * J^T w; gradient (if not null) += scale * (d term/d theta)^T w, this rank's share.
  virtual void set_adjoint_linearised(const LayerWeights<const T>& weights, const double* u, const double* w,
                                      double scale, const double* base, double* u_bar,
                                      const LayerWeights<double>* gradient, Linearisation& at) = 0;
  /// out = base + scale * t
  virtual void set_tangent(const LayerWeights<const T>& weights, const LayerWeights<const T>& weights_dot,
                           const double* u, const double* u_dot, double scale, const double* base,
                           double* out, Linearisation& at) = 0;
  /// u_bar_dot = base + scale * the tangent of J^T w; gradient_dot += scale * the tangent of (d term/d
  /// theta)^T w, this rank's share, along the direction of the last set_tangent.
  virtual void set_adjoint_tangent(const LayerWeights<const T>& weights,
                                   const LayerWeights<const T>& weights_dot, const double* u,
                                   const double* u_dot, const double* w, const double* w_dot, double scale,
                                   const double* base, double* u_bar_dot,
                                   const LayerWeights<double>& gradient_dot, Linearisation& at) = 0;
  /// u_bar_dot = base + scale * J^T w_dot; gradient_dot += scale * (d term/d theta)^T w_dot: the adjoint of
  /// another vector at the same u, for products with the Gauss-Newton matrix.
  virtual void set_gauss_newton(const LayerWeights<const T>& weights, const double* u, const double* w_dot,
                                double scale, const double* base, double* u_bar_dot,
                                const LayerWeights<double>& gradient_dot, Linearisation& at) = 0;
};

}  // namespace fluxformer
