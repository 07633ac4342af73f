#include "tests/support/kronecker_hessian.hpp"

#include <cmath>

namespace fluxformer::test {

using decoder::AttentionForm;
using decoder::DecoderAttentionWeights;
using decoder::HessianTerm;
using decoder::Mask;
using decoder::Matrix;
using decoder::Scores;
using decoder::Vector;

Matrix kronecker(const Matrix& a, const Matrix& b) {
  Matrix product(a.rows() * b.rows(), a.cols() * b.cols());
  for (Index i = 0; i < a.rows(); ++i)
    for (Index j = 0; j < a.cols(); ++j)
      product.block(i * b.rows(), j * b.cols(), b.rows(), b.cols()) = a(i, j) * b;
  return product;
}

Matrix commutation(Index d, Index k) {
  Matrix exchange = Matrix::Zero(d * k, d * k);
  for (Index a = 0; a < d; ++a)
    for (Index r = 0; r < k; ++r) exchange(r * d + a, a * k + r) = 1;
  return exchange;
}

namespace {

Matrix identity(Index n) {
  return Matrix::Identity(n, n);
}

Vector vec(const Matrix& a) {
  return Eigen::Map<const Vector>(a.data(), a.size());
}

// A, its derivative by the scores and its second derivative, per row of T.
struct Softmax {
  Matrix a, first, second;  // L x L, L^2 x L^2, L^4 x L^2
};

Softmax scores_to_weights(const Matrix& t, const AttentionForm& form) {
  const Index n = t.rows();
  Softmax at{Matrix::Zero(n, n), Matrix::Zero(n * n, n * n), Matrix::Zero(n * n * n * n, n * n)};
  for (Index i = 0; i < n; ++i) {
    const Index seen = form.mask == Mask::causal ? i + 1 : n;
    Matrix j = Matrix::Zero(n, n);
    if (form.scores == Scores::linear) {
      at.a.row(i).head(seen) = t.row(i).head(seen);
      j.diagonal().head(seen).setOnes();
    } else {
      for (Index l = 0; l < seen; ++l) at.a(i, l) = std::exp(t(i, l));
      at.a.row(i) /= at.a.row(i).sum();
      j = -at.a.row(i).transpose() * at.a.row(i);
      j.diagonal() += at.a.row(i).transpose();
    }
    at.first.block(i * n, i * n, n, n) = j;
    if (form.scores == Scores::linear) continue;
    for (Index k = 0; k < n; ++k)
      for (Index l = 0; l < n; ++l)
        for (Index m = 0; m < n; ++m)
          at.second(((i * n + k) * n + i) * n + l, i * n + m) =
              j(k, m) * ((k == l ? 1.0 : 0.0) - at.a(i, l)) - at.a(i, k) * j(l, m);
  }
  return at;
}

}  // namespace

Matrix kronecker_hessian(const Matrix& x, const Matrix& y, const DecoderAttentionWeights& w,
                         const AttentionForm& form, double c, HessianTerm part) {
  const Index n = x.rows(), d = x.cols(), k = w.key.cols(), e = w.value.cols();
  const Softmax at = scores_to_weights(form.tau * x * w.query * w.key.transpose() * x.transpose(), form);
  const Matrix xt = x.transpose(), xx = kronecker(x, x);
  const Matrix z1 = kronecker(identity(n), xt) * at.first * xx;
  const Matrix eq = form.tau * kronecker(identity(d), w.key);
  const Matrix ek = form.tau * kronecker(w.query, identity(d)) * commutation(d, k);
  const Matrix m1 = at.a * x;
  const Matrix g = 2 * c * (m1 * w.value - y);
  const Index p_v = d * e, p_q = d * k, p = p_v + 2 * p_q;
  if (part == HessianTerm::outer) {
    Matrix j(n * e, p);
    const Matrix values = kronecker(identity(n), w.value.transpose()) * z1;
    j << kronecker(m1, identity(e)), values * eq, values * ek;
    return 2 * c * j.transpose() * j;
  }

  Matrix shift = Matrix::Zero(e * d * e, d);
  for (Index b = 0; b < e; ++b)
    for (Index a = 0; a < d; ++a) shift((b * d + a) * e + b, a) = 1;
  const auto contracted = [&](Index m) { return kronecker(vec(g).transpose(), identity(m)); };
  const Matrix value_to_scores = contracted(d * e) * kronecker(identity(n), shift) * z1;
  const Matrix z2 = kronecker(identity(n), kronecker(xt, kronecker(xt, xt))) * at.second * xx;
  const Matrix middle =
      contracted(d * d) * kronecker(kronecker(identity(n), w.value.transpose()), identity(d * d)) * z2;
  const Vector by_p = z1.transpose() * kronecker(identity(n), w.value) * vec(g);  // dl/dP
  Matrix h = Matrix::Zero(p, p);
  h.block(0, p_v, p_v, p_q) = value_to_scores * eq;
  h.block(0, p_v + p_q, p_v, p_q) = value_to_scores * ek;
  h.block(p_v, p_v, p_q, p_q) = eq.transpose() * middle * eq;
  h.block(p_v + p_q, p_v + p_q, p_q, p_q) = ek.transpose() * middle * ek;
  h.block(p_v, p_v + p_q, p_q, p_q) =
      eq.transpose() * middle * ek +
      form.tau * kronecker(Eigen::Map<const Matrix>(by_p.data(), d, d), identity(k));
  h.triangularView<Eigen::StrictlyLower>() = h.transpose();
  return h;
}

}  // namespace fluxformer::test
