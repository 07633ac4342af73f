// The layer map with a tape, and its adjoint, which repeats nothing of the forward pass.

#include <algorithm>

#include "model/slab/slab_model.hpp"
#include "model/slab/slab_tape.hpp"

namespace fluxformer {

template <class T>
std::unique_ptr<Tape> SlabModel<T>::make_tape() const {
  return std::make_unique<SlabTape<T>>();
}

template <class T>
const double* SlabModel<T>::begin_sum(const double* state, double* sum) const {
  if (spec().residual) return state;
  std::fill_n(sum, context_.size(), 0.0);
  return sum;
}

template <class T>
void SlabModel<T>::map_keeping(const DepthPoint& at, double h, const double* u, double* v, Tape& tape) {
  auto& kept = dynamic_cast<SlabTape<T>&>(tape);
  const auto w = weights_at(at);
  const std::size_t size = context_.size(), count = sub_layers_.size();
  kept.resize(count);
  const double* from = u;
  for (std::size_t j = 0; j < count; ++j) {
    const auto& sub = sub_layers_[j];
    auto& mine = kept[j];
    double* to = v;
    if (j + 1 < count) {
      kept[j + 1].input.resize(size);
      to = kept[j + 1].input.data();
    }
    if (sub.after != After::nothing) mine.sum.resize(size);
    double* const sum = sub.after != After::nothing ? mine.sum.data() : to;
    const double step = sub.fraction * h;
    const double* base = begin_sum(from, sum);
    if (keeps_terms()) {
      SlabTape<T>::hold(sub.terms, mine);
      for (std::size_t k = 0; k < sub.terms.size(); ++k) {
        const auto& part = mine.parts[k];
        if (part.keeping != nullptr) {
          part.keeping->set_rhs_keeping(w, from, step, base, sum, *part.kept);
        } else {
          if (base != sum) std::copy_n(base, size, sum);
          sub.terms[k]->add_rhs(w, from, step, sum);
        }
        base = sum;
      }
    } else {
      if (base != sum) std::copy_n(base, size, sum);
      add_flow(sub, w, step, 1.0, from, sum);
    }
    if (sub.after != After::nothing) norm_.apply(sub.after, w, sum, to);
    from = to;
  }
}

template <class T>
void SlabModel<T>::map_tangent(const DepthPoint& at, double h, const double* u, Tape& tape,
                               const double* u_dot, double* v_dot) {
  auto& kept = dynamic_cast<SlabTape<T>&>(tape);
  const auto w = weights_at(at);
  const std::size_t size = context_.size(), count = sub_layers_.size();
  const double* from_dot = u_dot;
  for (std::size_t j = 0; j < count; ++j) {
    const auto& sub = sub_layers_[j];
    auto& mine = kept[j];
    const double* const from = j == 0 ? u : mine.input.data();
    double* const to = j + 1 == count ? v_dot : buffer(j % 2);
    double* const sum = sub.after != After::nothing ? buffer(2) : to;
    const double* base = begin_sum(from_dot, sum);
    const double step = sub.fraction * h;
    if (keeps_terms()) {
      for (std::size_t k = 0; k < sub.terms.size(); ++k) {
        const auto& part = mine.parts[k];
        if (part.keeping != nullptr) {
          part.keeping->set_tangent_kept(w, from, from_dot, step, base, sum, *part.kept);
        } else {
          if (base != sum) std::copy_n(base, size, sum);
          sub.terms[k]->add_tangent(w, from, from_dot, step, sum);
        }
        base = sum;
      }
    } else {
      if (base != sum) std::copy_n(base, size, sum);
      add_flow_tangent(sub, w, step, from, from_dot, sum);
    }
    if (sub.after != After::nothing) norm_.tangent(sub.after, w, mine.sum.data(), sum, to);
    from_dot = to;
  }
}

template <class T>
void SlabModel<T>::map_adjoint(const DepthPoint& at, double h, const double* u, Tape& tape, const double* w,
                               double* u_bar, std::span<double> parameters) {
  auto& kept = dynamic_cast<SlabTape<T>&>(tape);
  const auto weights = weights_at(at);
  const std::size_t size = context_.size(), count = sub_layers_.size();
  LayerWeights<double> gradient;
  const bool wanted = !parameters.empty();
  if (wanted) gradient = weights_.begin_gradient(at, parameters);
  const auto* const g = wanted ? &gradient : nullptr;

  const double* v_bar = w;
  for (std::size_t j = count; j-- > 0;) {
    const auto& sub = sub_layers_[j];
    auto& mine = kept[j];
    const double* sum_bar = v_bar;
    if (sub.after != After::nothing) {
      norm_.adjoint(sub.after, weights, mine.sum.data(), v_bar, buffer(0), g);
      sum_bar = buffer(0);
    }
    double* const to = j == 0 ? u_bar : buffer(1 + j % 2);
    const double* base = begin_sum(sum_bar, to);
    const double* const from = j == 0 ? u : mine.input.data();
    const double step = sub.fraction * h;
    if (keeps_terms()) {
      for (std::size_t k = 0; k < sub.terms.size(); ++k) {
        const auto& part = mine.parts[k];
        if (part.keeping != nullptr) {
          part.keeping->set_adjoint_kept(weights, from, sum_bar, step, base, to, g, *part.kept);
        } else {
          if (base != to) std::copy_n(base, size, to);
          sub.terms[k]->add_adjoint(weights, from, sum_bar, step, to, g);
        }
        base = to;
      }
    } else {
      if (base != to) std::copy_n(base, size, to);
      add_flow_adjoint(sub, weights, step, from, sum_bar, to, g);
    }
    v_bar = to;
  }
  if (wanted) weights_.finish_gradient(at, parameters);
}

template class SlabModel<float>;
template class SlabModel<double>;

}  // namespace fluxformer
