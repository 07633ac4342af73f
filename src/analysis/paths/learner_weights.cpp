#include "analysis/paths/learner_weights.hpp"

#include <cmath>
#include <string>

#include "base/error.hpp"
#include "base/random.hpp"

namespace fluxformer::paths {
namespace {

using Eigen::Index;

using Block = Eigen::Map<const RowMatrix>;

std::size_t product(int a, int b, int c = 1, int d = 1) {
  return static_cast<std::size_t>(a) * static_cast<std::size_t>(b) * static_cast<std::size_t>(c) *
         static_cast<std::size_t>(d);
}

const LearnerShape& require(const LearnerShape& shape) {
  for (const int size : {shape.dimension, shape.tokens, shape.width, shape.layers, shape.heads, shape.key})
    if (size < 1)
      throw BadInput("a network of attention paths has a size of " + std::to_string(size) +
                     ": must be at least 1");
  return shape;
}

}  // namespace

LearnerWeights::LearnerWeights(const LearnerShape& shape)
    : shape_(require(shape)),
      projections_(product(shape.width, shape.dimension)),
      values_(projections_ + 2 * product(shape.layers, shape.heads, shape.key, shape.dimension)),
      readout_(values_ + product(shape.layers, shape.heads, shape.width, shape.width)),
      end_(readout_ + product(shape.width, 1)) {}

std::span<const double> LearnerWeights::input(std::span<const double> all) const {
  return all.first(projections_);
}

std::span<const double> LearnerWeights::queries(std::span<const double> all, int layer) const {
  const std::size_t size = product(shape_.heads, shape_.key, shape_.dimension);
  return all.subspan(projections_ + 2 * static_cast<std::size_t>(layer) * size, size);
}

std::span<const double> LearnerWeights::keys(std::span<const double> all, int layer) const {
  const std::size_t size = product(shape_.heads, shape_.key, shape_.dimension);
  return all.subspan(projections_ + (2 * static_cast<std::size_t>(layer) + 1) * size, size);
}

std::span<const double> LearnerWeights::values(std::span<const double> all) const {
  return all.subspan(values_, readout_ - values_);
}

std::span<const double> LearnerWeights::readout(std::span<const double> all) const {
  return all.subspan(readout_);
}

std::vector<double> LearnerWeights::initial(std::uint64_t seed) const {
  const RandomStream stream(seed, "weights of attention paths");
  std::vector<double> all(end_);
  for (std::size_t k = 0; k < end_; ++k) {
    const int columns = k < values_ ? shape_.dimension : shape_.width;
    all[k] = stream.normal(k) / std::sqrt(static_cast<double>(columns));
  }
  return all;
}

FrozenAttention LearnerWeights::attention(std::span<const double> all) const {
  const std::size_t size = product(shape_.key, shape_.dimension);
  std::vector<std::vector<FrozenHead>> layers(static_cast<std::size_t>(shape_.layers));
  for (int l = 0; l < shape_.layers; ++l)
    for (int h = 0; h < shape_.heads; ++h) {
      const auto of = [&](std::span<const double> block) -> Eigen::MatrixXd {
        return Block(block.data() + static_cast<std::size_t>(h) * size, shape_.key, shape_.dimension);
      };
      layers[l].emplace_back(QueryKeyHead{.query = of(queries(all, l)), .key = of(keys(all, l))});
    }
  return {std::move(layers), ReadOut::average_pooling};
}

RowMatrix LearnerWeights::input_weights(std::span<const double> all) const {
  const double share = 1 / std::sqrt(static_cast<double>(shape_.heads));
  RowMatrix w = Block(readout(all).data(), 1, shape_.width);
  const double* layer = readout(all).data();
  for (int l = shape_.layers; l > 0; --l) {
    layer -= product(shape_.heads, shape_.width, shape_.width);
    RowMatrix longer(shape_.heads * w.rows(), shape_.width);
    for (int h = 0; h < shape_.heads; ++h)  // w^(h, rest) = V_h^T w^rest: the blocks hold V_h^T
      longer.middleRows(h * w.rows(), w.rows()) =
          share * w *
          Block(layer + product(h, shape_.width, shape_.width), shape_.width, shape_.width).transpose();
    w = std::move(longer);
  }
  return w * Block(all.data(), shape_.width, shape_.dimension);
}

}  // namespace fluxformer::paths
