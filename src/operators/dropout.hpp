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

/// A term D A(u) under dropout with the mask D: its value D A and its tangent D J v are masked before they
/// are added to the state, and its adjoint is J^T D w. Without keys (evaluation) it is the plain term.
template <class T>
class DroppedTerm final : public SlabTerm<T>, public KeepsActivations<T> {
 public:
  /// `Branch` is a slab term that keeps activations. All are borrowed. The mask differs from layer to layer
  /// (`layer` counts from 1) and, with `which` = 0 .. 3, between the terms of a layer.
  template <class Branch>
  DroppedTerm(Branch& term, const SlabContext& context, const int& layer, int which)
      : term_(term), keeping_(term), context_(context), layer_(layer), which_(which) {}

  void add_rhs(const LayerWeights<const T>& weights, const double* u, double scale, double* out) override;
  void add_tangent(const LayerWeights<const T>& weights, const double* u, const double* v, double scale,
                   double* out) override;
  void add_adjoint(const LayerWeights<const T>& weights, const double* u, const double* w, double scale,
                   double* u_bar, const LayerWeights<double>* gradient) override;
  std::unique_ptr<TermTape> make_activations() const override { return keeping_.make_activations(); }
  void set_rhs_keeping(const LayerWeights<const T>& weights, const double* u, double scale,
                       const double* base, double* out, TermTape& kept) override;
  void set_tangent_kept(const LayerWeights<const T>& weights, const double* u, const double* v, double scale,
                        const double* base, double* out, TermTape& kept) override;
  void set_adjoint_kept(const LayerWeights<const T>& weights, const double* u, const double* w, double scale,
                        const double* base, double* u_bar, const LayerWeights<double>* gradient,
                        TermTape& kept) override;

 private:
  bool active() const { return context_.dropout->active(); }
  /// values := D values.
  void mask(double* values) const;
  /// A masked copy D w, in branch_.
  const double* masked(const double* w);
  /// branch_ := 0.
  double* fresh_branch();
  SlabTerm<T>& term_;
  KeepsActivations<T>& keeping_;  // the same object
  const SlabContext& context_;
  const int& layer_;
  int which_;
  std::vector<double> branch_;
};

extern template class DroppedTerm<float>;
extern template class DroppedTerm<double>;

}  // namespace fluxformer
