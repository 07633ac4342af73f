#include "model/slab/slab_model.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "base/mpi.hpp"
#include "operators/layer_norm.hpp"
#include "operators/sphere.hpp"

namespace fluxformer {
namespace {

/// The parameters, after their structure has been checked.
const Parameters& validated(const Parameters& parameters) {
  parameters.spec.validate();
  return parameters;
}

/// For each row calls visit(y . f, y . w, |u|, first index), y = u / |u|.
template <class Visit>
void for_each_direction(const double* u, const double* f, const double* w, int rows, int width,
                        Visit&& visit) {
  for (int r = 0; r < rows; ++r) {
    const Index first = Index{r} * width;
    double uu = 0, uf = 0, uw = 0;
    for (Index j = first; j < first + width; ++j) {
      uu += u[j] * u[j];
      uf += u[j] * f[j];
      uw += u[j] * w[j];
    }
    const double norm = std::sqrt(uu);
    visit(uf / norm, uw / norm, norm, first);
  }
}

/// The derivative of P(u) f, P = I - y y^T, y = u / |u|, along dy with f fixed:
/// out -= dy (y . f) + y (dy . f).
void add_projection_tangent(const double* u, const double* f, const double* dy, int rows, int width,
                            double* out) {
  const Index d = width;
  for_each_direction(u, f, dy, rows, width, [&](double yf, double, double norm, Index first) {
    double dyf = 0;
    for (Index j = first; j < first + d; ++j) dyf += dy[j] * f[j];
    for (Index j = first; j < first + d; ++j) out[j] -= dy[j] * yf + u[j] / norm * dyf;
  });
}

/// The transpose of that derivative: out = (dy/du)^T (-(y . f) w - (y . w) f).
void projection_adjoint(const double* u, const double* f, const double* w, int rows, int width, double* out) {
  const Index d = width;
  for_each_direction(u, f, w, rows, width, [&](double yf, double yw, double, Index first) {
    for (Index j = first; j < first + d; ++j) out[j] = -yf * w[j] - yw * f[j];
  });
  sphere_tangent(u, out, rows, width);
}

}  // namespace

template <class T>
SlabModel<T>::SlabModel(const Parameters& parameters, const SlabContext& context, Operands operands)
    : parameters_(validated(parameters)),
      context_(context),
      weights_(parameters),
      terms_(parameters.spec, context, layer_, operands),
      norm_(context),
      kappa_(parameters),
      sub_layers_(terms_.compose(kappa_.largest)) {}

template <class T>
void SlabModel<T>::refresh() {
  weights_.refresh();
  // Token diffusion takes part only where kappa > 0, and training may change that.
  kappa_ = KappaRange(parameters_);
  sub_layers_ = terms_.compose(kappa_.largest);
}

template <class T>
void SlabModel<T>::agree_on_coefficients(MPI_Comm comm) {
  // The least is the largest of -kappa: one reduction.
  double extremes[] = {-kappa_.least, kappa_.largest};
  largest_over_ranks(extremes, comm);
  kappa_.least = -extremes[0];
  kappa_.largest = extremes[1];
}

template <class T>
EquationCoefficients SlabModel<T>::coefficients() const {
  const auto& layout = parameters_.layout;
  return {kappa_.least, kappa_.largest, parameters_.values[layout.alpha()], parameters_.values[layout.rho()]};
}

template <class T>
double* SlabModel<T>::buffer(Index index) {
  while (std::ssize(buffers_) <= index) buffers_.emplace_back(context_.size());
  return buffers_[index].data();
}

template <class T>
SlabTerm<T>* SlabModel<T>::term(FieldTermKind part) {
  return part == FieldTermKind::diffusion && kappa_.largest == 0 ? nullptr : terms_.term(part);
}

template <class T>
void SlabModel<T>::add_field(FieldTermKind part, const DepthPoint& at, double scale, const double* u,
                             double* out) {
  auto* const t = term(part);
  if (t == nullptr) return;
  if (!projected(part)) return t->apply(weights_at(at), u, add_to(out, scale), nullptr);
  // out += P f, f = scale part(u), P = I - y y^T, y = u/|u|
  double* const f = buffer(0);
  std::fill_n(f, context_.size(), 0.0);
  t->apply(weights_at(at), u, add_to(f, scale), nullptr);
  project_to_tangent(u, f, context_.rows(), context_.width);
  for (Index j = 0, count = context_.size(); j < count; ++j) out[j] += f[j];
}

template <class T>
void SlabModel<T>::add_field_tangent(FieldTermKind part, const DepthPoint& at, double scale, const double* u,
                                     const double* v, double* out) {
  auto* const t = term(part);
  if (t == nullptr) return;
  if (!projected(part)) return t->push(weights_at(at), nullptr, {u, v}, add_to(out, scale), nullptr);
  // The derivative of P f along v, with f' = scale part'(u) v and y' = P v / |u|:
  //   P f' - (y' y^T + y y'^T) f
  const auto theta = weights_at(at);
  double* const f = buffer(0);
  double* const df = buffer(1);
  double* const dy = buffer(2);
  std::fill_n(f, context_.size(), 0.0);
  std::fill_n(df, context_.size(), 0.0);
  std::copy_n(v, context_.size(), dy);
  t->apply(theta, u, add_to(f, scale), nullptr);
  t->push(theta, nullptr, {u, v}, add_to(df, scale), nullptr);
  project_to_tangent(u, df, context_.rows(), context_.width);
  sphere_tangent(u, dy, context_.rows(), context_.width);
  add_projection_tangent(u, f, dy, context_.rows(), context_.width, df);
  for (Index j = 0, count = context_.size(); j < count; ++j) out[j] += df[j];
}

template <class T>
void SlabModel<T>::add_field_adjoint(FieldTermKind part, const DepthPoint& at, double scale, const double* u,
                                     const double* w, double* u_bar, std::span<double> parameters) {
  auto* const t = term(part);
  if (t == nullptr) return;
  const auto theta = weights_at(at);
  LayerWeights<double> gradient;
  const bool wanted = !parameters.empty();
  if (wanted) gradient = weights_.begin_gradient(at, parameters);
  // On the sphere the term is P f, and P is symmetric: u_bar += f'^T P w + (d(P f)/du at fixed f)^T w.
  const double* outer = w;
  if (projected(part)) {
    double* const f = buffer(0);
    double* const pw = buffer(1);
    double* const dw = buffer(2);
    std::fill_n(f, context_.size(), 0.0);
    t->apply(theta, u, add_to(f, scale), nullptr);
    std::copy_n(w, context_.size(), pw);
    project_to_tangent(u, pw, context_.rows(), context_.width);
    projection_adjoint(u, f, w, context_.rows(), context_.width, dw);
    for (Index j = 0, count = context_.size(); j < count; ++j) u_bar[j] += dw[j];
    outer = pw;
  }
  t->pull(theta, u, outer, add_to(u_bar, scale), wanted ? &gradient : nullptr, nullptr);
  if (wanted) weights_.finish_gradient(at, parameters);
}

template <class T>
void SlabModel<T>::add_diffusion_diagonal(const DepthPoint& at, double scale, double* diagonal) {
  if (kappa_.largest > 0) terms_.diffusion()->add_diagonal(weights_at(at), scale, diagonal);
}

template <class T>
void SlabModel<T>::attention_state(const DepthPoint& at, double h, const double* u, double* v) {
  // Attention is in the first sub-layer, or follows v = N((residual) u + h/2 rho R(u)) in macaron.
  if (spec().order != SubLayerOrder::macaron) {
    std::copy_n(u, context_.size(), v);
    return;
  }
  advance(sub_layers_.front(), weights_at(at), h, u, buffer(0), v);
}

template <class T>
void SlabModel<T>::attention_matrix(const DepthPoint& at, double h, const double* u, double* k) {
  // attention_state works in buffer 0.
  attention_state(at, h, u, buffer(1));
  terms_.attention().matrix(weights_at(at), buffer(1), k);
}

// The layer map G_s(u; h), one sub-layer after the other (docs/model.md section 2), with tangent and adjoint.

template <class T>
const double* SlabModel<T>::midpoint(const SubLayer<T>& sub, const Weights& theta, double step,
                                     const double* u) {
  // m = u + step/2 T(u)
  midpoint_.assign(u, u + context_.size());
  for (auto* term : sub.terms) term->apply(theta, u, add_to(midpoint_.data(), step / 2), nullptr);
  return midpoint_.data();
}

template <class T>
void SlabModel<T>::add_flow(const SubLayer<T>& sub, const Weights& theta, double step, double scale,
                            const double* u, double* k) {
  // Euler: k += scale step T(u). Midpoint: k += scale step T(m), m = u + step/2 T(u).
  const double* const from =
      spec().subflow == SubLayerIntegrator::midpoint ? midpoint(sub, theta, step, u) : u;
  for (auto* term : sub.terms) term->apply(theta, from, add_to(k, scale * step), nullptr);
}

template <class T>
void SlabModel<T>::add_flow_tangent(const SubLayer<T>& sub, const Weights& theta, double step,
                                    const double* u, const double* v, double* k) {
  // k += step T'(u) v; under the midpoint rule k += step T'(m) (v + step/2 T'(u) v), m = u + step/2 T(u).
  if (spec().subflow == SubLayerIntegrator::euler) {
    for (auto* term : sub.terms) term->push(theta, nullptr, {u, v}, add_to(k, step), nullptr);
    return;
  }
  // half = v + step/2 T'(u) v, the tangent of m
  Buffer half(v, v + context_.size());
  for (auto* term : sub.terms) term->push(theta, nullptr, {u, v}, add_to(half.data(), step / 2), nullptr);
  const double* const from = midpoint(sub, theta, step, u);
  for (auto* term : sub.terms) term->push(theta, nullptr, {from, half.data()}, add_to(k, step), nullptr);
}

template <class T>
void SlabModel<T>::add_flow_adjoint(const SubLayer<T>& sub, const Weights& theta, double step,
                                    const double* u, const double* k_bar, double* u_bar,
                                    const LayerWeights<double>* gradient) {
  // u_bar += step T'(u)^T k_bar; under the midpoint rule with m_bar = step T'(m)^T k_bar:
  // u_bar += m_bar + step/2 T'(u)^T m_bar.
  if (spec().subflow == SubLayerIntegrator::euler) {
    for (auto* term : sub.terms) term->pull(theta, u, k_bar, add_to(u_bar, step), gradient, nullptr);
    return;
  }
  Buffer half(context_.size(), 0.0);
  const double* const from = midpoint(sub, theta, step, u);
  for (auto* term : sub.terms) term->pull(theta, from, k_bar, add_to(half.data(), step), gradient, nullptr);
  // half is m_bar: m depends on u directly and through T(u).
  for (Index j = 0; j < std::ssize(half); ++j) u_bar[j] += half[j];
  for (auto* term : sub.terms) term->pull(theta, u, half.data(), add_to(u_bar, step / 2), gradient, nullptr);
}

template <class T>
void SlabModel<T>::advance(const SubLayer<T>& sub, const Weights& theta, double h, const double* u, double* z,
                           double* v) {
  // z = (residual) u + flow(u),  v = N(z)
  if (spec().residual)
    std::copy_n(u, context_.size(), z);
  else
    std::fill_n(z, context_.size(), 0.0);
  add_flow(sub, theta, sub.fraction * h, 1.0, u, z);
  if (v != z) norm_.apply(sub.after, theta, z, v);
}

template <class T>
void SlabModel<T>::add_map(const DepthPoint& at, double h, double scale, const double* u, const double* base,
                           double* out) {
  const auto theta = weights_at(at);
  const Index size = context_.size();
  const auto add_difference = [&](const double* v) {
    for (Index j = 0; j < size; ++j) out[j] += scale * (v[j] - base[j]);
  };
  const auto& last = sub_layers_.back();
  // out += scale (G(u) - base). If the last sub-layer is v + step T(v), then G(u) - base = (v - base) +
  // step T(v), and its flow can be added to `out` as it is.
  const bool additive = spec().residual && last.after == After::nothing;
  const double* v = u;
  Index next = 0;
  for (const auto& sub : sub_layers_) {
    if (additive && &sub == &last) {
      // The last sub-layer adds to `out` directly, which saves a pass over the slab.
      add_difference(v);
      return add_flow(sub, theta, sub.fraction * h, scale, v, out);
    }
    double* const z = buffer(next);
    double* const to = sub.after == After::nothing ? z : buffer(next + 1);
    advance(sub, theta, h, v, z, to);
    v = to;
    next = next == 0 ? 2 : 0;  // buffers 0, 1 and 2, 3 take turns
  }
  add_difference(v);
}

template <class T>
void SlabModel<T>::increment_tangent(const DepthPoint& at, double h, const double* u, const double* v,
                                     double* out) {
  const auto theta = weights_at(at);
  const Index size = context_.size();
  // The state and its tangent advance together; `out` holds the tangent dG/du v, from which v is subtracted
  // at the end.
  double* const z = buffer(0);
  double* const state = buffer(1);
  double* const z_dot = buffer(2);
  double* const next = buffer(3);
  std::copy_n(u, size, state);
  std::copy_n(v, size, out);
  for (const auto& sub : sub_layers_) {
    // z_dot = (residual) v + step T'(u) v (or the midpoint rule),  v := N'(z) z_dot,  u := N(z)
    advance(sub, theta, h, state, z, next);
    if (spec().residual)
      std::copy_n(out, size, z_dot);
    else
      std::fill_n(z_dot, size, 0.0);
    add_flow_tangent(sub, theta, sub.fraction * h, state, out, z_dot);
    norm_.tangent(sub.after, theta, z, z_dot, out);
    std::copy_n(next, size, state);
  }
  for (Index j = 0; j < size; ++j) out[j] -= v[j];
}

template <class T>
void SlabModel<T>::increment_adjoint(const DepthPoint& at, double h, const double* u, const double* w,
                                     double* u_bar, std::span<double> parameters) {
  const auto theta = weights_at(at);
  const Index size = context_.size(), count = sub_layers_.size();
  LayerWeights<double> gradient;
  const bool wanted = !parameters.empty();
  if (wanted) gradient = weights_.begin_gradient(at, parameters);
  const auto* const g = wanted ? &gradient : nullptr;

  // Forward again: buffers 2j, 2j+1 hold the input and the sum before normalisation of sub-layer j. The
  // result of the last one is needed only by its normalisation.
  std::copy_n(u, size, buffer(0));
  for (Index j = 0; j < count; ++j) {
    if (j + 1 == count && sub_layers_[j].after == After::nothing) break;
    double* const next = buffer(2 * j + 2);
    advance(sub_layers_[j], theta, h, buffer(2 * j), buffer(2 * j + 1), next);
  }
  // Backward: z_bar = N'(z)^T v_bar, then u_bar = z_bar (residual) + the transpose of the flow applied to
  // z_bar.
  double* const v_bar = buffer(2 * count);
  double* const z_bar = buffer(2 * count + 1);
  std::copy_n(w, size, v_bar);
  for (Index j = count; j-- > 0;) {
    norm_.adjoint(sub_layers_[j].after, theta, buffer(2 * j + 1), v_bar, z_bar, g);
    if (spec().residual)
      std::copy_n(z_bar, size, v_bar);
    else
      std::fill_n(v_bar, size, 0.0);
    add_flow_adjoint(sub_layers_[j], theta, sub_layers_[j].fraction * h, buffer(2 * j), z_bar, v_bar, g);
  }
  // u_bar += G'^T w - w
  for (Index j = 0; j < size; ++j) u_bar[j] += v_bar[j] - w[j];
  if (wanted) weights_.finish_gradient(at, parameters);
}

// The layer map with a tape, and its adjoint, which repeats nothing of the forward pass.

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
void SlabModel<T>::add_keeping(SubLayerTape<T>& held, const Weights& theta, double step, const double* u,
                               const double* base, double* sum) {
  for (const auto& part : held.parts) {
    // sum = base + step T(u): the first term reads the residual, the others add to what is there.
    part.term->apply(theta, u, {step, base, sum}, part.kept.get());
    base = sum;
  }
}

template <class T>
void SlabModel<T>::add_kept_adjoint(SubLayerTape<T>& held, const Weights& theta, double step, const double* u,
                                    const double* sum_bar, const double* base, double* u_bar,
                                    const LayerWeights<double>* gradient) {
  for (const auto& part : held.parts) {
    // u_bar = base + step T'(u)^T sum_bar, term by term as in add_keeping
    part.term->pull(theta, u, sum_bar, {step, base, u_bar}, gradient, part.kept.get());
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
  // The field is one sub-layer without residual, normalisation or step: out = scale F(u).
  kept.resize(1);
  SlabTape<T>::hold(field_terms(), kept[0]);
  std::fill_n(out, context_.size(), 0.0);
  add_keeping(kept[0], weights_at(at), scale, u, out, out);
}

template <class T>
void SlabModel<T>::field_adjoint(const DepthPoint& at, double scale, const double* u, Tape& tape,
                                 const double* w, double* u_bar, std::span<double> parameters) {
  auto& kept = dynamic_cast<SlabTape<T>&>(tape);
  const auto theta = weights_at(at);
  LayerWeights<double> gradient;
  const bool wanted = !parameters.empty();
  if (wanted) gradient = weights_.begin_gradient(at, parameters);
  // u_bar = scale F'(u)^T w
  std::fill_n(u_bar, context_.size(), 0.0);
  add_kept_adjoint(kept[0], theta, scale, u, w, u_bar, u_bar, wanted ? &gradient : nullptr);
  if (wanted) weights_.finish_gradient(at, parameters);
}

template <class T>
void SlabModel<T>::map_keeping(const DepthPoint& at, double h, const double* u, double* v, Tape& tape) {
  auto& kept = dynamic_cast<SlabTape<T>&>(tape);
  const auto theta = weights_at(at);
  const Index size = context_.size(), count = sub_layers_.size();
  kept.resize(count);
  // For each sub-layer: sum = (residual) u + step (terms)(u), v = N(sum). The input of the next one is kept
  // where it is made; `sum` is kept only for the derivative of N.
  const double* from = u;
  for (Index j = 0; j < count; ++j) {
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
      add_keeping(mine, theta, step, from, base, sum);
    } else {
      if (base != sum) std::copy_n(base, size, sum);
      add_flow(sub, theta, step, 1.0, from, sum);
    }
    if (sub.after != After::nothing) norm_.apply(sub.after, theta, sum, to);
    from = to;
  }
}

template <class T>
void SlabModel<T>::map_tangent(const DepthPoint& at, double h, const double* u, Tape& tape,
                               const double* u_dot, double* v_dot) {
  auto& kept = dynamic_cast<SlabTape<T>&>(tape);
  const auto theta = weights_at(at);
  const Index size = context_.size(), count = sub_layers_.size();
  // sum_dot = (residual) u_dot + step (terms)'(u) u_dot, v_dot = N'(sum) sum_dot; two buffers take turns.
  const double* from_dot = u_dot;
  for (Index j = 0; j < count; ++j) {
    const auto& sub = sub_layers_[j];
    auto& mine = kept[j];
    const double* const from = j == 0 ? u : mine.input.data();
    double* const to = j + 1 == count ? v_dot : buffer(j % 2);  // buffer 2 holds the sum
    double* const sum = sub.after != After::nothing ? buffer(2) : to;
    const double* base = begin_sum(from_dot, sum);
    const double step = sub.fraction * h;
    if (keeps_terms()) {
      for (Index k = 0; k < std::ssize(sub.terms); ++k) {
        const auto& part = mine.parts[k];
        sub.terms[k]->push(theta, nullptr, {from, from_dot}, {step, base, sum}, part.kept.get());
        base = sum;
      }
    } else {
      if (base != sum) std::copy_n(base, size, sum);
      add_flow_tangent(sub, theta, step, from, from_dot, sum);
    }
    if (sub.after != After::nothing) norm_.tangent(sub.after, theta, mine.sum.data(), sum, to);
    from_dot = to;
  }
}

template <class T>
void SlabModel<T>::map_adjoint(const DepthPoint& at, double h, const double* u, Tape& tape, const double* w,
                               double* u_bar, std::span<double> parameters) {
  auto& kept = dynamic_cast<SlabTape<T>&>(tape);
  const auto theta = weights_at(at);
  const Index size = context_.size(), count = sub_layers_.size();
  LayerWeights<double> gradient;
  const bool wanted = !parameters.empty();
  if (wanted) gradient = weights_.begin_gradient(at, parameters);
  const auto* const g = wanted ? &gradient : nullptr;

  // sum_bar = N'(sum)^T v_bar, u_bar = (residual) sum_bar + step (terms)'(u)^T sum_bar, from the last
  // sub-layer to the first.
  const double* v_bar = w;
  for (Index j = count; j-- > 0;) {
    const auto& sub = sub_layers_[j];
    auto& mine = kept[j];
    const double* sum_bar = v_bar;
    if (sub.after != After::nothing) {
      norm_.adjoint(sub.after, theta, mine.sum.data(), v_bar, buffer(0), g);
      sum_bar = buffer(0);
    }
    double* const to = j == 0 ? u_bar : buffer(1 + j % 2);  // buffer 0 holds the adjoint of the sum
    const double* base = begin_sum(sum_bar, to);
    const double* const from = j == 0 ? u : mine.input.data();
    const double step = sub.fraction * h;
    if (keeps_terms()) {
      add_kept_adjoint(mine, theta, step, from, sum_bar, base, to, g);
    } else {
      if (base != to) std::copy_n(base, size, to);
      add_flow_adjoint(sub, theta, step, from, sum_bar, to, g);
    }
    v_bar = to;
  }
  if (wanted) weights_.finish_gradient(at, parameters);
}

template <class T>
void SlabTape<T>::hold(std::span<SlabTerm<T>* const> terms, SubLayerTape<T>& sub_layer) {
  // A tape is made once: later passes over the same terms write over it.
  const auto same = [](const KeptTerm<T>& part, const SlabTerm<T>* term) { return part.term == term; };
  if (std::ranges::equal(sub_layer.parts, terms, same)) return;
  sub_layer.parts.clear();
  for (auto* const term : terms) sub_layer.parts.push_back({term, term->make_tape(Order::first)});
}

template <class T>
std::size_t SlabTape<T>::bytes() const {
  Index total = 0;
  for (const auto& sub : sub_layers_) {
    total += (sub.input.capacity() + sub.sum.capacity()) * sizeof(double);
    for (const auto& part : sub.parts) total += part.kept != nullptr ? part.kept->bytes() : 0;
  }
  return total;
}

template class SlabModel<float>;
template class SlabModel<double>;
template class SlabTape<float>;
template class SlabTape<double>;

std::unique_ptr<DepthModel> make_depth_model(const Parameters& parameters, const SlabContext& context,
                                             Precision precision) {
  switch (precision) {
    case Precision::float64:
      return std::make_unique<SlabModel<double>>(parameters, context);
    case Precision::float32:
      return std::make_unique<SlabModel<float>>(parameters, context);
    case Precision::mixed:
      return std::make_unique<SlabModel<float>>(parameters, context, Operands::bfloat16);
    case Precision::mixed_emulated:
      return std::make_unique<SlabModel<float>>(parameters, context, Operands::bfloat16_as_float);
  }
  throw std::logic_error("unknown precision");
}

}  // namespace fluxformer
