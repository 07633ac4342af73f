#include "analysis/decoder/layer_measures.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "analysis/decoder/attention_layer.hpp"
#include "analysis/decoder/decoder.hpp"
#include "base/index.hpp"
#include "base/random.hpp"

namespace fluxformer::decoder {

LinearMlp::LinearMlp(Matrix x, const Matrix& target, double c, std::vector<Matrix> weights)
    : c_(c), weights_(std::move(weights)), before_{std::move(x)}, behind_(weights_.size()) {
  // A_1 = X,  A_{l+1} = A_l W_l, of which the last is F
  for (const Matrix& w : weights_) before_.push_back(before_.back() * w);
  residual_ = before_.back() - target;
  Matrix rest = Matrix::Identity(residual_.cols(), residual_.cols());
  for (Index l = std::ssize(weights_); l-- > 0;) {  // T_l = W_{l+1} T_{l+1}
    behind_[l] = rest;
    rest = weights_[l] * rest;
  }
}

double LinearMlp::loss() const {
  return c_ * residual_.squaredNorm();
}

// H_o(l,m) = 2 c (A_l^T A_m) (x) (T_l T_m^T)
// H_f(l,m) [(a,b),(c,s)] = (A_l^T G T_m^T)[a,s] (W_{l+1} .. W_{m-1})[b,c] for l < m
Matrix LinearMlp::hessian(HessianTerm part) const {
  std::vector<Index> begin{0};
  for (const Matrix& w : weights_) begin.push_back(begin.back() + w.size());
  Matrix h = Matrix::Zero(begin.back(), begin.back());
  for (std::size_t l = 0; l < weights_.size(); ++l) {
    Matrix between = Matrix::Identity(weights_[l].cols(), weights_[l].cols());  // W_{l+1} .. W_{m-1}
    for (std::size_t m = l; m < weights_.size(); ++m) {
      const Matrix inputs = 2 * c_ * before_[l].transpose() * before_[m];
      const Matrix outputs = behind_[l] * behind_[m].transpose();
      const Matrix pulled = 2 * c_ * before_[l].transpose() * residual_ * behind_[m].transpose();
      const Index rows = weights_[l].cols(), columns = weights_[m].cols();
      // Rows (a,.) of W_l and (b,.) of W_m; `pulled` is A_l^T G T_m^T.
      for (Index a = 0; a < inputs.rows(); ++a) {
        for (Index b = 0; b < inputs.cols(); ++b) {
          auto part_of_block = h.block(begin[l] + a * rows, begin[m] + b * columns, rows, columns);
          if (part != HessianTerm::functional) part_of_block += inputs(a, b) * outputs;
          if (part != HessianTerm::outer && m > l) part_of_block += between.col(b) * pulled.row(a);
        }
      }
      if (m > l) between = between * weights_[m];
    }
  }
  h.triangularView<Eigen::StrictlyLower>() = h.transpose();
  return h;
}

// || U (x) N || = || U || || N || (docs/model.md, 9); stableNorm, because sums of squares overflow before
// norms do.
double LinearMlp::diagonal_norm(Index layer) const {
  const Matrix inputs = before_[layer].transpose() * before_[layer];
  const Matrix outputs = behind_[layer] * behind_[layer].transpose();
  return 2 * c_ * inputs.stableNorm() * outputs.stableNorm();
}

namespace {

/// Weight of one row in the loss: 1 / (scored rows), or 1 for the squared error.
double weight_of(const LayerStudy& study, const TokenBatch& batch) {
  return study.loss == LogitLoss::cross_entropy ? 1.0 / batch.scored() : 1.0;
}

std::vector<AttentionLayer> layers_of(const LayerStudy& study, const DecoderWeights& weights) {
  const auto batch = addition_batch(study.seed, 0, 0, study.sequences);
  return attention_layers(study.shape, weights, batch, study.loss, weight_of(study, batch));
}

/// Diagonal block of a weight of a layer in the flat vector.
const ParameterBlock& block_of(const std::vector<ParameterBlock>& blocks, Weight weight, Index layer) {
  const char* const name = weight == Weight::value ? "W_V" : weight == Weight::query ? "W_Q" : "W_K";
  return *std::ranges::find_if(
      blocks, [&](const ParameterBlock& one) { return one.layer == layer && one.name == name; });
}

/// Hutchinson's estimate of ||P H P||_F, with P the projector to one block: root of the mean of |P H P v|^2
/// over vectors v of random signs.
double hutchinson(const LayerStudy& study, const DecoderProducts& products, const ParameterBlock& block,
                  HessianTerm part) {
  const RandomStream all(study.seed, "hessian probes " + block.name);
  const auto stream = all.item(block.layer);
  Vector norms(study.probes);
  for (int probe = 0; probe < study.probes; ++probe) {
    Vector v = Vector::Zero(products.size());
    for (Index j = 0; j < block.size(); ++j) {
      v[block.begin + j] = stream.uniform(probe * block.size() + j) < 0.5 ? -1 : 1;
    }
    norms[probe] = products.product(part, v).segment(block.begin, block.size()).stableNorm();
  }
  // Norms of three layers of linear attention grow as sigma^54 (docs/model.md, 9): their squares may leave
  // the range of numbers where the norms do not.
  return norms.stableNorm() / std::sqrt(study.probes);
}

/// Random weights of one matrix of the linear network, uniform in +- 1 / sqrt(rows).
Matrix uniform_matrix(std::uint64_t seed, Index layer, Index rows, Index columns) {
  const auto stream = RandomStream(seed, "linear mlp W").item(layer);
  const double bound = 1 / std::sqrt(rows);
  Matrix w(rows, columns);
  for (Index j = 0; j < w.size(); ++j) w.data()[j] = stream.uniform(j, -bound, bound);
  return w;
}

}  // namespace

EntrySizes entry_sizes(const Matrix& matrix, const std::vector<double>& edges) {
  std::vector<double> sizes(matrix.size());
  for (Index j = 0; j < matrix.size(); ++j) sizes[j] = std::log10(std::abs(matrix.data()[j]));
  if (matrix.hasNaN()) {
    const double none = std::numeric_limits<double>::quiet_NaN();
    return {none, none, std::vector<double>(edges.size() - 1, none)};
  }
  std::ranges::sort(sizes);
  EntrySizes result;
  // Percentiles are entries of the sorted list, without interpolation. Bin k is [edges[k], edges[k+1]).
  const auto at = [&](double share) { return sizes[static_cast<Index>(share * (std::ssize(sizes) - 1))]; };
  result.median = at(0.5);
  result.largest_percent = at(0.99);
  for (std::size_t k = 0; k + 1 < edges.size(); ++k) {
    const auto first = std::ranges::lower_bound(sizes, edges[k]),
               end = std::ranges::lower_bound(sizes, edges[k + 1]);
    result.shares.push_back(static_cast<double>(end - first) / std::ssize(sizes));
  }
  return result;
}

std::vector<Matrix> diagonal_blocks(const LayerStudy& study, HessianTerm part) {
  const auto layers = layers_of(study, initial_decoder(study.shape, study.seed));
  Matrix sum = layers.front().hessian(part);
  for (std::size_t k = 1; k < layers.size(); ++k) sum += layers[k].hessian(part);
  std::vector<Matrix> blocks;
  for (const auto weight : studied_weights)
    blocks.push_back(block(sum, layers.front().map(), weight, weight));
  return blocks;
}

std::vector<float> entry_logarithms(const LayerStudy& study, Index begin, Index end) {
  const auto batch = addition_batch(study.seed, 0, 0, study.sequences);
  const DecoderProducts products(study.shape, initial_decoder(study.shape, study.seed), batch, study.loss,
                                 weight_of(study, batch));
  std::vector<float> rows;
  rows.reserve((end - begin) * products.size());
  Vector unit = Vector::Zero(products.size());
  for (Index row = begin; row < end; ++row) {
    unit[row] = 1;
    const Vector entries = products.product(HessianTerm::total, unit);  // H is symmetric
    for (const double entry : entries) rows.push_back(std::log10(std::abs(entry) + 1e-6));
    unit[row] = 0;
  }
  return rows;
}

std::vector<double> block_norms(const LayerStudy& study, double sigma) {
  auto weights = initial_decoder(study.shape, study.seed);
  scale_embeddings(weights, study.seed, sigma);
  std::vector<double> norms;
  // Only one layer has the closed form; in deeper decoders the rows of a layer depend on each other.
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

std::vector<double> linear_mlp_norms(const LayerStudy& study, double sigma) {
  const auto& shape = study.shape;
  auto decoder = initial_decoder({.width = shape.width, .hidden = 0, .depth = 0}, study.seed);
  scale_embeddings(decoder, study.seed, sigma);
  const auto batch = addition_batch(study.seed, 0, 0, study.sequences);
  Matrix x(batch.scored(), shape.width), target = Matrix::Zero(batch.scored(), shape.vocabulary);
  Index row = 0;
  for (const Index i : batch.scored_rows()) {
    const int token = batch.tokens[i];
    x.row(row) = decoder.embedding.row(token);
    target(row++, token) = 1;
  }
  std::vector<Matrix> weights;
  for (Index layer = 0; layer < shape.depth; ++layer)
    weights.push_back(uniform_matrix(study.seed, layer, shape.width,
                                     layer + 1 < shape.depth ? shape.width : shape.vocabulary));
  // H_f(l,l) = 0: the norms of H and H_o are the same, those of H_f stay 0.
  const LinearMlp network(std::move(x), target, 1, std::move(weights));
  const Index layers = shape.depth, parts = std::ssize(all_parts);
  std::vector<double> norms(parts * layers, 0.0);
  for (Index part = 0; part < parts; ++part)
    for (Index layer = 0; layer < layers && all_parts[part] != HessianTerm::functional; ++layer)
      norms[part * layers + layer] = network.diagonal_norm(layer);
  return norms;
}

}  // namespace fluxformer::decoder
