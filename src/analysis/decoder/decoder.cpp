#include "analysis/decoder/decoder.hpp"

#include <cmath>
#include <stdexcept>
#include <utility>

#include "analysis/decoder/row_maps.hpp"
#include "analysis/decoder/row_norm.hpp"
#include "base/index.hpp"
#include "base/random.hpp"

namespace fluxformer::decoder {

namespace {

// Calls visit(name, layer, matrix) in the order of the flat vector. W: DecoderWeights, const or not.
template <class W, class Visit>
void for_each_matrix(W& w, const Visit& visit) {
  visit("W_E", Index{-1}, w.embedding);
  visit("W_pos", Index{-1}, w.position);
  Index number = 0;
  for (auto& layer : w.layers) {
    visit("W_Q", number, layer.query);
    visit("W_K", number, layer.key);
    visit("W_V", number, layer.value);
    visit("W_O", number, layer.output);
    visit("W_in", number, layer.in);
    visit("b_in", number, layer.in_bias);
    visit("W_out", number, layer.out);
    visit("b_out", number, layer.out_bias);
    ++number;
  }
  visit("W_U", Index{-1}, w.readout);
  visit("b_U", Index{-1}, w.readout_bias);
}

DecoderWeights zero_weights(const DecoderShape& s) {
  const auto zero = [](Index rows, Index columns) -> Matrix { return Matrix::Zero(rows, columns); };
  const Matrix square = zero(s.width, s.width);
  const DecoderLayerWeights layer{square,
                                  square,
                                  square,
                                  square,
                                  zero(s.width, s.hidden),
                                  zero(1, s.hidden),
                                  zero(s.hidden, s.width),
                                  zero(1, s.width)};
  return {zero(s.vocabulary, s.width), zero(s.length, s.width),
          std::vector<DecoderLayerWeights>(static_cast<std::size_t>(s.depth), layer),
          zero(s.width, s.vocabulary), zero(1, s.vocabulary)};
}

void fill_normal(Matrix& a, std::uint64_t seed, const std::string& name, Index layer, double deviation) {
  const RandomStream random = RandomStream(seed, "decoder " + name).item(layer + 1);
  for (Index i = 0; i < a.size(); ++i) {
    a.data()[i] = deviation * random.normal(static_cast<std::uint64_t>(i));
  }
}

Matrix one_hot(const TokenBatch& batch, Index sequence, Index vocabulary) {
  Matrix target = Matrix::Zero(batch.length, vocabulary);
  for (Index i = 0; i < batch.length; ++i) {
    target(i, batch.tokens[sequence * batch.length + i]) = 1;
  }
  return target;
}

}  // namespace

AttentionForm DecoderShape::form() const {
  return {scores, mask, 1 / std::sqrt(static_cast<double>(width))};
}

std::vector<ParameterBlock> parameter_blocks(const DecoderShape& shape) {
  std::vector<ParameterBlock> blocks;
  Index begin = 0;
  const DecoderWeights zero = zero_weights(shape);
  for_each_matrix(zero, [&](const char* name, Index layer, const Matrix& a) {
    blocks.push_back({name, layer, begin, a.rows(), a.cols()});
    begin += a.size();
  });
  return blocks;
}

Vector flattened(const DecoderWeights& weights) {
  Index size = 0;
  for_each_matrix(weights, [&](const char*, Index, const Matrix& a) { size += a.size(); });
  Vector theta(size);
  Index begin = 0;
  for_each_matrix(weights, [&](const char*, Index, const Matrix& a) {
    theta.segment(begin, a.size()) = Eigen::Map<const Vector>(a.data(), a.size());
    begin += a.size();
  });
  return theta;
}

DecoderWeights unflattened(const Vector& theta, const DecoderShape& shape) {
  DecoderWeights weights = zero_weights(shape);
  Index begin = 0;
  for_each_matrix(weights, [&](const char*, Index, Matrix& a) {
    Eigen::Map<Vector>(a.data(), a.size()) = theta.segment(begin, a.size());
    begin += a.size();
  });
  return weights;
}

DecoderWeights initial_decoder(const DecoderShape& shape, std::uint64_t seed) {
  DecoderWeights weights = zero_weights(shape);
  const double deviation = 0.8 / std::sqrt(static_cast<double>(shape.width));
  for_each_matrix(weights, [&](const char* name, Index layer, Matrix& a) {
    if (name[0] == 'W') fill_normal(a, seed, name, layer, deviation);
  });
  return weights;
}

void scale_embeddings(DecoderWeights& weights, std::uint64_t seed, double sigma) {
  fill_normal(weights.embedding, seed, "W_E", -1, sigma);
  fill_normal(weights.position, seed, "W_pos", -1, sigma);
}

Matrix embedded(const DecoderWeights& weights, const TokenBatch& batch, Index sequence) {
  return one_hot(batch, sequence, weights.embedding.rows()) * weights.embedding + weights.position;
}

std::vector<AttentionLayer> attention_layers(const DecoderShape& shape, const DecoderWeights& weights,
                                             const TokenBatch& batch, LogitLoss loss, double weight) {
  if (shape.depth != 1)
    throw std::logic_error("attention_layers: the rows of deeper decoders depend on each other");
  const DecoderLayerWeights& w = weights.layers[0];
  const Matrix bias = weights.readout_bias.replicate(batch.length, 1);
  const auto before = shape.norms(NormPlace::before), behind_sums = shape.norms(NormPlace::behind);
  const MlpWeights mlp{w.in,  w.in_bias.transpose(), w.out, w.out_bias.transpose(), Nonlinearity::relu,
                       before};
  std::vector<Index> scored;
  for (Index i = batch.first_scored; i < batch.end_scored; ++i) scored.push_back(i);

  std::vector<AttentionLayer> layers;
  for (Index n = 0; n < batch.sequences(); ++n) {
    const Matrix x = embedded(weights, batch, n);
    const auto begin = batch.tokens.begin() + n * batch.length;
    Tail tail = loss == LogitLoss::cross_entropy ? cross_entropy({begin + 1, begin + batch.length}, weight)
                                                 : squared_error(one_hot(batch, n, shape.vocabulary), weight);
    tail = behind(projection(weights.readout), behind(shifted(bias), tail));
    if (shape.norm_epsilon) tail = behind(layer_norm(*shape.norm_epsilon), tail);
    if (shape.hidden > 0) tail = behind(residual_mlp(mlp), tail);
    if (behind_sums) tail = behind(layer_norm(*behind_sums), tail);
    tail = behind(projection(w.output), behind(shifted(shape.residual * x), tail));
    const Matrix seen = before ? RowNorm(x, *before).values() : x;
    layers.emplace_back(AttentionMap(seen, {w.value, w.query, w.key}, shape.form()), tail, scored);
  }
  return layers;
}

}  // namespace fluxformer::decoder
