#include "tests/support/cell_term.hpp"

#include <algorithm>
#include <utility>

namespace fluxformer {

template <class T>
CellTerm<T>::CellTerm(SlabTerm<T>& term, CellWeights<T> weights, int first, int count)
    : term_(term), weights_(std::move(weights)), first_(first), count_(count) {}

template <class T>
void CellTerm<T>::add_rhs(const Column<const double>& u, CellRange cells, const Column<double>& out) {
  for (int i = cells.begin; i < cells.end; ++i) term_.add_rhs(weights_.of(i), u.at(i), 1.0, out.at(i));
}

template <class T>
void CellTerm<T>::add_tangent(const Column<const double>& u, const Column<const double>& v, CellRange cells,
                              const Column<double>& out) {
  for (int i = cells.begin; i < cells.end; ++i)
    term_.add_tangent(weights_.of(i), u.at(i), v.at(i), 1.0, out.at(i));
}

template <class T>
void CellTerm<T>::add_adjoint(const Column<const double>& u, const Column<const double>& w, CellRange cells,
                              const Column<double>& u_bar, std::span<double> parameters) {
  for (int i = cells.begin; i < cells.end; ++i) {
    if (parameters.empty()) {
      term_.add_adjoint(weights_.of(i), u.at(i), w.at(i), 1.0, u_bar.at(i), nullptr);
      continue;
    }
    const LayerWeights<double> gradient = weights_.gradient(i, parameters);
    term_.add_adjoint(weights_.of(i), u.at(i), w.at(i), 1.0, u_bar.at(i), &gradient);
  }
}

template <class T>
double CellTerm<T>::max_stable_dt() const {
  double smallest = std::numeric_limits<double>::infinity();
  for (int i = first_; i < first_ + count_; ++i)
    smallest = std::min(smallest, term_.max_stable_dt(weights_.of(i)));
  return smallest;
}

template class CellTerm<float>;
template class CellTerm<double>;

}  // namespace fluxformer
