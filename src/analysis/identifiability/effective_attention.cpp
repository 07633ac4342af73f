#include "analysis/identifiability/effective_attention.hpp"

#include <limits>

#include "analysis/identifiability/leading_rows.hpp"
#include "base/index.hpp"

namespace fluxformer::identifiability {
namespace {

using Eigen::Index;

Matrix causal_attention(const Matrix& weights, const Eigen::MatrixXd& matrix) {
  const Index n = weights.rows();
  LeadingRows rows(matrix);
  const auto values = rows.values(static_cast<int>(n));
  if (!values.allFinite()) return Matrix::Constant(n, n, std::numeric_limits<double>::quiet_NaN());
  const auto ranks = rows.ranks(rank_threshold(values, n, matrix.cols()));
  GrowingQr qr(n, matrix.cols());
  Matrix effective = Matrix::Zero(n, n);
  for (Index i = 0; i < n; ++i) {
    qr.append(matrix.row(i));
    effective.row(i).head(i + 1) = qr.project(weights.row(i).head(i + 1).transpose(), ranks[i]);
  }
  return effective;
}

}  // namespace

Matrix effective_attention(const Matrix& weights, const ValueSpace& space, EffectivePart part) {
  return (part == EffectivePart::linear ? space.linear() : space.simplex()).project(weights);
}

Matrix effective_attention(const AttentionHead& head, EffectivePart part) {
  if (!head.causal) return effective_attention(head.weights, ValueSpace(head), part);
  const Matrix values = compact_values(head);
  return causal_attention(head.weights,
                          part == EffectivePart::linear ? Eigen::MatrixXd(values) : with_ones(values));
}

}  // namespace fluxformer::identifiability
