#include "model/layer_map.hpp"

#include <algorithm>
#include <cassert>

namespace fluxformer {
namespace {

std::size_t bytes_of(const std::vector<std::vector<double>>& slabs) {
  std::size_t numbers = 0;
  for (const auto& slab : slabs) numbers += slab.capacity();
  return numbers * sizeof(double);
}

/// The argument of an evaluation: the caller's x for the first one.
const double* argument_of(const LayerTrace& trace, Index evaluation, const double* x) {
  return evaluation == 0 ? x : trace.argument[evaluation].data();
}

}  // namespace

std::size_t LayerTrace::bytes() const {
  return bytes_of(argument) + bytes_of(sum);
}

template <class T>
void hold(const std::vector<SlabTerm<T>*>& terms, std::optional<Order> upto, TapedTerms<T>& taped) {
  const auto same = [](const TapedTerm<T>& one, const SlabTerm<T>* term) { return one.term == term; };
  if (std::ranges::equal(taped, terms, same)) return;
  taped.clear();
  for (const auto* const term : terms) taped.push_back({term, upto ? term->make_tape(*upto) : nullptr});
}

template <class T>
std::size_t LayerTape<T>::bytes() const {
  std::size_t total = state.bytes() + direction.bytes() + bytes_of(cotangent) + bytes_of(result_bar);
  for (const auto& evaluation : terms)
    for (const auto& one : evaluation) total += one.tape != nullptr ? one.tape->bytes() : 0;
  return total;
}

template <class T>
LayerMap<T>::LayerMap(const ModelSpec& spec, const SlabContext& context)
    : spec_(spec), context_(context), norm_(context) {}

template <class T>
void LayerMap<T>::require(Order upto) const {
  for (const auto& sub : sub_layers_)
    for (const auto* const term : sub.terms) (void)term->make_tape(upto);
}

template <class T>
void LayerMap<T>::make_room(LayerTrace& trace) const {
  const Index size = context_.size();
  trace.argument.resize(std::ssize(sub_layers_) * stages());
  trace.sum.resize(sub_layers_.size());
  for (Index e = 1; e < std::ssize(trace.argument); ++e) trace.argument[e].resize(size);
  for (Index j = 0; j < std::ssize(sub_layers_); ++j)
    if (sub_layers_[j].after != After::nothing) trace.sum[j].resize(size);
}

template <class T>
const double* LayerMap<T>::residual_or_zero(const double* x, double* out) const {
  if (spec_.residual) return x;
  std::fill_n(out, context_.size(), 0.0);
  return out;
}

template <class T>
template <class TermCall, class NormCall>
void LayerMap<T>::walk_forward(Index count, double h, const double* x, double* y, LayerTrace& trace,
                               TermCall&& term, NormCall&& norm) {
  make_room(trace);
  for (Index j = 0; j < count; ++j) {
    const auto& sub = sub_layers_[j];
    const bool normalised = sub.after != After::nothing;
    double* const result = j + 1 == count ? y : trace.argument[(j + 1) * stages()].data();
    double* const sum = normalised ? trace.sum[j].data() : result;
    // Midpoint: m = x + step/2 F(x) first. Then sum = (residual) x + step F(x), or F(m).
    const double* argument = x;
    for (Index stage = 0; stage < stages(); ++stage) {
      const Index e = j * stages() + stage;
      const bool last = stage + 1 == stages();
      double* const to = last ? sum : trace.argument[e + 1].data();
      if (to == nullptr) return;
      Sum out{step(sub, stage, h), last ? residual_or_zero(x, to) : x, to};
      for (Index k = 0; k < std::ssize(sub.terms); ++k) {
        // The first term reads the base, the others add to the result.
        term(*sub.terms[k], e, k, argument, out);
        out.base = to;
      }
      argument = to;
    }
    if (normalised && result != nullptr) norm(sub.after, j, sum, result);
    x = result;
  }
}

template <class T>
template <class TermCall, class NormCall>
void LayerMap<T>::walk_back(double h, const double* w, double* u_bar, TermCall&& term, NormCall&& norm) {
  const Index size = context_.size();
  const auto room = [size](Slab& slab) {
    slab.resize(size);
    return slab.data();
  };
  for (Index j = std::ssize(sub_layers_); j-- > 0;) {
    const auto& sub = sub_layers_[j];
    // sum_bar = N'(sum)^T result_bar
    if (sub.after != After::nothing) {
      norm(sub.after, j, w, room(sum_bar_));
      w = sum_bar_.data();
    }
    // Two slabs take turns between the sub-layers.
    double* const x_bar = j == 0 ? u_bar : room(turns_[j % 2]);
    const auto add_terms = [&](Index stage, const double* seed, const double* base, double* to) {
      Sum out{step(sub, stage, h), base, to};
      for (Index k = 0; k < std::ssize(sub.terms); ++k) {
        term(*sub.terms[k], j * stages() + stage, k, seed, out);
        out.base = to;
      }
    };
    if (stages() == 1) {
      // x_bar = (residual) sum_bar + step F'(x)^T sum_bar
      add_terms(0, w, residual_or_zero(w, x_bar), x_bar);
    } else {
      // m_bar = step F'(m)^T sum_bar,  x_bar = (residual) sum_bar + m_bar + step/2 F'(x)^T m_bar
      double* const middle = room(middle_bar_);
      std::fill_n(middle, size, 0.0);
      add_terms(1, w, middle, middle);
      for (Index i = 0; i < size; ++i) x_bar[i] = middle[i] + (spec_.residual ? w[i] : 0.0);
      add_terms(0, middle, x_bar, x_bar);
    }
    w = x_bar;
  }
}

template <class T>
void LayerMap<T>::apply(const Weights& theta, double h, const double* u, double* v, LayerTape<T>* tape,
                        Index count) {
  if (tape != nullptr) {
    tape->terms.resize(std::ssize(sub_layers_) * stages());
    // First derivatives under the midpoint rule compute the terms again: two evaluations would keep twice as
    // much as the Euler rule does.
    const bool again = stages() == 2 && tape->upto == Order::first;
    const auto upto = again ? std::nullopt : std::optional(tape->upto);
    for (Index e = 0; e < std::ssize(tape->terms); ++e)
      hold(sub_layers_[e / stages()].terms, upto, tape->terms[e]);
  }
  walk_forward(
      count, h, u, v, tape != nullptr ? tape->state : state_,
      [&](SlabTerm<T>& term, Index e, Index k, const double* x, Sum out) {
        term.apply(theta, x, out, tape != nullptr ? tape->tape(e, k) : nullptr);
      },
      [&](After after, Index, const double* sum, double* y) { norm_.apply(after, theta, sum, y); });
}

template <class T>
const LayerTrace& LayerMap<T>::known_state(const Weights& theta, double h, const double* u,
                                           LayerTape<T>* tape) {
  if (tape != nullptr) {
    assert(std::ssize(tape->terms) == std::ssize(sub_layers_) * stages());  // filled by `apply`
    return tape->state;
  }
  apply(theta, h, u, nullptr, nullptr);
  return state_;
}

template <class T>
void LayerMap<T>::push(const Weights& theta, const Weights* theta_dot, double h, Point at, double* v_dot,
                       LayerTape<T>* tape) {
  const LayerTrace& state = known_state(theta, h, at.u, tape);
  const bool keeps = tape != nullptr && tape->upto == Order::second && theta_dot != nullptr;
  walk_forward(
      std::ssize(sub_layers_), h, at.u_dot, v_dot, keeps ? tape->direction : direction_,
      [&](SlabTerm<T>& term, Index e, Index k, const double* x_dot, Sum out) {
        term.push(theta, theta_dot, {argument_of(state, e, at.u), x_dot}, out,
                  tape != nullptr ? tape->tape(e, k) : nullptr);
      },
      [&](After after, Index j, const double* sum_dot, double* y_dot) {
        norm_.push(after, theta, theta_dot, {state.sum[j].data(), sum_dot}, y_dot);
      });
}

template <class T>
void LayerMap<T>::pull(const Weights& theta, double h, const double* u, const double* w, double* u_bar,
                       const LayerWeights<double>* gradient, LayerTape<T>* tape, Order keep) {
  const LayerTrace& state = known_state(theta, h, u, tape);
  const bool keeps = keep == Order::second;
  assert(!keeps || (tape != nullptr && tape->upto == Order::second));
  const Index size = context_.size();
  if (keeps) {
    tape->cotangent.resize(state.argument.size());
    tape->result_bar.resize(state.sum.size());
  }
  walk_back(
      h, w, u_bar,
      [&](SlabTerm<T>& term, Index e, Index k, const double* seed, Sum x_bar) {
        // All terms of an evaluation have the same w.
        if (keeps && k == 0) tape->cotangent[e].assign(seed, seed + size);
        TermTape* const kept = tape != nullptr ? tape->tape(e, k) : nullptr;
        term.pull(theta, argument_of(state, e, u), seed, x_bar, gradient,
                  keeps ? kept : value_part<TermTape>(kept));
      },
      [&](After after, Index j, const double* result_bar, double* sum_bar) {
        if (keeps) tape->result_bar[j].assign(result_bar, result_bar + size);
        norm_.pull(after, theta, state.sum[j].data(), result_bar, sum_bar, gradient);
      });
}

template <class T>
void LayerMap<T>::pull_along(const Weights& theta, const Weights& theta_dot, double h, Point at,
                             const double* w_dot, double* u_bar_dot, const LayerWeights<double>& gradient_dot,
                             LayerTape<T>& tape) {
  const auto &state = tape.state, &direction = tape.direction;
  walk_back(
      h, w_dot, u_bar_dot,
      [&](SlabTerm<T>& term, Index e, Index k, const double* seed_dot, Sum x_bar_dot) {
        const Point argument{argument_of(state, e, at.u), argument_of(direction, e, at.u_dot)};
        term.pull_along(theta, theta_dot, argument, {tape.cotangent[e].data(), seed_dot}, x_bar_dot,
                        gradient_dot, tape.tape(e, k));
      },
      [&](After after, Index j, const double* result_bar_dot, double* sum_bar_dot) {
        norm_.pull_along(after, theta, theta_dot, {state.sum[j].data(), direction.sum[j].data()},
                         {tape.result_bar[j].data(), result_bar_dot}, sum_bar_dot, gradient_dot);
      });
}

template void hold(const std::vector<SlabTerm<float>*>&, std::optional<Order>, TapedTerms<float>&);
template void hold(const std::vector<SlabTerm<double>*>&, std::optional<Order>, TapedTerms<double>&);
template class LayerMap<float>;
template class LayerMap<double>;
template class LayerTape<float>;
template class LayerTape<double>;

}  // namespace fluxformer
