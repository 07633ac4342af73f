#pragma once

// Dropout: a number is set to 0 with probability `rate` and divided by 1 - rate otherwise. Linear and
// diagonal, hence its own adjoint. The mask depends on the sample's key, the site and the position, not on
// ranks. Source: Srivastava et al. 2014.

#include <cstdint>
#include <vector>

#include "base/random.hpp"
#include "operators/slab.hpp"
#include "operators/slab_term.hpp"

namespace fluxformer {

/// Masks of one seed; nothing is stored per mask.
class Dropout {
 public:
  /// Takes a rate in [0, 1).
  Dropout(double rate, std::uint64_t seed) : rate_(rate), random_(seed, "dropout") {}

  /// Sets the keys of the samples of a slab; empty: nothing is dropped.
  void set_keys(std::vector<long> keys) { keys_ = std::move(keys); }
  bool active() const { return rate_ > 0 && !keys_.empty(); }
  /// Masks the slab; each place in the model that has dropout is a `site` with masks of its own. Not
  /// collective.
  void apply(const SlabContext& context, std::uint64_t site, double* slab) const;

 private:
  double rate_;
  RandomStream random_;
  std::vector<long> keys_;
};

/// A term under dropout with a fixed mask D; without keys (evaluation) it is the plain term. With f the term,
/// t its tangent and f'^T its adjoint:
///
///   value D f     tangent D t     adjoint f'^T D w, along a direction that of D w and D w_dot
template <class T>
class DroppedTerm final : public SlabTerm<T> {
 public:
  /// All are borrowed. The mask differs from layer to layer (`layer` counts from 1) and, with `which` = 0 ..
  /// 3, between the terms of a layer.
  DroppedTerm(SlabTerm<T>& term, const SlabContext& context, const int& layer, int which)
      : term_(term), context_(context), layer_(layer), which_(which) {}

  /// The tape of the term itself.
  std::unique_ptr<TermTape> make_tape(Order upto) const override { return term_.make_tape(upto); }
  void apply(const LayerWeights<const T>& theta, const double* u, Sum out, TermTape* tape) override;
  void push(const LayerWeights<const T>& theta, const LayerWeights<const T>* theta_dot, Point at, Sum out,
            TermTape* tape) override;
  void pull(const LayerWeights<const T>& theta, const double* u, const double* w, Sum u_bar,
            const LayerWeights<double>* gradient, TermTape* tape) override;
  void pull_along(const LayerWeights<const T>& theta, const LayerWeights<const T>& theta_dot, Point at,
                  Cotangent w, Sum u_bar_dot, const LayerWeights<double>& gradient_dot,
                  TermTape* tape) override;

 private:
  bool active() const { return context_.dropout->active(); }
  /// values := D values
  void mask(double* values) const;
  /// D w, in this memory.
  const double* masked(const double* w, std::vector<double>& memory) const;
  /// sum.out = base + D scale x, where add(sum) adds scale * x of the term.
  template <class Add>
  void add_masked(Sum sum, Add&& add);

  SlabTerm<T>& term_;
  const SlabContext& context_;
  const int& layer_;
  int which_;
  std::vector<double> branch_, branch_dot_;
};

extern template class DroppedTerm<float>;
extern template class DroppedTerm<double>;

}  // namespace fluxformer
