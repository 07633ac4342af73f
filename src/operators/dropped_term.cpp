#include "operators/dropped_term.hpp"

namespace fluxformer {

template <class T>
void DroppedTerm<T>::mask(double* values) const {
  context_.dropout->apply(context_, static_cast<std::uint64_t>(4 * layer_ + which_), values);
}

template <class T>
const double* DroppedTerm<T>::masked(const double* w) {
  branch_.assign(w, w + context_.size());
  mask(branch_.data());
  return branch_.data();
}

template <class T>
double* DroppedTerm<T>::fresh_branch() {
  branch_.assign(context_.size(), 0.0);
  return branch_.data();
}

template <class T>
void DroppedTerm<T>::add_rhs(const LayerWeights<const T>& weights, const double* u, double scale,
                             double* out) {
  if (!active()) return term_.add_rhs(weights, u, scale, out);
  double* const value = fresh_branch();
  term_.add_rhs(weights, u, scale, value);
  mask(value);
  for (std::size_t j = 0; j < branch_.size(); ++j) out[j] += value[j];
}

template <class T>
void DroppedTerm<T>::add_tangent(const LayerWeights<const T>& weights, const double* u, const double* v,
                                 double scale, double* out) {
  if (!active()) return term_.add_tangent(weights, u, v, scale, out);
  double* const value = fresh_branch();
  term_.add_tangent(weights, u, v, scale, value);
  mask(value);
  for (std::size_t j = 0; j < branch_.size(); ++j) out[j] += value[j];
}

template <class T>
void DroppedTerm<T>::add_adjoint(const LayerWeights<const T>& weights, const double* u, const double* w,
                                 double scale, double* u_bar, const LayerWeights<double>* gradient) {
  term_.add_adjoint(weights, u, active() ? masked(w) : w, scale, u_bar, gradient);
}

template <class T>
void DroppedTerm<T>::set_rhs_keeping(const LayerWeights<const T>& weights, const double* u, double scale,
                                     const double* base, double* out, TermTape& kept) {
  if (!active()) return keeping_.set_rhs_keeping(weights, u, scale, base, out, kept);
  double* const value = fresh_branch();
  keeping_.set_rhs_keeping(weights, u, scale, value, value, kept);
  mask(value);
  for (std::size_t j = 0; j < branch_.size(); ++j) out[j] = base[j] + value[j];
}

template <class T>
void DroppedTerm<T>::set_tangent_kept(const LayerWeights<const T>& weights, const double* u, const double* v,
                                      double scale, const double* base, double* out, TermTape& kept) {
  if (!active()) return keeping_.set_tangent_kept(weights, u, v, scale, base, out, kept);
  double* const value = fresh_branch();
  keeping_.set_tangent_kept(weights, u, v, scale, value, value, kept);
  mask(value);
  for (std::size_t j = 0; j < branch_.size(); ++j) out[j] = base[j] + value[j];
}

template <class T>
void DroppedTerm<T>::set_adjoint_kept(const LayerWeights<const T>& weights, const double* u, const double* w,
                                      double scale, const double* base, double* u_bar,
                                      const LayerWeights<double>* gradient, TermTape& kept) {
  keeping_.set_adjoint_kept(weights, u, active() ? masked(w) : w, scale, base, u_bar, gradient, kept);
}

template class DroppedTerm<float>;
template class DroppedTerm<double>;

}  // namespace fluxformer
