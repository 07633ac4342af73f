#include "analysis/paths/path_learner.hpp"

#include <cmath>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "base/index.hpp"
#include "base/random.hpp"

namespace fluxformer::paths {
namespace {

using Block = Eigen::Map<const RowMatrix>;

Index product(int a, int b, int c = 1, int d = 1) {
  return Index{a} * b * c * d;
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
  const Index size = product(shape_.heads, shape_.key, shape_.dimension);
  return all.subspan(projections_ + 2 * layer * size, size);
}

std::span<const double> LearnerWeights::keys(std::span<const double> all, int layer) const {
  const Index size = product(shape_.heads, shape_.key, shape_.dimension);
  return all.subspan(projections_ + (2 * layer + 1) * size, size);
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
  for (Index k = 0; k < end_; ++k) {
    // V_0, queries and keys act on D numbers, V and a on N.
    const int columns = k < values_ ? shape_.dimension : shape_.width;
    all[k] = stream.normal(k) / std::sqrt(columns);
  }
  return all;
}

FrozenAttention LearnerWeights::attention(std::span<const double> all) const {
  const Index size = product(shape_.key, shape_.dimension);
  std::vector<std::vector<FrozenHead>> layers(shape_.layers);
  for (int l = 0; l < shape_.layers; ++l)
    for (int h = 0; h < shape_.heads; ++h) {
      const auto of = [&](std::span<const double> block) -> Eigen::MatrixXd {
        return Block(block.data() + h * size, shape_.key, shape_.dimension);
      };
      layers[l].emplace_back(QueryKeyHead{.query = of(queries(all, l)), .key = of(keys(all, l))});
    }
  return {std::move(layers), ReadOut::average_pooling};
}

RowMatrix LearnerWeights::input_weights(std::span<const double> all) const {
  // From a down to layer 1: w^{(h, rest)} = V_h^T w^{rest}/sqrt(H), as rows. At last w V_0, so that f is the
  // sum over paths of (w V_0)^pi . xi^pi.
  const double share = 1 / std::sqrt(shape_.heads);
  RowMatrix w = Block(readout(all).data(), 1, shape_.width);
  const double* layer = readout(all).data();
  for (int l = shape_.layers; l > 0; --l) {
    layer -= product(shape_.heads, shape_.width, shape_.width);
    RowMatrix longer(shape_.heads * w.rows(), shape_.width);
    for (int h = 0; h < shape_.heads; ++h)  // the blocks hold V_h^T: w V_h is w times the transposed block
      longer.middleRows(h * w.rows(), w.rows()) =
          share * w *
          Block(layer + product(h, shape_.width, shape_.width), shape_.width, shape_.width).transpose();
    w = std::move(longer);
  }
  return w * Block(all.data(), shape_.width, shape_.dimension);
}

using Eigen::VectorXd;

template <typename Real>
PathLearner<Real>::PathLearner(const LearnerShape& shape, int at_once)
    : places_(shape),
      at_once_(at_once),
      weights_(places_.size()),
      attention_(Index{shape.layers} * shape.heads * at_once),
      states_(shape.layers),
      mixed_(shape.layers) {}

template <typename Real>
void PathLearner<Real>::set(std::span<const double> weights) {
  for (std::size_t k = 0; k < weights_.size(); ++k) weights_[k] = static_cast<Real>(weights[k]);
}

template <typename Real>
auto PathLearner<Real>::projections() const -> Weights {
  const auto& shape = places_.shape();
  return {weights_.data() + places_.projections_at(), Index{2} * shape.layers * shape.heads * shape.key,
          shape.dimension};
}

template <typename Real>
auto PathLearner<Real>::values(int layer) const -> Weights {
  const auto& shape = places_.shape();
  const Index rows = Index{shape.heads} * shape.width;
  return {weights_.data() + places_.values_at() + layer * rows * shape.width, rows, shape.width};
}

template <typename Real>
Index PathLearner<Real>::row_of(int layer, int which, int head) const {
  const auto& shape = places_.shape();
  return ((Index{2} * layer + which) * shape.heads + head) * shape.key;
}

template <typename Real>
auto PathLearner<Real>::attention(int layer, int head, int example) -> Matrix& {
  return attention_[(layer * places_.shape().heads + head) * at_once_ + example];
}

template <typename Real>
void PathLearner<Real>::forward(const Matrix& x) {
  const auto& [dimension, tokens, width, layers, heads, key] = places_.shape();
  if (x.rows() != dimension || x.cols() % tokens != 0 || x.cols() > Index{at_once_} * tokens)
    throw BadInput("a batch of " + std::to_string(x.rows()) + " x " + std::to_string(x.cols()) +
                   " numbers does not fit a network of attention paths");
  batch_ = x.cols() / tokens;
  const Real sharpness = 1 / std::sqrt(static_cast<Real>(key)),
             share = 1 / std::sqrt(static_cast<Real>(heads));
  // All queries and keys at once: [layer][Q, K][head] x (B T)
  projected_.noalias() = projections() * x;
  // z^0 = V_0 x
  states_.front().noalias() = Weights(weights_.data(), width, dimension) * x;
  pooled_attention_.resize(tokens, Index{heads} * batch_);
  for (int l = 0; l < layers; ++l) {
    const bool last = l + 1 == layers;
    auto& mixed = mixed_[l];
    const auto& z = states_[l];
    mixed.resize(Index{heads} * width, last ? batch_ : x.cols());
    for (int h = 0; h < heads; ++h)
      for (int b = 0; b < batch_; ++b) {
        const Index from = Index{b} * tokens;
        auto& a = attention(l, h, b);
        // A = softmax over keys of (K x)^T (Q x)/sqrt(G)
        a.noalias() = projected_.block(row_of(l, 1, h), from, key, tokens).transpose() *
                      projected_.block(row_of(l, 0, h), from, key, tokens);
        a = (sharpness * (a.rowwise() - a.colwise().maxCoeff())).array().exp().matrix().eval();
        a.array().rowwise() /= a.colwise().sum().eval().array();
        auto rows = mixed.middleRows(Index{h} * width, width);
        if (last) {
          auto pooled = pooled_attention_.col(Index{h} * batch_ + b);
          // The last layer is read through the mean over tokens: alpha = mean of the columns of A.
          pooled = a.rowwise().mean();
          rows.col(b).noalias() = z.middleCols(from, tokens) * pooled;
        } else {
          rows.middleCols(from, tokens).noalias() = z.middleCols(from, tokens) * a;
        }
      }
    auto& to = last ? pooled_states_ : states_[l + 1];
    // z^l = 1/sqrt(H) sum_h V_h (z^{l-1} A_h)
    to.noalias() = share * (values(l).transpose() * mixed);
  }
}

template <typename Real>
VectorXd PathLearner<Real>::outputs(const Matrix& x) {
  forward(x);
  const Weights a(weights_.data() + places_.readout_at(), 1, places_.shape().width);
  return (a * pooled_states_).transpose().template cast<double>();
}

/// Turns the slope of an attention matrix into that of queries and keys.
template <typename Real>
void PathLearner<Real>::through_attention(int layer, int head, int example, Matrix& slope) {
  const auto& shape = places_.shape();
  const Index from = Index{example} * shape.tokens, tokens = shape.tokens, key = shape.key;
  const auto& a = attention(layer, head, example);
  // Soft-max of a column: logit slope = A o (slope - sum_s A slope), times 1/sqrt(G)
  const auto means = a.cwiseProduct(slope).colwise().sum().eval();
  slope = a.cwiseProduct(slope.rowwise() - means).eval() / std::sqrt(static_cast<Real>(key));
  const Index query_row = row_of(layer, 0, head), key_row = row_of(layer, 1, head);
  // Logits (K x)^T (Q x): slopes of K x and of Q x
  projected_slope_.block(key_row, from, key, tokens).noalias() =
      projected_.block(query_row, from, key, tokens) * slope.transpose();
  projected_slope_.block(query_row, from, key, tokens).noalias() =
      projected_.block(key_row, from, key, tokens) * slope;
}

template <typename Real>
void PathLearner<Real>::back_through_last(const VectorXd& error, std::span<Real> gradient) {
  const auto& [dimension, tokens, width, layers, heads, key] = places_.shape();
  const Real share = 1 / std::sqrt(static_cast<Real>(heads));
  // d (f - y)^2/d f = 2 (f - y)
  const Matrix slope = 2 * error.cast<Real>().transpose();  // 1 x B
  // f = a . zbar: slope of a is sum_b slope_b zbar_b, that of zbar_b is slope_b a.
  Block(gradient.data() + places_.readout_at(), 1, width).noalias() += slope * pooled_states_.transpose();
  const Weights a(weights_.data() + places_.readout_at(), 1, width);
  const Matrix pooled_slope = a.transpose() * slope;  // N x B
  // zbar = 1/sqrt(H) sum_h V_h m_h: the slope of V_h^T, as it is stored, is m_h (slope of zbar)^T/sqrt(H).
  const auto& mixed = mixed_.back();
  const auto value = values(layers - 1);
  Block(gradient.data() + (value.data() - weights_.data()), value.rows(), value.cols()).noalias() +=
      share * (mixed * pooled_slope.transpose());
  // V_h^T zbar-slope / sqrt(H) for all heads
  mixed_slope_.noalias() = share * (value * pooled_slope);  // (H N) x B
  const auto& z = states_.back();
  state_slope_.setZero(width, z.cols());
  Matrix spread(tokens, tokens);
  for (int h = 0; h < heads; ++h)
    for (int b = 0; b < batch_; ++b) {
      // Slope of m_h = z alpha_h, N numbers
      const auto here = mixed_slope_.col(b).segment(Index{h} * width, width);
      const auto states = z.middleCols(Index{b} * tokens, tokens);
      // z alpha_h: slopes of z and of alpha, whose every column of A has the share 1/T
      state_slope_.middleCols(Index{b} * tokens, tokens).noalias() +=
          here * pooled_attention_.col(Index{h} * batch_ + b).transpose();
      spread = (states.transpose() * here / static_cast<Real>(tokens)).replicate(1, tokens);
      through_attention(layers - 1, h, b, spread);
    }
}

template <typename Real>
void PathLearner<Real>::back_through_layer(int layer, std::span<Real> gradient) {
  const auto& [dimension, tokens, width, layers, heads, key] = places_.shape();
  const Real share = 1 / std::sqrt(static_cast<Real>(heads));
  // z^l = 1/sqrt(H) sum_h V_h m_h: the slope of V_h^T, as it is stored, is m_h (slope of z^l)^T/sqrt(H).
  const auto& mixed = mixed_[layer];
  const auto& z = states_[layer];
  const auto value = values(layer);
  Block(gradient.data() + (value.data() - weights_.data()), value.rows(), value.cols()).noalias() +=
      share * (mixed * state_slope_.transpose());
  // V_h^T z-slope / sqrt(H) for all heads
  mixed_slope_.noalias() = share * (value * state_slope_);
  state_slope_.setZero();
  Matrix slope(tokens, tokens);
  for (int h = 0; h < heads; ++h)
    for (int b = 0; b < batch_; ++b) {
      const Index from = Index{b} * tokens;
      // Slope of m_h = z A_h, N x T
      const auto here = mixed_slope_.block(Index{h} * width, from, width, tokens);
      // m_h = z A_h: slope of A_h is z^T m-slope, that of z sums m-slope A_h^T over heads.
      slope.noalias() = z.middleCols(from, tokens).transpose() * here;
      state_slope_.middleCols(from, tokens).noalias() += here * attention(layer, h, b).transpose();
      through_attention(layer, h, b, slope);
    }
}

template <typename Real>
VectorXd PathLearner<Real>::gradient(const Matrix& x, const VectorXd& targets, std::span<Real> gradient) {
  VectorXd f = outputs(x);
  if (targets.size() != f.size() || gradient.size() != weights_.size())
    throw BadInput("targets or gradient do not fit a batch of attention paths");
  projected_slope_.resize(projected_.rows(), projected_.cols());
  back_through_last(f - targets, gradient);
  for (int l = places_.shape().layers - 2; l >= 0; --l) back_through_layer(l, gradient);
  // Queries, keys and V_0 all act on x: the slope of a matrix W is (slope of W x) x^T.
  const auto w = projections();
  Block(gradient.data() + places_.projections_at(), w.rows(), w.cols()).noalias() +=
      projected_slope_ * x.transpose();
  Block(gradient.data(), places_.shape().width, x.rows()).noalias() += state_slope_ * x.transpose();
  return f;
}

template class PathLearner<float>;
template class PathLearner<double>;

}  // namespace fluxformer::paths
