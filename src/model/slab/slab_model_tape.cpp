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
void SlabModel<T>::add_keeping(typename SlabTape<T>::SubLayer& held, const Weights& w, double step,
                               const double* u, const double* base, double* sum) {
  for (const auto& part : held.parts) {
    if (part.keeping != nullptr) {
      part.keeping->set_rhs_keeping(w, u, step, base, sum, *part.kept);
    } else {
      if (base != sum) std::copy_n(base, context_.size(), sum);
      part.term->add_rhs(w, u, step, sum);
    }
    base = sum;
  }
}

template <class T>
void SlabModel<T>::add_kept_adjoint(typename SlabTape<T>::SubLayer& held, const Weights& w, double step,
                                    const double* u, const double* sum_bar, const double* base, double* u_bar,
                                    const LayerWeights<double>* gradient) {
  for (const auto& part : held.parts) {
    if (part.keeping != nullptr) {
      part.keeping->set_adjoint_kept(w, u, sum_bar, step, base, u_bar, gradient, *part.kept);
    } else {
      if (base != u_bar) std::copy_n(base, context_.size(), u_bar);
      part.term->add_adjoint(w, u, sum_bar, step, u_bar, gradient);
    }
    base = u_bar;
  }
}

template <class T>
std::vector<SlabTerm<T>*> SlabModel<T>::field_terms() {
  std::vector<SlabTerm<T>*> terms;
  for (const auto part : all_field_terms)
    if (auto* const one = term(part); one != nullptr) terms.push_back(one);
  return terms;
}

template <class T>
void SlabModel<T>::field_keeping(const DepthPoint& at, double scale, const double* u, double* out,
                                 Tape& tape) {
  auto& kept = dynamic_cast<SlabTape<T>&>(tape);
  kept.resize(1);
  SlabTape<T>::hold(field_terms(), kept[0]);
  std::fill_n(out, context_.size(), 0.0);
  add_keeping(kept[0], weights_at(at), scale, u, out, out);
}

template <class T>
void SlabModel<T>::field_adjoint(const DepthPoint& at, double scale, const double* u, Tape& tape,
                                 const double* w, double* u_bar, std::span<double> parameters) {
  auto& kept = dynamic_cast<SlabTape<T>&>(tape);
  const auto weights = weights_at(at);
  LayerWeights<double> gradient;
  const bool wanted = !parameters.empty();
  if (wanted) gradient = weights_.begin_gradient(at, parameters);
  std::fill_n(u_bar, context_.size(), 0.0);
  add_kept_adjoint(kept[0], weights, scale, u, w, u_bar, u_bar, wanted ? &gradient : nullptr);
  if (wanted) weights_.finish_gradient(at, parameters);
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
      add_keeping(mine, w, step, from, base, sum);
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
      add_kept_adjoint(mine, weights, step, from, sum_bar, base, to, g);
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
