#include "model/slab/slab_norm.hpp"

#include <algorithm>
#include <limits>

#include "operators/layer_norm.hpp"

namespace fluxformer {

template <class T>
void SlabNorm<T>::load(After after, const LayerWeights<const T>& w) {
  const auto from = norm_weights(after, w);
  gain_.assign(from.gain, from.gain + context_.width);
  bias_.assign(from.bias, from.bias + context_.width);
}

template <class T>
void SlabNorm<T>::apply(After after, const LayerWeights<const T>& w, const double* z, double* v) {
  const int rows = context_.rows(), width = context_.width;
  const auto d = static_cast<std::size_t>(width);
  if (after == After::nothing || after == After::sphere) {
    std::copy_n(z, context_.size(), v);
    if (after == After::sphere && !project_to_sphere(v, rows, width))
      std::fill_n(v, context_.size(), std::numeric_limits<double>::quiet_NaN());
    return;
  }
  load(after, w);
  layer_norm<double>(z, d, rows, width, gain_.data(), bias_.data(), v, d);
}

template <class T>
void SlabNorm<T>::tangent(After after, const LayerWeights<const T>& w, const double* z, const double* z_dot,
                          double* v) {
  const int rows = context_.rows(), width = context_.width;
  const auto d = static_cast<std::size_t>(width);
  if (after == After::nothing || after == After::sphere) {
    std::copy_n(z_dot, context_.size(), v);
    if (after == After::sphere) sphere_tangent(z, v, rows, width);
    return;
  }
  load(after, w);
  layer_norm_tangent<double>(z, z_dot, d, rows, width, gain_.data(), v, d);
}

template <class T>
void SlabNorm<T>::adjoint(After after, const LayerWeights<const T>& w, const double* z, const double* v_bar,
                          double* z_bar, const LayerWeights<double>* gradient) {
  const int rows = context_.rows(), width = context_.width;
  const auto d = static_cast<std::size_t>(width);
  if (after == After::nothing || after == After::sphere) {
    std::copy_n(v_bar, context_.size(), z_bar);
    if (after == After::sphere) sphere_tangent(z, z_bar, rows, width);
    return;
  }
  load(after, w);
  const auto bar = gradient != nullptr ? norm_weights(after, *gradient) : NormWeights<double>{};
  std::fill_n(z_bar, context_.size(), 0.0);
  layer_norm_adjoint<double>(z, d, v_bar, d, rows, width, gain_.data(), 1.0, z_bar, bar.gain, bar.bias);
}

template class SlabNorm<float>;
template class SlabNorm<double>;

}  // namespace fluxformer
