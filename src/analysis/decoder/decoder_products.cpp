#include "analysis/decoder/decoder_products.hpp"

#include <cmath>
#include <utility>

#include "base/index.hpp"

namespace fluxformer::decoder {

/// Along one direction.
struct DecoderProducts::Tangents {
  DecoderWeights weights;
  std::vector<LayerValues> layers;
  Matrix x, normed, logits;  // X_depth, n(X_depth)
};

DecoderProducts::DecoderProducts(const DecoderShape& shape, DecoderWeights weights, TokenBatch batch,
                                 LogitLoss loss, double weight)
    : shape_(shape), w_(std::move(weights)), batch_(std::move(batch)), kind_(loss), weight_(weight) {
  Matrix x(static_cast<Index>(batch_.tokens.size()), shape_.width);
  for (Index n = 0; n < batch_.sequences(); ++n) {
    x.middleRows(n * batch_.length, batch_.length) = embedded(w_, batch_, n);
  }
  for (const DecoderLayerWeights& layer : w_.layers) {
    layers_.emplace_back(shape_, layer, layers_.empty() ? x : layers_.back().output());
  }
  const Matrix& last = layers_.empty() ? x : layers_.back().output();
  if (const auto epsilon = shape_.norms(NormPlace::before)) norm_.emplace(last, *epsilon);
  normed_ = norm_ ? norm_->values() : last;
  logits_ = (normed_ * w_.readout).rowwise() + w_.readout_bias.row(0);
  seed();

  DecoderWeights gradient = w_;
  gradient.readout = normed_.transpose() * logits_bar_;
  gradient.readout_bias = logits_bar_.colwise().sum();
  normed_bar_ = logits_bar_ * w_.readout.transpose();
  Matrix bar = normed_times(normed_bar_);
  adjoints_.resize(layers_.size());
  for (std::size_t l = layers_.size(); l-- > 0;)
    bar = layers_[l].adjoint(bar, gradient.layers[l], adjoints_[l]);
  scatter(bar, gradient);
  gradient_ = flattened(gradient);
}

// Loss and its gradient at the logits; afterwards logits_ holds probabilities or residuals.
void DecoderProducts::seed() {
  logits_bar_ = Matrix::Zero(logits_.rows(), logits_.cols());
  for (const Index i : batch_.scored_rows()) {
    const auto token = [&](Index row) -> Index { return batch_.tokens[row]; };
    if (kind_ == LogitLoss::squared_error) {
      logits_(i, token(i)) -= 1;
      loss_ += weight_ * logits_.row(i).squaredNorm();
      logits_bar_.row(i) = 2 * weight_ * logits_.row(i);
      continue;
    }
    const Index next = token(i + 1);
    const double largest = logits_.row(i).maxCoeff(), label = logits_(i, next);
    logits_.row(i) = (logits_.row(i).array() - largest).exp();
    const double sum = logits_.row(i).sum();
    logits_.row(i) /= sum;
    loss_ += weight_ * (std::log(sum) + largest - label);
    logits_bar_.row(i) = weight_ * logits_.row(i);
    logits_bar_(i, next) -= weight_;
  }
}

// The loss's Hessian at the logits times logits_dot.
Matrix DecoderProducts::seed_tangent(const Matrix& logits_dot) const {
  Matrix bar = Matrix::Zero(logits_.rows(), logits_.cols());
  for (const Index i : batch_.scored_rows()) {
    if (kind_ == LogitLoss::squared_error) {
      bar.row(i) = 2 * weight_ * logits_dot.row(i);
    } else {
      const double mean = logits_.row(i).dot(logits_dot.row(i));
      bar.row(i) = weight_ * (logits_.row(i).array() * (logits_dot.row(i).array() - mean));
    }
  }
  return bar;
}

Matrix DecoderProducts::normed_times(const Matrix& v) const {
  return norm_ ? norm_->times(v) : v;
}

void DecoderProducts::scatter(const Matrix& x_bar, DecoderWeights& gradient) const {
  gradient.embedding.setZero();
  gradient.position.setZero();
  for (Index i = 0; i < x_bar.rows(); ++i) {
    gradient.embedding.row(batch_.tokens[i]) += x_bar.row(i);
    gradient.position.row(i % batch_.length) += x_bar.row(i);
  }
}

DecoderProducts::Tangents DecoderProducts::tangents(const Vector& direction) const {
  Tangents dot{unflattened(direction, shape_), {}, {}, {}, {}};
  dot.x.resize(static_cast<Index>(batch_.tokens.size()), shape_.width);
  for (Index n = 0; n < batch_.sequences(); ++n) {
    dot.x.middleRows(n * batch_.length, batch_.length) = embedded(dot.weights, batch_, n);
  }
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    dot.layers.push_back(layers_[l].tangent(dot.x, dot.weights.layers[l]));
    dot.x = dot.layers.back().next;
  }
  dot.normed = normed_times(dot.x);
  dot.logits = dot.normed * w_.readout + normed_ * dot.weights.readout;
  dot.logits.rowwise() += dot.weights.readout_bias.row(0);
  return dot;
}

Vector DecoderProducts::adjoint(const Matrix& logits_bar) const {
  DecoderWeights product = w_;
  product.readout = normed_.transpose() * logits_bar;
  product.readout_bias = logits_bar.colwise().sum();
  Matrix bar = normed_times(logits_bar * w_.readout.transpose());
  LayerAdjoint unused;
  for (std::size_t l = layers_.size(); l-- > 0;) bar = layers_[l].adjoint(bar, product.layers[l], unused);
  scatter(bar, product);
  return flattened(product);
}

Vector DecoderProducts::adjoint_tangent(const Tangents& dot, const Matrix& logits_bar_dot) const {
  DecoderWeights product = w_;
  product.readout = dot.normed.transpose() * logits_bar_ + normed_.transpose() * logits_bar_dot;
  product.readout_bias = logits_bar_dot.colwise().sum();
  Matrix bar =
      normed_times(logits_bar_dot * w_.readout.transpose() + logits_bar_ * dot.weights.readout.transpose());
  if (norm_) bar += norm_->curvature_times(normed_bar_, dot.x);
  for (std::size_t l = layers_.size(); l-- > 0;) {
    bar = layers_[l].adjoint_tangent(bar, adjoints_[l], dot.layers[l], dot.weights.layers[l],
                                     product.layers[l]);
  }
  scatter(bar, product);
  return flattened(product);
}

// The adjoint's tangent is linear in what comes from the logits: without it, the functional part is left.
Vector DecoderProducts::product(Part part, const Vector& direction) const {
  const Tangents dot = tangents(direction);
  if (part == Part::functional) return adjoint_tangent(dot, Matrix::Zero(logits_.rows(), logits_.cols()));
  const Matrix logits_bar_dot = seed_tangent(dot.logits);
  return part == Part::outer ? adjoint(logits_bar_dot) : adjoint_tangent(dot, logits_bar_dot);
}

Matrix DecoderProducts::block(Part part, Index begin, Index count) const {
  Matrix columns(count, count);
  Vector direction = Vector::Zero(size());
  for (Index j = 0; j < count; ++j) {
    direction(begin + j) = 1;
    columns.row(j) = product(part, direction).segment(begin, count);  // symmetric
    direction(begin + j) = 0;
  }
  return columns;
}

}  // namespace fluxformer::decoder
