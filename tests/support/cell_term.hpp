#pragma once

// A term that acts within one depth cell, as a term of all depth cells a rank holds.

#include <functional>
#include <span>

#include "operators/slab.hpp"
#include "operators/term.hpp"

namespace fluxformer {

/// The weights of cell i = 1..M, and the gradient of the same weights as views into the model's flat vector.
template <class T>
struct CellWeights {
  std::function<LayerWeights<const T>(int cell)> of;
  /// Called only with a span that is not empty.
  std::function<LayerWeights<double>(int cell, std::span<double> parameters)> gradient;
};

/// Collective over the token line unless the slab term is pointwise; ranks of a line hold the same cells.
template <class T>
class CellTerm final : public Term {
 public:
  /// `term` is borrowed. Cells first .. first + count - 1 are the rank's, for max_stable_dt.
  CellTerm(SlabTerm<T>& term, CellWeights<T> weights, int first, int count);

  std::string_view name() const override { return term_.name(); }
  Locality locality() const override { return term_.locality(); }
  void add_rhs(const Column<const double>& u, CellRange cells, const Column<double>& out) override;
  void add_tangent(const Column<const double>& u, const Column<const double>& v, CellRange cells,
                   const Column<double>& out) override;
  void add_adjoint(const Column<const double>& u, const Column<const double>& w, CellRange cells,
                   const Column<double>& u_bar, std::span<double> parameters) override;
  /// The smallest over this rank's cells.
  double max_stable_dt() const override;

 private:
  SlabTerm<T>& term_;
  CellWeights<T> weights_;
  int first_, count_;
};

extern template class CellTerm<float>;
extern template class CellTerm<double>;

}  // namespace fluxformer
