#include "analysis/decoder/attention_map.hpp"

#include <utility>

namespace fluxformer::decoder {

namespace {

Matrix masked(Matrix a, Mask mask) {
  if (mask == Mask::causal) a.triangularView<Eigen::StrictlyUpper>().setZero();
  return a;
}

}  // namespace

// The largest score of a row is subtracted first, so that exp cannot overflow.
Matrix softmax_rows(const Matrix& scores, Mask mask) {
  Matrix a = Matrix::Zero(scores.rows(), scores.cols());
  for (Index i = 0; i < scores.rows(); ++i) {
    const Index seen = mask == Mask::causal ? i + 1 : scores.cols();
    auto row = a.row(i).head(seen);
    row = (scores.row(i).head(seen).array() - scores.row(i).head(seen).maxCoeff()).exp();
    row /= row.sum();
  }
  return a;
}

AttentionMoments::AttentionMoments(const Matrix& x, const Matrix& u, Scores scores, Mask mask)
    : scores_(scores), x_(x) {
  if (scores == Scores::softmax) {
    // Without the mean token all scores of row i are smaller by u_i . mean, which leaves soft-max as it is.
    // The rows of A sum to 1, so that centre_ is m_i - mean.
    const Eigen::RowVectorXd mean = x.colwise().mean();
    x_.rowwise() -= mean;
    weights_ = softmax_rows(u * x_.transpose(), mask);
    centre_ = weights_ * x_;
    first_ = centre_.rowwise() + mean;
  } else {
    // m_i = sum_j (u_i . x_j) x_j = C_i u_i over the keys that row i sees
    weights_ = masked(Matrix::Ones(x.rows(), x.rows()), mask);
    centre_ = Matrix::Zero(x.rows(), x.cols());
    first_ = second_times(u);
  }
}

Matrix AttentionMoments::deviations(Index row) const {
  return x_.rowwise() - centre_.row(row);
}

// C_i = sum_j A_ij (x_j - m_i)(x_j - m_i)^T; for linear attention with the mask for A_ij and 0 for m_i
Matrix AttentionMoments::second(Index row) const {
  const Matrix deviation = deviations(row);
  const Matrix weighted = weights_.row(row).transpose().asDiagonal() * deviation;
  return deviation.transpose() * weighted;
}

// S_i(h) = sum_j A_ij [(x_j - m_i) . h] (x_j - m_i)(x_j - m_i)^T
Matrix AttentionMoments::third(Index row, const Vector& h) const {
  if (scores_ == Scores::linear) return Matrix::Zero(x_.cols(), x_.cols());
  const Matrix deviation = deviations(row);
  const Vector weight = weights_.row(row).transpose().cwiseProduct(deviation * h);
  const Matrix weighted = weight.asDiagonal() * deviation;
  return deviation.transpose() * weighted;
}

// Entries s_ij = (x_j - centre_i) . y_i
Matrix AttentionMoments::projections(const Matrix& y) const {
  Matrix s = y * x_.transpose();
  s.colwise() -= y.cwiseProduct(centre_).rowwise().sum();
  return s;
}

// Rows sum_j s_ij (x_j - centre_i)
Matrix AttentionMoments::weighted_deviations(const Matrix& s) const {
  Matrix sums = s * x_;
  const Vector total = s.rowwise().sum();
  sums -= total.asDiagonal() * centre_;
  return sums;
}

// C_i y_i = sum_j A_ij [(x_j - m_i) . y_i] (x_j - m_i)
Matrix AttentionMoments::second_times(const Matrix& y) const {
  return weighted_deviations(weights_.cwiseProduct(projections(y)));
}

// S_i(h_i) y_i = sum_j A_ij [(x_j - m_i) . h_i] [(x_j - m_i) . y_i] (x_j - m_i)
Matrix AttentionMoments::third_times(const Matrix& h, const Matrix& y) const {
  if (scores_ == Scores::linear) return Matrix::Zero(y.rows(), y.cols());
  return weighted_deviations(weights_.cwiseProduct(projections(h)).cwiseProduct(projections(y)));
}

namespace {

using Flat = Eigen::Map<const Vector>;

Flat flat(const Matrix& a) {
  return {a.data(), a.size()};
}

}  // namespace

Vector flattened(const DecoderAttentionWeights& weights) {
  Vector theta(weights.size());
  theta << flat(weights.value), flat(weights.query), flat(weights.key);
  return theta;
}

DecoderAttentionWeights unflattened(const Vector& theta, const DecoderAttentionWeights& like) {
  DecoderAttentionWeights weights = like;
  const double* from = theta.data();
  for (Matrix* part : {&weights.value, &weights.query, &weights.key}) {
    *part = Eigen::Map<const Matrix>(from, part->rows(), part->cols());
    from += part->size();
  }
  return weights;
}

AttentionMap::AttentionMap(Matrix x, DecoderAttentionWeights weights, const AttentionForm& form)
    : x_(std::move(x)),
      weights_(std::move(weights)),
      tau_(form.tau),
      q_(x_ * weights_.query),
      moments_(x_, tau_ * q_ * weights_.key.transpose(), form.scores, form.mask) {}

Index AttentionMap::begin(Weight part) const {
  if (part == Weight::value) return 0;
  return weights_.value.size() + (part == Weight::key ? weights_.query.size() : 0);
}

Index AttentionMap::size(Weight part) const {
  return part == Weight::value ? weights_.value.size() : weights_.query.size();
}

// J_V = m_i^T (x) I_e,  J_Q = tau x_i^T (x) (R_i W_K),  J_K = tau R_i (x) q_i^T,  R_i = W_V^T C_i
Matrix AttentionMap::jacobian(Index row) const {
  const Index d = x_.cols(), e = weights_.value.cols(), k = weights_.key.cols();
  const Matrix r = weights_.value.transpose() * moments_.second(row);
  const Matrix rk = tau_ * r * weights_.key;
  Matrix j = Matrix::Zero(e, size());
  auto of_value = j.leftCols(d * e);
  auto of_query = j.middleCols(begin(Weight::query), d * k);
  auto of_key = j.rightCols(d * k);
  for (Index a = 0; a < d; ++a) {
    of_value.middleCols(a * e, e).diagonal().setConstant(moments_.first()(row, a));
    of_query.middleCols(a * k, k) = x_(row, a) * rk;
    of_key.middleCols(a * k, k) = tau_ * r.col(a) * q_.row(row);
  }
  return j;
}

void AttentionMap::add_curvature(Index row, const Vector& g, Index offset, Matrix& h) const {
  const Index d = x_.cols(), e = weights_.value.cols(), k = weights_.key.cols();
  const Index query = offset + begin(Weight::query), key = offset + begin(Weight::key);
  const Vector x = x_.row(row), q = q_.row(row);
  const Matrix c = moments_.second(row);
  const Vector wg = weights_.value * g;
  const Vector v = tau_ * c * wg;
  const Matrix s = tau_ * tau_ * moments_.third(row, wg);
  const Matrix ck = tau_ * c * weights_.key;
  const Matrix ks = weights_.key.transpose() * s;
  const Matrix ksk = ks * weights_.key;
  const Matrix qq = q * q.transpose();
  // With v = tau C_i h_i and S = tau^2 S_i(h_i), rows (a,.) of the first weight and (b,.) of the second have
  //   VQ  tau x_b g (C_i W_K)[a,:]      VK  tau C_i[a,b] g q^T      QQ  x_a x_b W_K^T S W_K
  //   QK  x_a (W_K^T S)[:,b] q^T + x_a v_b I                        KK  S[a,b] q q^T
  for (Index a = 0; a < d; ++a) {
    for (Index b = 0; b < d; ++b) {
      h.block(offset + a * e, query + b * k, e, k) += g * (x(b) * ck.row(a));
      h.block(offset + a * e, key + b * k, e, k) += (tau_ * c(a, b)) * g * q.transpose();
      h.block(query + a * k, query + b * k, k, k) += (x(a) * x(b)) * ksk;
      h.block(query + a * k, key + b * k, k, k) += x(a) * ks.col(b) * q.transpose();
      h.block(query + a * k, key + b * k, k, k).diagonal().array() += x(a) * v(b);
      h.block(key + a * k, key + b * k, k, k) += s(a, b) * qq;
    }
  }
}

// Rows of u_dot = tau (W_K V_Q^T x_i + V_K q_i)
Matrix AttentionMap::key_tangent(const DecoderAttentionWeights& direction) const {
  const Matrix query_dot = x_ * direction.query;
  return tau_ * (query_dot * weights_.key.transpose() + q_ * direction.key.transpose());
}

// f_dot_i = m_i V_V + C_i u_dot_i W_V, because dm_i = C_i du_i
Matrix AttentionMap::tangent(const Vector& direction) const {
  const DecoderAttentionWeights dot = unflattened(direction, weights_);
  return moments_.first() * dot.value + moments_.second_times(key_tangent(dot)) * weights_.value;
}

// V_bar = sum_i m_i b_i^T,  Q_bar = sum_i x_i (W_K^T w_i)^T,  K_bar = sum_i w_i q_i^T,  w_i = tau C_i W_V b_i
Vector AttentionMap::adjoint(const Matrix& b) const {
  const Matrix w = tau_ * moments_.second_times(b * weights_.value.transpose());
  const Matrix wk = w * weights_.key;
  return flattened({moments_.first().transpose() * b, x_.transpose() * wk, w.transpose() * q_});
}

// The tangent of the adjoint along theta_dot at fixed b = g: w becomes v, and its tangent
// t_i = tau [S_i(h_i) u_dot_i + C_i V_V g_i], because dC_i = S_i(du_i).
Vector AttentionMap::curvature_times(const Matrix& g, const Vector& direction) const {
  const DecoderAttentionWeights dot = unflattened(direction, weights_);
  const Matrix u_dot = key_tangent(dot);
  const Matrix m_dot = moments_.second_times(u_dot);
  const Matrix h = g * weights_.value.transpose();
  const Matrix v = tau_ * moments_.second_times(h);
  const Matrix t = tau_ * (moments_.third_times(h, u_dot) + moments_.second_times(g * dot.value.transpose()));
  const Matrix by_key = t * weights_.key + v * dot.key;
  const Matrix query_dot = x_ * dot.query;
  return flattened(
      {m_dot.transpose() * g, x_.transpose() * by_key, t.transpose() * q_ + v.transpose() * query_dot});
}

}  // namespace fluxformer::decoder
