#pragma once

// A term under dropout: its value is masked before it is added to the state. Without keys (evaluation) it is
// the plain term.

#include "operators/dropout.hpp"
#include "operators/slab_term.hpp"

namespace fluxformer {

/// Value and tangent of the term are masked after it, the vector of its adjoint before it.
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
  /// Masks `values`.
  void mask(double* values) const;
  /// A masked copy of `w`, in branch_.
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
