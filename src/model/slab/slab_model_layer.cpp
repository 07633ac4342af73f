// The layer map G_s(u; h), one sub-layer after the other (docs/model.md section 2), with tangent and adjoint.

#include <algorithm>

#include "model/slab/slab_model.hpp"

namespace fluxformer {

template <class T>
const double* SlabModel<T>::midpoint(const Sub& sub, const Weights& w, double step, const double* u) {
  midpoint_.assign(u, u + context_.size());
  for (auto* term : sub.terms) term->add_rhs(w, u, step / 2, midpoint_.data());
  return midpoint_.data();
}

template <class T>
void SlabModel<T>::add_flow(const Sub& sub, const Weights& w, double step, double scale, const double* u,
                            double* k) {
  const double* const from = spec().subflow == SubLayerIntegrator::midpoint ? midpoint(sub, w, step, u) : u;
  for (auto* term : sub.terms) term->add_rhs(w, from, scale * step, k);
}

template <class T>
void SlabModel<T>::add_flow_tangent(const Sub& sub, const Weights& w, double step, const double* u,
                                    const double* v, double* k) {
  if (spec().subflow == SubLayerIntegrator::euler) {
    for (auto* term : sub.terms) term->add_tangent(w, u, v, step, k);
    return;
  }
  Buffer half(v, v + context_.size());
  for (auto* term : sub.terms) term->add_tangent(w, u, v, step / 2, half.data());
  const double* const from = midpoint(sub, w, step, u);
  for (auto* term : sub.terms) term->add_tangent(w, from, half.data(), step, k);
}

template <class T>
void SlabModel<T>::add_flow_adjoint(const Sub& sub, const Weights& w, double step, const double* u,
                                    const double* k_bar, double* u_bar,
                                    const LayerWeights<double>* gradient) {
  if (spec().subflow == SubLayerIntegrator::euler) {
    for (auto* term : sub.terms) term->add_adjoint(w, u, k_bar, step, u_bar, gradient);
    return;
  }
  Buffer half(context_.size(), 0.0);
  const double* const from = midpoint(sub, w, step, u);
  for (auto* term : sub.terms) term->add_adjoint(w, from, k_bar, step, half.data(), gradient);
  for (std::size_t j = 0; j < half.size(); ++j) u_bar[j] += half[j];
  for (auto* term : sub.terms) term->add_adjoint(w, u, half.data(), step / 2, u_bar, gradient);
}

template <class T>
void SlabModel<T>::advance(const Sub& sub, const Weights& w, double h, const double* u, double* z,
                           double* v) {
  if (spec().residual)
    std::copy_n(u, context_.size(), z);
  else
    std::fill_n(z, context_.size(), 0.0);
  add_flow(sub, w, sub.fraction * h, 1.0, u, z);
  if (v != z) norm_.apply(sub.after, w, z, v);
}

template <class T>
void SlabModel<T>::add_map(const DepthPoint& at, double h, double scale, const double* u, const double* base,
                           double* out) {
  const auto w = weights_at(at);
  const std::size_t size = context_.size();
  const auto add_difference = [&](const double* v) {
    for (std::size_t j = 0; j < size; ++j) out[j] += scale * (v[j] - base[j]);
  };
  const auto& last = sub_layers_.back();
  const bool additive = spec().residual && last.after == After::nothing;
  const double* v = u;
  std::size_t next = 0;
  for (const auto& sub : sub_layers_) {
    if (additive && &sub == &last) {
      // The last sub-layer adds to `out` directly, which saves a pass over the slab.
      add_difference(v);
      return add_flow(sub, w, sub.fraction * h, scale, v, out);
    }
    double* const z = buffer(next);
    double* const to = sub.after == After::nothing ? z : buffer(next + 1);
    advance(sub, w, h, v, z, to);
    v = to;
    next = next == 0 ? 2 : 0;
  }
  add_difference(v);
}

template <class T>
void SlabModel<T>::increment_tangent(const DepthPoint& at, double h, const double* u, const double* v,
                                     double* out) {
  const auto w = weights_at(at);
  const std::size_t size = context_.size();
  double* const z = buffer(0);
  double* const state = buffer(1);
  double* const z_dot = buffer(2);
  double* const next = buffer(3);
  std::copy_n(u, size, state);
  std::copy_n(v, size, out);
  for (const auto& sub : sub_layers_) {
    advance(sub, w, h, state, z, next);
    if (spec().residual)
      std::copy_n(out, size, z_dot);
    else
      std::fill_n(z_dot, size, 0.0);
    add_flow_tangent(sub, w, sub.fraction * h, state, out, z_dot);
    norm_.tangent(sub.after, w, z, z_dot, out);
    std::copy_n(next, size, state);
  }
  for (std::size_t j = 0; j < size; ++j) out[j] -= v[j];
}

template <class T>
void SlabModel<T>::increment_adjoint(const DepthPoint& at, double h, const double* u, const double* w,
                                     double* u_bar, std::span<double> parameters) {
  const auto weights = weights_at(at);
  const std::size_t size = context_.size(), count = sub_layers_.size();
  LayerWeights<double> gradient;
  const bool wanted = !parameters.empty();
  if (wanted) gradient = weights_.begin_gradient(at, parameters);
  const auto* const g = wanted ? &gradient : nullptr;

  // Forward again: buffers 2j, 2j+1 hold the input and the sum before normalisation of sub-layer j. The
  // result of the last one is needed only by its normalisation.
  std::copy_n(u, size, buffer(0));
  for (std::size_t j = 0; j < count; ++j) {
    if (j + 1 == count && sub_layers_[j].after == After::nothing) break;
    double* const next = buffer(2 * j + 2);
    advance(sub_layers_[j], weights, h, buffer(2 * j), buffer(2 * j + 1), next);
  }
  double* const v_bar = buffer(2 * count);
  double* const z_bar = buffer(2 * count + 1);
  std::copy_n(w, size, v_bar);
  for (std::size_t j = count; j-- > 0;) {
    norm_.adjoint(sub_layers_[j].after, weights, buffer(2 * j + 1), v_bar, z_bar, g);
    if (spec().residual)
      std::copy_n(z_bar, size, v_bar);
    else
      std::fill_n(v_bar, size, 0.0);
    add_flow_adjoint(sub_layers_[j], weights, sub_layers_[j].fraction * h, buffer(2 * j), z_bar, v_bar, g);
  }
  for (std::size_t j = 0; j < size; ++j) u_bar[j] += v_bar[j] - w[j];
  if (wanted) weights_.finish_gradient(at, parameters);
}

template class SlabModel<float>;
template class SlabModel<double>;

}  // namespace fluxformer
