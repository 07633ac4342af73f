#pragma once

// A term of the equation within one depth cell, and its derivatives: one seam for the value, back-propagation
// and products with the Hessian.
//
// With a direction (theta_dot, u_dot) of weights and state and w_dot of the adjoint's vector w,
//
//   apply        f = term(u; theta)
//   push         J(u) u_dot + (d f/d theta) theta_dot
//   pull         (J^T w, (d f/d theta)^T w)
//   pull_along   d/de of pull at theta + e theta_dot, u + e u_dot, w + e w_dot
//
// A gradient marches u forward by `apply` and w backward by `pull`. A product with the Hessian marches u_dot
// forward by `push` and w_dot backward by `pull_along` (Pearlmutter 1994); one with the Gauss-Newton matrix
// takes the pull of w_dot instead.

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <memory>

#include "operators/slab.hpp"

namespace fluxformer {

/// Where a result x goes: out = base + scale * x. `base` may be any vector, also `out` itself or one that the
/// call reads (u, u_dot, w, w_dot); `out` overlaps nothing else.
struct Sum {
  double scale;
  const double* base;
  double* out;
};

/// x added to what is there: out += scale * x.
inline Sum add_to(double* out, double scale = 1) {
  return {scale, out, out};
}

/// sum.out := sum.base, for a term that then adds to it.
inline double* started(const SlabContext& context, Sum sum) {
  if (sum.base != sum.out) std::copy_n(sum.base, context.size(), sum.out);
  return sum.out;
}

/// A state u and its variation along a direction.
struct Point {
  const double *u, *u_dot;
};

/// The vector w of an adjoint and its variation along a direction.
struct Cotangent {
  const double *w, *w_dot;
};

/// The derivatives that a tape serves: first ones (push, pull), or second ones, too (pull_along).
enum class Order { first, second };

/// Intermediate values of a term at one point (theta, u, mask), for its derivatives there. Opaque; each
/// `apply` overwrites them.
class TermTape {
 public:
  virtual ~TermTape() = default;
  /// Memory held, in bytes.
  virtual std::size_t bytes() const = 0;
  /// The part of the value alone: the tape itself, unless it serves second derivatives. Calls with this part
  /// leave what the others kept as it is.
  virtual TermTape& value() { return *this; }
};

/// The tape, or a part of it, as the class that its term made it of; null for null.
template <class Tape>
Tape* as(TermTape* tape) {
  assert(tape == nullptr || dynamic_cast<Tape*>(tape) != nullptr);
  return static_cast<Tape*>(tape);
}

/// The part of the value; null for no tape.
template <class Tape>
Tape* value_part(TermTape* tape) {
  return as<Tape>(tape != nullptr ? &tape->value() : nullptr);
}

/// The tape if it serves second derivatives, else null.
template <class Tape>
Tape* second_order_part(TermTape* tape) {
  return as<Tape>(tape != nullptr && &tape->value() != tape ? tape : nullptr);
}

/// A sub-layer's term on a slab. T is the arithmetic of the kernel (float, double); states and the gradients
/// of parameters are double. Calls but make_tape are collective over the token line. Objects own their work
/// space and are not thread-safe.
///
/// A null tape means: keep nothing, compute again. With a tape, `apply` fills it, and the others read it at
/// the weights, the state and the mask of that call, to the same bits. A tape of second order also keeps what
/// `pull` and `push` leave for pull_along, which comes after one call of each.
template <class T>
class SlabTerm {
 public:
  virtual ~SlabTerm() = default;
  /// A tape for derivatives up to this order; null if the term keeps nothing. Throws BadInput, naming the
  /// key, for second derivatives of a term that has none.
  virtual std::unique_ptr<TermTape> make_tape(Order upto) const = 0;
  /// out = base + scale * f
  virtual void apply(const LayerWeights<const T>& theta, const double* u, Sum out, TermTape* tape) = 0;
  /// out = base + scale * (J u_dot + (d f/d theta) theta_dot). With theta_dot null the weights do not vary,
  /// and nothing is kept for pull_along.
  virtual void push(const LayerWeights<const T>& theta, const LayerWeights<const T>* theta_dot, Point at,
                    Sum out, TermTape* tape) = 0;
  /// u_bar.out = base + scale * J^T w; gradient (if not null) += scale * (d f/d theta)^T w, this rank's
  /// share: the sum over the token line is the gradient.
  virtual void pull(const LayerWeights<const T>& theta, const double* u, const double* w, Sum u_bar,
                    const LayerWeights<double>* gradient, TermTape* tape) = 0;
  /// The derivative of `pull` along (theta_dot, u_dot, w_dot), where theta_dot and u_dot are those of the
  /// last `push` with this tape of second order, and w and the scale are those of the last `pull`. The tape
  /// is null for terms that keep nothing.
  virtual void pull_along(const LayerWeights<const T>& theta, const LayerWeights<const T>& theta_dot,
                          Point at, Cotangent w, Sum u_bar_dot, const LayerWeights<double>& gradient_dot,
                          TermTape* tape) = 0;
};

}  // namespace fluxformer
