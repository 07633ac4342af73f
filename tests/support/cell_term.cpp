#include "tests/support/cell_term.hpp"

namespace fluxformer {

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
void KeptCellTerm<T>::add_rhs(const Column<const double>& u, CellRange cells, const Column<double>& out) {
  const auto kept = term_.make_activations();
  for (int i = cells.begin; i < cells.end; ++i)
    term_.set_rhs_keeping(weights_.of(i), u.at(i), 1.0, out.at(i), out.at(i), *kept);
}

template <class T>
std::vector<std::unique_ptr<TermTape>> KeptCellTerm<T>::keep(const Column<const double>& u, CellRange cells) {
  std::vector<std::unique_ptr<TermTape>> kept;
  std::vector<double> value(u.slab);
  for (int i = cells.begin; i < cells.end; ++i) {
    kept.push_back(term_.make_activations());
    term_.set_rhs_keeping(weights_.of(i), u.at(i), 1.0, u.at(i), value.data(), *kept.back());
  }
  return kept;
}

template <class T>
void KeptCellTerm<T>::add_tangent(const Column<const double>& u, const Column<const double>& v,
                                  CellRange cells, const Column<double>& out) {
  const auto kept = keep(u, cells);
  for (int i = cells.begin; i < cells.end; ++i)
    term_.set_tangent_kept(weights_.of(i), u.at(i), v.at(i), 1.0, out.at(i), out.at(i),
                           *kept[static_cast<std::size_t>(i - cells.begin)]);
}

template <class T>
void KeptCellTerm<T>::add_adjoint(const Column<const double>& u, const Column<const double>& w,
                                  CellRange cells, const Column<double>& u_bar,
                                  std::span<double> parameters) {
  const auto kept = keep(u, cells);
  for (int i = cells.begin; i < cells.end; ++i) {
    LayerWeights<double> gradient;
    if (!parameters.empty()) gradient = weights_.gradient(i, parameters);
    term_.set_adjoint_kept(weights_.of(i), u.at(i), w.at(i), 1.0, u_bar.at(i), u_bar.at(i),
                           parameters.empty() ? nullptr : &gradient,
                           *kept[static_cast<std::size_t>(i - cells.begin)]);
  }
}

template class CellTerm<float>;
template class CellTerm<double>;
template class KeptCellTerm<float>;
template class KeptCellTerm<double>;

}  // namespace fluxformer
