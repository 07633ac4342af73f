#pragma once

// The state of one depth cell on one rank, and the contract of every term that acts within a depth cell.
//
// A slab is [token][sample][channel], row-major, in double: token over the rank's TokenBlock. Row r of the
// (tokens * samples) x width matrix is token r / samples of sample r % samples.

#include <cstddef>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "mesh/token_line.hpp"
#include "operators/layer_weights.hpp"

namespace fluxformer {

/// Which tokens may be looked at. The same for all depth cells.
struct TokenMask {
  /// Per sample, the number of real tokens (global indices 0 .. length-1), at least 1; the rest is padding.
  /// Empty: all real. Terms read it at each call: it may change between calls, from batch to batch. The rest
  /// of the mask may not.
  std::vector<int> length;
  /// Token x sees tokens 0 .. x only.
  bool causal = false;
  /// Quadrature weight w_y of each token by global index; empty: 1.
  std::vector<double> weight;

  bool real(int sample, int token) const {
    return length.empty() || token < length[static_cast<std::size_t>(sample)];
  }
};

class Dropout;

/// What all slab operators of a model share. Borrowed: outlives them.
struct SlabContext {
  const TokenLine* line = nullptr;
  int samples = 1;
  int width = 1;
  TokenMask mask = {};
  const Dropout* dropout = nullptr;  ///< of the model's branches, in training; null: none

  std::size_t row() const { return static_cast<std::size_t>(samples) * static_cast<std::size_t>(width); }
  int rows() const { return line->block().count() * samples; }
  std::size_t size() const { return row() * static_cast<std::size_t>(line->block().count()); }
};

/// What a term needs to know of other points.
enum class Locality { pointwise, token_stencil, token_line, depth_stencil };

/// What the evaluation of a term leaves behind for its adjoint. Opaque; filled anew by each evaluation.
class Activations {
 public:
  virtual ~Activations() = default;
  /// Memory held, in bytes.
  virtual std::size_t bytes() const = 0;
};

/// A term of the equation within one depth cell. T is the arithmetic of the kernel (float, double); the state
/// and the parameter gradients are double. Calls are collective over the token line unless the locality is
/// pointwise. Objects own their work space and are not thread-safe. `out` never overlaps the inputs.
template <class T>
class SlabTerm {
 public:
  virtual ~SlabTerm() = default;
  virtual std::string_view name() const = 0;
  virtual Locality locality() const = 0;
  /// out += scale * term(u; weights)
  virtual void add_rhs(const LayerWeights<const T>& weights, const double* u, double scale, double* out) = 0;
  /// out += scale * J(u) v
  virtual void add_tangent(const LayerWeights<const T>& weights, const double* u, const double* v,
                           double scale, double* out) = 0;
  /// u_bar += scale * J(u)^T w; gradient (if not null) += scale * (d term / d parameters)^T w, this rank's
  /// share: the sum over the token line is the gradient.
  virtual void add_adjoint(const LayerWeights<const T>& weights, const double* u, const double* w,
                           double scale, double* u_bar, const LayerWeights<double>* gradient) = 0;

  /// Room for what set_rhs_keeping keeps, which belongs to this term; null: nothing is worth keeping, and the
  /// two functions below are not for this term.
  virtual std::unique_ptr<Activations> make_activations() const { return nullptr; }
  /// out = base + scale * term(u; weights), filling `kept`. `base` may be `u` or `out`.
  virtual void set_rhs_keeping(const LayerWeights<const T>& /*weights*/, const double* /*u*/,
                               double /*scale*/, const double* /*base*/, double* /*out*/,
                               Activations& /*kept*/) {
    throw std::logic_error("a term that keeps nothing");
  }
  /// u_bar = base + scale * J(u)^T w, gradient as add_adjoint, at the weights, the state and the mask of the
  /// set_rhs_keeping that filled `kept`, which stays as it is. `base` may be `w` or `u_bar`.
  virtual void set_adjoint_kept(const LayerWeights<const T>& /*weights*/, const double* /*u*/,
                                const double* /*w*/, double /*scale*/, const double* /*base*/,
                                double* /*u_bar*/, const LayerWeights<double>* /*gradient*/,
                                Activations& /*kept*/) {
    throw std::logic_error("a term that keeps nothing");
  }

  /// The largest stable forward-Euler step of the term alone; infinity where no such bound is known.
  virtual double max_stable_dt(const LayerWeights<const T>& /*weights*/) const {
    return std::numeric_limits<double>::infinity();
  }
};

}  // namespace fluxformer
