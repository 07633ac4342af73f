#include "analysis/decoder/decoder.hpp"

#include <cmath>
#include <stdexcept>
#include <utility>

#include "analysis/decoder/row_maps.hpp"
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
          std::vector<DecoderLayerWeights>(s.depth, layer), zero(s.width, s.vocabulary),
          zero(1, s.vocabulary)};
}

/// Fills a matrix with normal numbers, keyed by (seed, name, layer, entry).
void fill_normal(Matrix& a, std::uint64_t seed, const std::string& name, Index layer, double deviation) {
  const RandomStream random = RandomStream(seed, "decoder " + name).item(layer + 1);
  for (Index i = 0; i < a.size(); ++i) a.data()[i] = deviation * random.normal(i);
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
  // tau = 1 / sqrt(d), because the one head of a layer has the width d.
  return {scores, mask, 1 / std::sqrt(width)};
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
  const double deviation = 0.8 / std::sqrt(shape.width);
  // The names of biases begin with b: they stay 0.
  for_each_matrix(weights, [&](const char* name, Index layer, Matrix& a) {
    if (name[0] == 'W') fill_normal(a, seed, name, layer, deviation);
  });
  return weights;
}

void scale_embeddings(DecoderWeights& weights, std::uint64_t seed, double sigma) {
  fill_normal(weights.embedding, seed, "W_E", -1, sigma);
  fill_normal(weights.position, seed, "W_pos", -1, sigma);
}

// X_0 = W_E[token] + W_pos, the look-up as a product with rows of one-hot vectors
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
    // Cross entropy compares the logits of row i with token i + 1, the squared error with token i.
    Tail tail = loss == LogitLoss::cross_entropy ? cross_entropy({begin + 1, begin + batch.length}, weight)
                                                 : squared_error(one_hot(batch, n, shape.vocabulary), weight);
    // From the loss forwards: readout, LayerNorm, MLP, LayerNorm, residual, output projection.
    tail = behind(projection(weights.readout), behind(shifted(bias), tail));
    if (shape.norm_epsilon) tail = behind(layer_norm(*shape.norm_epsilon), tail);
    if (shape.hidden > 0) tail = behind(residual_mlp(mlp), tail);
    if (behind_sums) tail = behind(layer_norm(*behind_sums), tail);
    tail = behind(projection(w.output), behind(shifted(shape.residual * x), tail));
    // Attention sees n(X) in pre-norm, while the residual is rho X.
    const Matrix seen = before ? RowNorm(x, *before).values() : x;
    layers.emplace_back(AttentionMap(seen, {w.value, w.query, w.key}, shape.form()), tail, scored);
  }
  return layers;
}

namespace {

// A o (S - rowsum(A o S)): soft-max's Jacobian, which is symmetric, times the rows of S.
Matrix softmax_times(const Matrix& a, const Matrix& s) {
  const Vector mean = a.cwiseProduct(s).rowwise().sum();
  return a.cwiseProduct(s.colwise() - mean);
}

// Product rule for A o (S - s) with s = rowsum(A o S):
// A_dot o (S - s) + A o (S_dot - s_dot),  s_dot = rowsum(A_dot o S + A o S_dot)
Matrix softmax_times_tangent(const Matrix& a, const Matrix& a_dot, const Matrix& s, const Matrix& s_dot) {
  const Vector mean = a.cwiseProduct(s).rowwise().sum();
  const Vector mean_dot = (a_dot.cwiseProduct(s) + a.cwiseProduct(s_dot)).rowwise().sum();
  return a_dot.cwiseProduct(s.colwise() - mean) + a.cwiseProduct(s_dot.colwise() - mean_dot);
}

}  // namespace

Matrix DecoderLayer::masked(Matrix scores) const {
  if (shape_.mask == Mask::causal) scores.triangularView<Eigen::StrictlyUpper>().setZero();
  return scores;
}

// LayerNorm's Jacobian J times the rows of v. J is symmetric, so that this is its adjoint, too.
Matrix DecoderLayer::normed_times(const std::optional<RowNorm>& norm, const Matrix& v) const {
  return norm ? norm->times(v) : v;
}

DecoderLayer::DecoderLayer(const DecoderShape& shape, DecoderLayerWeights weights, const Matrix& x)
    : shape_(shape), w_(std::move(weights)), tau_(shape.form().tau) {
  at_.x = x;
  const auto before = shape_.norms(NormPlace::before), behind = shape_.norms(NormPlace::behind);
  if (before) norm_.emplace(x, *before);
  at_.normed = norm_ ? norm_->values() : x;
  // Q = n(X) W_Q,  K = n(X) W_K,  V = n(X) W_V
  at_.q = at_.normed * w_.query;
  at_.k = at_.normed * w_.key;
  at_.v = at_.normed * w_.value;
  at_.z.resize(x.rows(), x.cols());
  const Index length = shape_.length;
  // T = tau Q K^T,  A = softmax(T) or T on the mask,  Z = A V, for the rows of one sequence after the other
  for (Index begin = 0; begin < x.rows(); begin += length) {
    const Matrix t = tau_ * at_.q.middleRows(begin, length) * at_.k.middleRows(begin, length).transpose();
    at_.weights.push_back(shape_.scores == Scores::softmax ? softmax_rows(t, shape_.mask) : masked(t));
    at_.z.middleRows(begin, length) = at_.weights.back() * at_.v.middleRows(begin, length);
  }
  // R = rho X + Z W_O,  X' = R + relu(n(R) W_in + b_in) W_out + b_out; in post-norm n of each of these sums
  at_.r = shape_.residual * x + at_.z * w_.output;
  if (behind) at_.r = behind_.emplace(at_.r, *behind).values();
  if (before) norm_r_.emplace(at_.r, *before);
  at_.normed_r = norm_r_ ? norm_r_->values() : at_.r;
  const Matrix pre = (at_.normed_r * w_.in).rowwise() + w_.in_bias.row(0);
  on_ = (pre.array() > 0).cast<double>();
  at_.hidden = pre.cwiseProduct(on_);
  at_.next = at_.r + at_.hidden * w_.out;
  at_.next.rowwise() += w_.out_bias.row(0);
  if (behind) at_.next = behind_mlp_.emplace(at_.next, *behind).values();
}

LayerValues DecoderLayer::tangent(const Matrix& x_dot, const DecoderLayerWeights& w_dot) const {
  LayerValues dot;
  dot.x = x_dot;
  dot.normed = normed_times(norm_, x_dot);
  // Q_dot = n_dot W_Q + n W_Q_dot with n_dot = J x_dot; K_dot and V_dot alike
  dot.q = dot.normed * w_.query + at_.normed * w_dot.query;
  dot.k = dot.normed * w_.key + at_.normed * w_dot.key;
  dot.v = dot.normed * w_.value + at_.normed * w_dot.value;
  dot.z.resize(x_dot.rows(), x_dot.cols());
  const Index length = shape_.length;
  for (Index n = 0; n < std::ssize(at_.weights); ++n) {
    const auto of = [&](const Matrix& a) { return a.middleRows(n * length, length); };
    const Matrix& a = at_.weights[n];
    // T_dot = tau (Q_dot K^T + Q K_dot^T),  Z_dot = A_dot V + A V_dot
    const Matrix t_dot = tau_ * (of(dot.q) * of(at_.k).transpose() + of(at_.q) * of(dot.k).transpose());
    dot.weights.push_back(shape_.scores == Scores::softmax ? softmax_times(a, t_dot) : masked(t_dot));
    dot.z.middleRows(n * length, length) = dot.weights[n] * of(at_.v) + a * of(dot.v);
  }
  // R_dot = rho X_dot + Z_dot W_O + Z W_O_dot, and with n = n(R) and relu' = on_
  // X'_dot = R_dot + [relu' o (n_dot W_in + n W_in_dot + b_in_dot)] W_out + relu(...) W_out_dot + b_out_dot;
  // in post-norm J times each of the two.
  dot.sum = shape_.residual * x_dot + dot.z * w_.output + at_.z * w_dot.output;
  dot.r = normed_times(behind_, dot.sum);
  dot.normed_r = normed_times(norm_r_, dot.r);
  Matrix pre = dot.normed_r * w_.in + at_.normed_r * w_dot.in;
  pre.rowwise() += w_dot.in_bias.row(0);
  dot.hidden = on_.cwiseProduct(pre);
  dot.last = dot.r + dot.hidden * w_.out + at_.hidden * w_dot.out;
  dot.last.rowwise() += w_dot.out_bias.row(0);
  dot.next = normed_times(behind_mlp_, dot.last);
  return dot;
}

// The forward pass in reverse. A product y = x W has x_bar = y_bar W^T and W_bar = x^T y_bar.
Matrix DecoderLayer::adjoint(const Matrix& next_bar, DecoderLayerWeights& g, LayerAdjoint& bar) const {
  bar.next = next_bar;
  bar.last = normed_times(behind_mlp_, next_bar);
  g.out = at_.hidden.transpose() * bar.last;
  g.out_bias = bar.last.colwise().sum();
  // R_bar = last_bar + J [relu' o (last_bar W_out^T)] W_in^T with J of n(R), if there is one
  bar.pre = on_.cwiseProduct(bar.last * w_.out.transpose());
  g.in = at_.normed_r.transpose() * bar.pre;
  g.in_bias = bar.pre.colwise().sum();
  bar.normed_r = bar.pre * w_.in.transpose();
  bar.r = bar.last + normed_times(norm_r_, bar.normed_r);
  bar.sum = normed_times(behind_, bar.r);
  g.output = at_.z.transpose() * bar.sum;
  bar.z = bar.sum * w_.output.transpose();

  bar.q.resizeLike(at_.q);
  bar.k.resizeLike(at_.k);
  bar.v.resizeLike(at_.v);
  bar.weights.clear();
  bar.scores.clear();
  const Index length = shape_.length;
  for (Index n = 0; n < std::ssize(at_.weights); ++n) {
    const Index begin = n * length;
    const auto of = [&](const Matrix& a) { return a.middleRows(begin, length); };
    const Matrix& a = at_.weights[n];
    // V_bar = A^T Z_bar,  A_bar = Z_bar V^T,  Q_bar = tau T_bar K,  K_bar = tau T_bar^T Q
    bar.v.middleRows(begin, length) = a.transpose() * of(bar.z);
    bar.weights.push_back(of(bar.z) * of(at_.v).transpose());
    bar.scores.push_back(shape_.scores == Scores::softmax ? softmax_times(a, bar.weights[n])
                                                          : masked(bar.weights[n]));
    bar.q.middleRows(begin, length) = tau_ * bar.scores[n] * of(at_.k);
    bar.k.middleRows(begin, length) = tau_ * bar.scores[n].transpose() * of(at_.q);
  }
  // X_bar = rho sum_bar + J (Q_bar W_Q^T + K_bar W_K^T + V_bar W_V^T)
  g.query = at_.normed.transpose() * bar.q;
  g.key = at_.normed.transpose() * bar.k;
  g.value = at_.normed.transpose() * bar.v;
  bar.normed = bar.q * w_.query.transpose() + bar.k * w_.key.transpose() + bar.v * w_.value.transpose();
  return shape_.residual * bar.sum + normed_times(norm_, bar.normed);
}

// Each line of `adjoint`, differentiated by the product rule; the local names are tangents of adjoints.
// LayerNorm, x_bar = J y_bar, has x_bar_dot = J y_bar_dot + Q(y_bar) x_dot (row_maps.hpp); relu'' is 0.
Matrix DecoderLayer::adjoint_tangent(const Matrix& next_bar_dot, const LayerAdjoint& bar,
                                     const LayerValues& dot, const DecoderLayerWeights& w_dot,
                                     DecoderLayerWeights& g) const {
  // Tangent of the gradient x^T y_bar of W in y = x W.
  const auto outer = [](const Matrix& x, const Matrix& x_dot, const Matrix& y_bar,
                        const Matrix& y_bar_dot) -> Matrix {
    return x_dot.transpose() * y_bar + x.transpose() * y_bar_dot;
  };
  Matrix last = normed_times(behind_mlp_, next_bar_dot);
  if (behind_mlp_) last += behind_mlp_->curvature_times(bar.next, dot.last);
  g.out = outer(at_.hidden, dot.hidden, bar.last, last);
  g.out_bias = last.colwise().sum();
  const Matrix pre = on_.cwiseProduct(last * w_.out.transpose() + bar.last * w_dot.out.transpose());
  g.in = outer(at_.normed_r, dot.normed_r, bar.pre, pre);
  g.in_bias = pre.colwise().sum();
  const Matrix normed_r = pre * w_.in.transpose() + bar.pre * w_dot.in.transpose();
  Matrix r = last + normed_times(norm_r_, normed_r);
  if (norm_r_) r += norm_r_->curvature_times(bar.normed_r, dot.r);
  Matrix sum = normed_times(behind_, r);
  if (behind_) sum += behind_->curvature_times(bar.r, dot.sum);
  g.output = outer(at_.z, dot.z, bar.sum, sum);
  const Matrix z = sum * w_.output.transpose() + bar.sum * w_dot.output.transpose();

  Matrix q(at_.q.rows(), at_.q.cols()), k(at_.k.rows(), at_.k.cols()), v(at_.v.rows(), at_.v.cols());
  const Index length = shape_.length;
  for (Index n = 0; n < std::ssize(at_.weights); ++n) {
    const Index begin = n * length;
    const auto of = [&](const Matrix& a) { return a.middleRows(begin, length); };
    const Matrix &a = at_.weights[n], &a_dot = dot.weights[n];
    // V_bar_dot = A_dot^T Z_bar + A^T Z_bar_dot,  A_bar_dot = Z_bar_dot V^T + Z_bar V_dot^T,
    // Q_bar_dot = tau (T_bar_dot K + T_bar K_dot),  K_bar_dot = tau (T_bar_dot^T Q + T_bar^T Q_dot)
    v.middleRows(begin, length) = a_dot.transpose() * of(bar.z) + a.transpose() * of(z);
    const Matrix a_bar_dot = of(z) * of(at_.v).transpose() + of(bar.z) * of(dot.v).transpose();
    const Matrix t = shape_.scores == Scores::softmax
                         ? softmax_times_tangent(a, a_dot, bar.weights[n], a_bar_dot)
                         : masked(a_bar_dot);
    q.middleRows(begin, length) = tau_ * (t * of(at_.k) + bar.scores[n] * of(dot.k));
    k.middleRows(begin, length) = tau_ * (t.transpose() * of(at_.q) + bar.scores[n].transpose() * of(dot.q));
  }
  g.query = outer(at_.normed, dot.normed, bar.q, q);
  g.key = outer(at_.normed, dot.normed, bar.k, k);
  g.value = outer(at_.normed, dot.normed, bar.v, v);
  const Matrix normed = q * w_.query.transpose() + bar.q * w_dot.query.transpose() + k * w_.key.transpose() +
                        bar.k * w_dot.key.transpose() + v * w_.value.transpose() +
                        bar.v * w_dot.value.transpose();
  Matrix x = shape_.residual * sum + normed_times(norm_, normed);
  if (norm_) x += norm_->curvature_times(bar.normed, dot.x);
  return x;
}

/// Tangents along one direction.
struct DecoderProducts::Tangents {
  DecoderWeights weights;
  std::vector<LayerValues> layers;
  Matrix x, normed, logits;  // X_depth, n(X_depth)
};

DecoderProducts::DecoderProducts(const DecoderShape& shape, DecoderWeights weights, TokenBatch batch,
                                 LogitLoss loss, double weight)
    : shape_(shape), w_(std::move(weights)), batch_(std::move(batch)), kind_(loss), weight_(weight) {
  Matrix x(std::ssize(batch_.tokens), shape_.width);
  for (Index n = 0; n < batch_.sequences(); ++n) {
    x.middleRows(n * batch_.length, batch_.length) = embedded(w_, batch_, n);
  }
  for (const DecoderLayerWeights& layer : w_.layers) {
    layers_.emplace_back(shape_, layer, layers_.empty() ? x : layers_.back().output());
  }
  const Matrix& last = layers_.empty() ? x : layers_.back().output();
  if (const auto epsilon = shape_.norms(NormPlace::before)) norm_.emplace(last, *epsilon);
  normed_ = norm_ ? norm_->values() : last;
  // z = n(X_depth) W_U + b_U; in post-norm n is the identity here.
  logits_ = (normed_ * w_.readout).rowwise() + w_.readout_bias.row(0);
  seed();

  // The adjoints of the gradient are kept, because products with H need them.
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

// Loss and z_bar = dl/dz, w (p - onehot) for cross entropy and 2 w (z - onehot) for squared error. Afterwards
// scored rows of logits_ hold p or z - onehot.
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
    // -ln p_next = ln sum_a exp(z_a - largest) + largest - z_next; the shift keeps exp from overflowing.
    const double largest = logits_.row(i).maxCoeff(), label = logits_(i, next);
    logits_.row(i) = (logits_.row(i).array() - largest).exp();
    const double sum = logits_.row(i).sum();
    logits_.row(i) /= sum;
    loss_ += weight_ * (std::log(sum) + largest - label);
    logits_bar_.row(i) = weight_ * logits_.row(i);
    logits_bar_(i, next) -= weight_;
  }
}

// Hessian of the loss with respect to the logits times z_dot: w p o (z_dot - p . z_dot), or 2 w z_dot.
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

// Gradient of the embeddings from X_0_bar.
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
  // X_0 is linear in W_E and W_pos, so that X_0_dot is X_0 of the direction.
  dot.x.resize(std::ssize(batch_.tokens), shape_.width);
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

// J^T z_bar with the Jacobian J = dz / d theta of the logits z
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

// Tangent of the gradient J^T z_bar of the constructor, with z_bar_dot for the tangent of z_bar.
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

// The tangent of the adjoint is linear in z_bar_dot, the tangent of the seed. With z_bar_dot = 0 only the
// functional part is left; the outer part H_o = J^T (d2 l / dz2) J is a plain adjoint of z_bar_dot.
Vector DecoderProducts::product(HessianTerm part, const Vector& direction) const {
  const Tangents dot = tangents(direction);
  if (part == HessianTerm::functional)
    return adjoint_tangent(dot, Matrix::Zero(logits_.rows(), logits_.cols()));
  const Matrix logits_bar_dot = seed_tangent(dot.logits);
  return part == HessianTerm::outer ? adjoint(logits_bar_dot) : adjoint_tangent(dot, logits_bar_dot);
}

Matrix DecoderProducts::block(HessianTerm part, Index begin, Index count) const {
  Matrix columns(count, count);
  Vector direction = Vector::Zero(size());
  for (Index j = 0; j < count; ++j) {
    direction(begin + j) = 1;
    columns.row(j) = product(part, direction).segment(begin, count);  // the block is symmetric
    direction(begin + j) = 0;
  }
  return columns;
}

}  // namespace fluxformer::decoder
