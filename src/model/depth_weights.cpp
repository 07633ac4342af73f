#include "model/depth_weights.hpp"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "base/index.hpp"

namespace fluxformer {

namespace {

/// Sets what belongs to a layer beside weights, its window and angles of rotary positions, and takes away the
/// norm of attention where the first layer has none.
template <class P>
LayerWeights<P> at_layer(const ModelSpec& spec, int layer, LayerWeights<P> weights) {
  weights.attention.window = spec.window(layer);
  weights.attention.theta = spec.theta(layer);
  if (layer == 1 && !spec.first_norm) weights.attention.gain = weights.attention.bias = nullptr;
  return weights;
}

}  // namespace

KnotPair knots_at(const ModelSpec& spec, const DepthPoint& point) {
  // One set of parameters per layer: no interpolation.
  if (spec.variation == DepthVariation::constant) return {point.layer - 1, point.layer - 1, 0.0};
  const int last = spec.knots - 1;
  // With one knot, or with all of them at s = 0 since S = 1, the weights are constant in depth.
  if (last == 0 || spec.layers == 1) return {0, 0, 0.0};
  // Knot k (0-based) stands at s = k (S - 1) / (K - 1): the depth s lies at s (K - 1) / (S - 1) among them.
  const double position = point.s * last / (spec.layers - 1);
  const int lower = static_cast<int>(std::floor(position));
  // Beyond the last knot, at s = S - 1, the weights stay as they are there.
  if (lower >= last) return {last, last, 0.0};
  const double share = position - lower;
  return share == 0 ? KnotPair{lower, lower, 0.0} : KnotPair{lower, lower + 1, share};
}

template <class T>
void DepthWeights<T>::fill(const KnotPair& pair, std::span<const double> flat, Block& block) const {
  const auto& layout = parameters_.layout;
  const Index size = layout.block_size();
  const double* source = flat.data() + layout.block_offset(pair.lower);
  if (pair.share == 0) block.exact.clear();
  if (pair.share != 0) {
    const double* upper = flat.data() + layout.block_offset(pair.upper);
    // theta(s) = (1 - share) theta_lower + share theta_upper
    block.exact.resize(size);
    for (Index j = 0; j < size; ++j) block.exact[j] = (1 - pair.share) * source[j] + pair.share * upper[j];
    source = block.exact.data();
  }
  if constexpr (!std::is_same_v<T, double>) block.cast.assign(source, source + size);
}

template <class T>
LayerWeights<const T> DepthWeights<T>::view(int layer, const KnotPair& pair, std::span<const double> flat,
                                            const Block& block) const {
  const auto& layout = parameters_.layout;
  const double* exact =
      block.exact.empty() ? flat.data() + layout.block_offset(pair.lower) : block.exact.data();
  const double* alpha_rho = flat.data() + layout.alpha();
  // The kernels read the weights in T, but kappa, alpha and rho in double.
  if constexpr (std::is_same_v<T, double>)
    return at_layer(parameters_.spec, layer, layout.template layer<const double>(exact, exact, alpha_rho));
  else
    return at_layer(parameters_.spec, layer,
                    layout.template layer<const T>(block.cast.data(), exact, alpha_rho));
}

template <class T>
LayerWeights<const T> DepthWeights<T>::at(const DepthPoint& point) {
  const auto pair = knots_at(parameters_.spec, point);
  // The pair of knots and the share between them identify a depth.
  const auto found = prepared_.find({pair.lower, pair.share});
  if (found != prepared_.end()) return view(point.layer, pair, parameters_.values, found->second);
  if (const Key key{pair.lower, pair.share}; scratch_key_ != key) {
    fill(pair, parameters_.values, scratch_);
    scratch_key_ = key;
  }
  return view(point.layer, pair, parameters_.values, scratch_);
}

template <class T>
LayerWeights<const T> DepthWeights<T>::direction_at(const DepthPoint& point, std::span<const double> flat) {
  const auto pair = knots_at(parameters_.spec, point);
  fill(pair, flat, direction_);
  return view(point.layer, pair, flat, direction_);
}

template <class T>
void DepthWeights<T>::prepare(std::span<const DepthPoint> points) {
  for (const auto& point : points) {
    const auto pair = knots_at(parameters_.spec, point);
    const auto [place, fresh] = prepared_.try_emplace({pair.lower, pair.share});
    if (fresh) fill(pair, parameters_.values, place->second);
  }
}

template <class T>
void DepthWeights<T>::refresh() {
  scratch_key_.reset();
  for (auto& [key, block] : prepared_) {
    // A key is (lower knot, share): the share 0 stands for the knot itself.
    const int upper = key.second == 0 ? key.first : key.first + 1;
    fill({key.first, upper, key.second}, parameters_.values, block);
  }
}

template <class T>
LayerWeights<double> DepthWeights<T>::begin_gradient(const DepthPoint& point, std::span<double> flat) {
  const auto& layout = parameters_.layout;
  const auto pair = knots_at(parameters_.spec, point);
  double* block = flat.data() + layout.block_offset(pair.lower);
  // Between two knots the gradient is collected apart, since both get a share of it.
  if (pair.share != 0) {
    gradient_.assign(layout.block_size(), 0.0);
    block = gradient_.data();
  }
  return at_layer(parameters_.spec, point.layer,
                  layout.template layer<double>(block, block, flat.data() + layout.alpha()));
}

template <class T>
void DepthWeights<T>::finish_gradient(const DepthPoint& point, std::span<double> flat) {
  const auto pair = knots_at(parameters_.spec, point);
  if (pair.share == 0) return;
  // The transpose of the interpolation:
  //   theta_bar_lower += (1 - share) theta_bar,   theta_bar_upper += share theta_bar
  const auto& layout = parameters_.layout;
  double* lower = flat.data() + layout.block_offset(pair.lower);
  double* upper = flat.data() + layout.block_offset(pair.upper);
  for (Index j = 0; j < std::ssize(gradient_); ++j) {
    lower[j] += (1 - pair.share) * gradient_[j];
    upper[j] += pair.share * gradient_[j];
  }
}

template class DepthWeights<float>;
template class DepthWeights<double>;

}  // namespace fluxformer
