#include "model/slab/slab_norm.hpp"

#include <algorithm>
#include <limits>

#include "base/index.hpp"
#include "operators/layer_norm.hpp"

namespace fluxformer {

template <class T>
const typename SlabNorm<T>::Loaded& SlabNorm<T>::load(After after, const LayerWeights<const T>& theta,
                                                      Loaded& to) const {
  const auto from = norm_weights(after, theta);
  // Weights in float are widened: the state is double.
  to.gain.assign(from.gain, from.gain + context_.width);
  to.bias.assign(from.bias, from.bias + context_.width);
  to.eps = from.eps;
  return to;
}

template <class T>
void SlabNorm<T>::apply(After after, const LayerWeights<const T>& theta, const double* z, double* v) {
  const int rows = context_.rows(), width = context_.width;
  const Index d = width;
  if (after == After::nothing || after == After::sphere) {
    std::copy_n(z, context_.size(), v);
    // v = z / |z|
    if (after == After::sphere && !project_to_sphere(v, rows, width))
      std::fill_n(v, context_.size(), std::numeric_limits<double>::quiet_NaN());
    return;
  }
  // v = gain (z - mean) / sqrt(variance + eps) + bias, row by row
  const auto& [gain, bias, eps] = load(after, theta, weights_);
  layer_norm<double>(z, d, rows, width, eps, gain.data(), bias.data(), v, d);
}

template <class T>
void SlabNorm<T>::push(After after, const LayerWeights<const T>& theta,
                       const LayerWeights<const T>* theta_dot, Point z, double* v_dot) {
  const int rows = context_.rows(), width = context_.width;
  const Index d = width;
  if (after == After::nothing || after == After::sphere) {
    std::copy_n(z.u_dot, context_.size(), v_dot);
    // v_dot = (I - y y^T) z_dot / |z|, y = z / |z|
    if (after == After::sphere) sphere_tangent(z.u, v_dot, rows, width);
    return;
  }
  const auto& [gain, bias, eps] = load(after, theta, weights_);
  // v_dot = gain y_dot + gain_dot y + bias_dot, row by row, with y_dot = e - y mean(y e), sigma =
  // sqrt(variance + eps), y = (z - mean(z)) / sigma and e = (z_dot - mean(z_dot)) / sigma
  if (theta_dot == nullptr)
    return layer_norm_tangent<double>(z.u, z.u_dot, d, rows, width, eps, gain.data(), v_dot, d);
  const auto& along = load(after, *theta_dot, direction_);
  layer_norm_full_tangent<double>(z.u, z.u_dot, d, rows, width, eps, gain.data(), along.gain.data(),
                                  along.bias.data(), v_dot, d);
}

template <class T>
void SlabNorm<T>::pull(After after, const LayerWeights<const T>& theta, const double* z, const double* v_bar,
                       double* z_bar, const LayerWeights<double>* gradient) {
  const int rows = context_.rows(), width = context_.width;
  const Index d = width;
  if (after == After::nothing || after == After::sphere) {
    std::copy_n(v_bar, context_.size(), z_bar);
    // The derivative of the projection is symmetric: its transpose is the tangent.
    if (after == After::sphere) sphere_tangent(z, z_bar, rows, width);
    return;
  }
  const auto& [gain, bias, eps] = load(after, theta, weights_);
  // z_bar = (g - mean(g) - y mean(y g)) / sigma, g = gain v_bar, with y and sigma as in the tangent;
  // gain_bar += y v_bar and bias_bar += v_bar, summed over the rows
  const auto bar = gradient != nullptr ? norm_weights(after, *gradient) : NormWeights<double>{};
  std::fill_n(z_bar, context_.size(), 0.0);
  layer_norm_adjoint<double>(z, d, v_bar, d, rows, width, eps, gain.data(), 1.0, z_bar, bar.gain, bar.bias);
}

template <class T>
void SlabNorm<T>::pull_along(After after, const LayerWeights<const T>& theta,
                             const LayerWeights<const T>& theta_dot, Point z, Seed v_bar, double* z_bar_dot,
                             const LayerWeights<double>& gradient_dot) {
  const int rows = context_.rows(), width = context_.width;
  const Index d = width;
  if (after == After::nothing) {
    // The identity: z_bar_dot = v_bar_dot.
    std::copy_n(v_bar.w_dot, context_.size(), z_bar_dot);
    return;
  }
  if (after == After::sphere)
    // The sphere has no parameters: only z and v_bar move.
    return sphere_adjoint_tangent(z.u, z.u_dot, v_bar.w, v_bar.w_dot, rows, width, z_bar_dot);
  const auto& [gain, bias, eps] = load(after, theta, weights_);
  const auto& along = load(after, theta_dot, direction_);
  const auto bar_dot = norm_weights(after, gradient_dot);
  // d/de of the adjoint of LayerNorm along (z_dot, gain_dot, v_bar_dot); the bias has no part in it.
  std::fill_n(z_bar_dot, context_.size(), 0.0);
  layer_norm_adjoint_tangent<double>(z.u, z.u_dot, d, v_bar.w, v_bar.w_dot, d, rows, width, eps, gain.data(),
                                     along.gain.data(), 1.0, z_bar_dot, z_bar_dot, bar_dot.gain,
                                     bar_dot.bias);
}

template class SlabNorm<float>;
template class SlabNorm<double>;

}  // namespace fluxformer
