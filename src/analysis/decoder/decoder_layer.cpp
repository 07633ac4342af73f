#include "analysis/decoder/decoder_layer.hpp"

#include <utility>

namespace fluxformer::decoder {

namespace {

// A o (S - rowsum(A o S)): soft-max's Jacobian, which is symmetric, times the rows of S.
Matrix softmax_times(const Matrix& a, const Matrix& s) {
  const Vector mean = a.cwiseProduct(s).rowwise().sum();
  return a.cwiseProduct(s.colwise() - mean);
}

// The tangent of softmax_times(A, S).
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

Matrix DecoderLayer::normed_times(const std::optional<RowNorm>& norm, const Matrix& v) const {
  return norm ? norm->times(v) : v;
}

DecoderLayer::DecoderLayer(const DecoderShape& shape, DecoderLayerWeights weights, const Matrix& x)
    : shape_(shape), w_(std::move(weights)), tau_(shape.form().tau) {
  at_.x = x;
  const auto before = shape_.norms(NormPlace::before), behind = shape_.norms(NormPlace::behind);
  if (before) norm_.emplace(x, *before);
  at_.normed = norm_ ? norm_->values() : x;
  at_.q = at_.normed * w_.query;
  at_.k = at_.normed * w_.key;
  at_.v = at_.normed * w_.value;
  at_.z.resize(x.rows(), x.cols());
  const Index length = shape_.length;
  for (Index begin = 0; begin < x.rows(); begin += length) {
    const Matrix t = tau_ * at_.q.middleRows(begin, length) * at_.k.middleRows(begin, length).transpose();
    at_.weights.push_back(shape_.scores == Scores::softmax ? softmax_rows(t, shape_.mask) : masked(t));
    at_.z.middleRows(begin, length) = at_.weights.back() * at_.v.middleRows(begin, length);
  }
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
  dot.q = dot.normed * w_.query + at_.normed * w_dot.query;
  dot.k = dot.normed * w_.key + at_.normed * w_dot.key;
  dot.v = dot.normed * w_.value + at_.normed * w_dot.value;
  dot.z.resize(x_dot.rows(), x_dot.cols());
  const Index length = shape_.length;
  for (std::size_t n = 0; n < at_.weights.size(); ++n) {
    const auto of = [&](const Matrix& a) { return a.middleRows(static_cast<Index>(n) * length, length); };
    const Matrix& a = at_.weights[n];
    const Matrix t_dot = tau_ * (of(dot.q) * of(at_.k).transpose() + of(at_.q) * of(dot.k).transpose());
    dot.weights.push_back(shape_.scores == Scores::softmax ? softmax_times(a, t_dot) : masked(t_dot));
    dot.z.middleRows(static_cast<Index>(n) * length, length) = dot.weights[n] * of(at_.v) + a * of(dot.v);
  }
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

Matrix DecoderLayer::adjoint(const Matrix& next_bar, DecoderLayerWeights& g, LayerAdjoint& bar) const {
  bar.next = next_bar;
  bar.last = normed_times(behind_mlp_, next_bar);
  g.out = at_.hidden.transpose() * bar.last;
  g.out_bias = bar.last.colwise().sum();
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
  for (std::size_t n = 0; n < at_.weights.size(); ++n) {
    const Index begin = static_cast<Index>(n) * length;
    const auto of = [&](const Matrix& a) { return a.middleRows(begin, length); };
    const Matrix& a = at_.weights[n];
    bar.v.middleRows(begin, length) = a.transpose() * of(bar.z);
    bar.weights.push_back(of(bar.z) * of(at_.v).transpose());
    bar.scores.push_back(shape_.scores == Scores::softmax ? softmax_times(a, bar.weights[n])
                                                          : masked(bar.weights[n]));
    bar.q.middleRows(begin, length) = tau_ * bar.scores[n] * of(at_.k);
    bar.k.middleRows(begin, length) = tau_ * bar.scores[n].transpose() * of(at_.q);
  }
  g.query = at_.normed.transpose() * bar.q;
  g.key = at_.normed.transpose() * bar.k;
  g.value = at_.normed.transpose() * bar.v;
  bar.normed = bar.q * w_.query.transpose() + bar.k * w_.key.transpose() + bar.v * w_.value.transpose();
  return shape_.residual * bar.sum + normed_times(norm_, bar.normed);
}

Matrix DecoderLayer::adjoint_tangent(const Matrix& next_bar_dot, const LayerAdjoint& bar,
                                     const LayerValues& dot, const DecoderLayerWeights& w_dot,
                                     DecoderLayerWeights& g) const {
  // The derivative of the gradient x^T y_bar of a matrix in y = x W.
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
  for (std::size_t n = 0; n < at_.weights.size(); ++n) {
    const Index begin = static_cast<Index>(n) * length;
    const auto of = [&](const Matrix& a) { return a.middleRows(begin, length); };
    const Matrix &a = at_.weights[n], &a_dot = dot.weights[n];
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

}  // namespace fluxformer::decoder
