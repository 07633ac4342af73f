#include "analysis/hessian/layer_measures.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "analysis/hessian/block_norms.hpp"
#include "analysis/hessian/decoder_products.hpp"
#include "base/random.hpp"

namespace fluxformer::hessian {
namespace {

/// One row counts as 1 / (scored rows), or as 1 for the sum of squares.
double weight_of(const LayerStudy& study, const TokenBatch& batch) {
  return study.loss == LogitLoss::cross_entropy ? 1.0 / static_cast<double>(batch.scored()) : 1.0;
}

std::vector<AttentionLayer> layers_of(const LayerStudy& study, const DecoderWeights& weights) {
  const auto batch = addition_batch(study.seed, 0, 0, study.sequences);
  return attention_layers(study.shape, weights, batch, study.loss, weight_of(study, batch));
}

/// The diagonal block of a weight of a layer in the flat vector.
const ParameterBlock& block_of(const std::vector<ParameterBlock>& blocks, Weight weight, Index layer) {
  const char* const name = weight == Weight::value ? "W_V" : weight == Weight::query ? "W_Q" : "W_K";
  return *std::ranges::find_if(
      blocks, [&](const ParameterBlock& one) { return one.layer == layer && one.name == name; });
}

/// Mean of |P H P v|^2 over random signs v of one block.
double hutchinson(const LayerStudy& study, const DecoderProducts& products, const ParameterBlock& block,
                  Part part) {
  const RandomStream all(study.seed, "hessian probes " + block.name);
  const auto stream = all.item(static_cast<std::uint64_t>(block.layer));
  double sum = 0;
  for (int probe = 0; probe < study.probes; ++probe) {
    Vector v = Vector::Zero(products.size());
    for (Index j = 0; j < block.size(); ++j) {
      const auto number = static_cast<std::uint64_t>(probe) * static_cast<std::uint64_t>(block.size()) +
                          static_cast<std::uint64_t>(j);
      v[block.begin + j] = stream.uniform(number) < 0.5 ? -1 : 1;
    }
    sum += products.product(part, v).segment(block.begin, block.size()).squaredNorm();
  }
  return std::sqrt(sum / study.probes);
}

}  // namespace

EntrySizes entry_sizes(const Matrix& matrix, const std::vector<double>& edges) {
  std::vector<double> sizes(static_cast<std::size_t>(matrix.size()));
  for (Index j = 0; j < matrix.size(); ++j)
    sizes[static_cast<std::size_t>(j)] = std::log10(std::abs(matrix.data()[j]));
  std::ranges::sort(sizes);
  EntrySizes result;
  const auto at = [&](double share) {
    return sizes[static_cast<std::size_t>(share * static_cast<double>(sizes.size() - 1))];
  };
  result.median = at(0.5);
  result.largest_percent = at(0.99);
  for (std::size_t k = 0; k + 1 < edges.size(); ++k) {
    const auto first = std::ranges::lower_bound(sizes, edges[k]),
               end = std::ranges::lower_bound(sizes, edges[k + 1]);
    result.shares.push_back(static_cast<double>(end - first) / static_cast<double>(sizes.size()));
  }
  return result;
}

std::vector<Matrix> diagonal_blocks(const LayerStudy& study, Part part) {
  const auto layers = layers_of(study, initial_decoder(study.shape, study.seed));
  Matrix sum = layers.front().hessian(part);
  for (std::size_t k = 1; k < layers.size(); ++k) sum += layers[k].hessian(part);
  std::vector<Matrix> blocks;
  for (const auto weight : studied_weights)
    blocks.push_back(block(sum, layers.front().map(), weight, weight));
  return blocks;
}

std::vector<double> block_norms(const LayerStudy& study, double sigma) {
  auto weights = initial_decoder(study.shape, study.seed);
  scale_embeddings(weights, study.seed, sigma);
  std::vector<double> norms;
  if (study.shape.depth == 1) {
    const auto layers = layers_of(study, weights);
    for (const auto part : all_parts)
      for (const auto weight : studied_weights) norms.push_back(block_norm(layers, weight, weight, part));
    return norms;
  }
  const auto batch = addition_batch(study.seed, 0, 0, study.sequences);
  const DecoderProducts products(study.shape, weights, batch, study.loss, weight_of(study, batch));
  const auto blocks = parameter_blocks(study.shape);
  for (const auto part : all_parts)
    for (Index layer = 0; layer < study.shape.depth; ++layer)
      for (const auto weight : studied_weights)
        norms.push_back(hutchinson(study, products, block_of(blocks, weight, layer), part));
  return norms;
}

}  // namespace fluxformer::hessian
