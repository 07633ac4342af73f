#pragma once

// A term of the equation within one depth cell, and the optional seam for back-propagation beside it.

#include <cstddef>
#include <memory>

#include "operators/layer_weights.hpp"
#include "operators/slab.hpp"

namespace fluxformer {

/// A sub-layer's term on a slab. T is the arithmetic of the kernel (float, double); the state and the
/// parameter gradients are double. Calls are collective over the token line. Objects own their work space and
/// are not thread-safe. `out` never overlaps the inputs.
template <class T>
class SlabTerm {
 public:
  virtual ~SlabTerm() = default;
  /// out += scale * term(u; weights)
  virtual void add_rhs(const LayerWeights<const T>& weights, const double* u, double scale, double* out) = 0;
  /// out += scale * J(u) v
  virtual void add_tangent(const LayerWeights<const T>& weights, const double* u, const double* v,
                           double scale, double* out) = 0;
  /// u_bar += scale * J(u)^T w; gradient (if not null) += scale * (d term / d parameters)^T w, this rank's
  /// share: the sum over the token line is the gradient.
  virtual void add_adjoint(const LayerWeights<const T>& weights, const double* u, const double* w,
                           double scale, double* u_bar, const LayerWeights<double>* gradient) = 0;
};

/// Intermediate values of an evaluation, for the adjoint. Opaque; each evaluation overwrites them.
class TermTape {
 public:
  virtual ~TermTape() = default;
  /// Memory held, in bytes.
  virtual std::size_t bytes() const = 0;
};

/// Optional seam of a SlabTerm, for back-propagation and for many tangents at one state: the evaluation keeps
/// activations; tangent and adjoint use them instead of computing them again. The bits are the same as
/// without. Collective over the token line.
template <class T>
class KeepsActivations {
 public:
  virtual ~KeepsActivations() = default;
  /// Makes room for what set_rhs_keeping keeps, for this term only. Not collective.
  virtual std::unique_ptr<TermTape> make_activations() const = 0;
  /// out = base + scale * term(u; weights), filling `kept`. `base` may be `u` or `out`.
  virtual void set_rhs_keeping(const LayerWeights<const T>& weights, const double* u, double scale,
                               const double* base, double* out, TermTape& kept) = 0;
  /// out = base + scale * J(u) v, at the weights, the state and the mask of the set_rhs_keeping that filled
  /// `kept`, which stays unchanged. `base` may be `v` or `out`.
  virtual void set_tangent_kept(const LayerWeights<const T>& weights, const double* u, const double* v,
                                double scale, const double* base, double* out, TermTape& kept) = 0;
  /// u_bar = base + scale * J(u)^T w and the gradient of add_adjoint, at the point that filled `kept`. `base`
  /// may be `w` or `u_bar`.
  virtual void set_adjoint_kept(const LayerWeights<const T>& weights, const double* u, const double* w,
                                double scale, const double* base, double* u_bar,
                                const LayerWeights<double>* gradient, TermTape& kept) = 0;
};

}  // namespace fluxformer
