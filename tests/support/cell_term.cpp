#include "tests/support/cell_term.hpp"

namespace fluxformer {

template <class T>
void CellTerm<T>::add_rhs(const Column<const double>& u, CellRange cells, const Column<double>& out) {
  const auto tape = make_tape();
  for (int i = cells.begin; i < cells.end; ++i)
    term_.apply(weights_.of(i), u.at(i), add_to(out.at(i)), tape.get());
}

template <class T>
std::vector<std::unique_ptr<TermTape>> CellTerm<T>::keep(const Column<const double>& u, CellRange cells) {
  std::vector<std::unique_ptr<TermTape>> kept;
  std::vector<double> value(u.slab);
  for (int i = cells.begin; i < cells.end; ++i) {
    kept.push_back(make_tape());
    if (kept.back() != nullptr)
      term_.apply(weights_.of(i), u.at(i), {1.0, u.at(i), value.data()}, kept.back().get());
  }
  return kept;
}

template <class T>
void CellTerm<T>::add_tangent(const Column<const double>& u, const Column<const double>& v, CellRange cells,
                              const Column<double>& out) {
  const auto kept = keep(u, cells);
  for (int i = cells.begin; i < cells.end; ++i)
    term_.push(weights_.of(i), nullptr, {u.at(i), v.at(i)}, add_to(out.at(i)),
               kept[static_cast<std::size_t>(i - cells.begin)].get());
}

template <class T>
void CellTerm<T>::add_adjoint(const Column<const double>& u, const Column<const double>& w, CellRange cells,
                              const Column<double>& u_bar, std::span<double> parameters) {
  const auto kept = keep(u, cells);
  for (int i = cells.begin; i < cells.end; ++i) {
    LayerWeights<double> gradient;
    if (!parameters.empty()) gradient = weights_.gradient(i, parameters);
    term_.pull(weights_.of(i), u.at(i), w.at(i), add_to(u_bar.at(i)),
               parameters.empty() ? nullptr : &gradient,
               kept[static_cast<std::size_t>(i - cells.begin)].get());
  }
}

template class CellTerm<float>;
template class CellTerm<double>;

}  // namespace fluxformer
