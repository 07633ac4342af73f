#pragma once

// Turns a term that acts within one depth cell into a term on all depth cells of a rank.

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "operators/slab_term.hpp"
#include "operators/term.hpp"

namespace fluxformer {

/// The weights of cell i = 1..M, and their gradient, as views into the model's flat vector.
template <class T>
struct CellWeights {
  std::function<LayerWeights<const T>(int cell)> of;
  /// Only called with a non-empty span.
  std::function<LayerWeights<double>(int cell, std::span<double> parameters)> gradient;
};

/// `views`(base, coefficients) of each cell's part of the parameters; both are borrowed.
template <class T, class Views>
CellWeights<T> cell_weights(const std::vector<T>& parameters, const std::vector<double>& coefficients,
                            Views views, std::size_t per_cell) {
  const auto offset = [per_cell](int cell) { return static_cast<std::size_t>(cell - 1) * per_cell; };
  return {[p = parameters.data(), c = coefficients.data(), views, offset](int cell) -> LayerWeights<const T> {
            return views(p + offset(cell), c + offset(cell));
          },
          [views, offset](int cell, std::span<double> all) -> LayerWeights<double> {
            return views(all.data() + offset(cell), all.data() + offset(cell));
          }};
}

/// Collective over the token line; ranks of a line hold the same cells. With tapes, tangent and adjoint fill
/// those of all cells before they read that of the first.
template <class T>
class CellTerm final : public Term {
 public:
  /// `term` is borrowed; `tapes`: the order of its tapes, or none.
  CellTerm(SlabTerm<T>& term, CellWeights<T> weights, std::optional<Order> tapes = {})
      : term_(term), weights_(std::move(weights)), tapes_(tapes) {}

  void add_rhs(const Column<const double>& u, CellRange cells, const Column<double>& out) override;
  void add_tangent(const Column<const double>& u, const Column<const double>& v, CellRange cells,
                   const Column<double>& out) override;
  void add_adjoint(const Column<const double>& u, const Column<const double>& w, CellRange cells,
                   const Column<double>& u_bar, std::span<double> parameters) override;
  TermText text() const override { return {"a slab term"}; }

 private:
  std::unique_ptr<TermTape> make_tape() const { return tapes_ ? term_.make_tape(*tapes_) : nullptr; }
  /// The tape of each cell, filled; null without tapes.
  std::vector<std::unique_ptr<TermTape>> keep(const Column<const double>& u, CellRange cells);
  SlabTerm<T>& term_;
  CellWeights<T> weights_;
  std::optional<Order> tapes_;
};

extern template class CellTerm<float>;
extern template class CellTerm<double>;

}  // namespace fluxformer
