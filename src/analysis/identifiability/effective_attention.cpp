#include "analysis/identifiability/effective_attention.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "analysis/identifiability/column_space.hpp"
#include "base/index.hpp"
#include "base/statistics.hpp"

namespace fluxformer::identifiability {
namespace {

Matrix causal_attention(const Matrix& weights, const Eigen::MatrixXd& matrix) {
  const Index n = weights.rows();
  // Rows 0 .. i of `matrix` (T or [T, 1]) are what row i of the weights sees. The threshold of all ranks is
  // that of the whole matrix (docs/model.md, 10.1).
  LeadingRows rows(matrix);
  const auto values = rows.values(n);
  if (!values.allFinite()) return Matrix::Constant(n, n, std::numeric_limits<double>::quiet_NaN());
  const auto ranks = rows.ranks(rank_threshold(values, n, matrix.cols()));
  GrowingQr qr(n, matrix.cols());
  Matrix effective = Matrix::Zero(n, n);
  for (Index i = 0; i < n; ++i) {
    qr.append(matrix.row(i));
    // a_i projected on the column space of the rows that it sees
    effective.row(i).head(i + 1) = qr.project(weights.row(i).head(i + 1).transpose(), ranks[i]);
  }
  return effective;
}

}  // namespace

Matrix effective_attention(const Matrix& weights, const ValueSpace& space, EffectivePart part) {
  return (part == EffectivePart::linear ? space.linear() : space.simplex()).project(weights);
}

Matrix effective_attention(const SampleHead& head, EffectivePart part) {
  if (!head.causal) return effective_attention(head.weights, ValueSpace(head), part);
  const Matrix values = compact_values(head);
  return causal_attention(head.weights,
                          part == EffectivePart::linear ? Eigen::MatrixXd(values) : with_ones(values));
}

namespace {

using Row = Eigen::RowVectorXd;

Index seen(const SampleHead& head, Index row) {
  return head.causal ? row + 1 : head.weights.cols();
}

double entropy_of(const Row& row) {
  // -sum_j p_j ln p_j with p_j = |x_j| / sum_k |x_k|; an entry of 0 adds nothing.
  const double sum = row.cwiseAbs().sum();
  double entropy = 0;
  for (const double x : row)
    if (x != 0) entropy -= std::abs(x) / sum * std::log(std::abs(x) / sum);
  return entropy;
}

/// Pearson's r of the counted entries, by deviations from the means.
double correlation_of(const SampleHead& head, const Matrix& effective, double count) {
  // Entries that no row sees are 0: they change neither sum, and `count` leaves them out.
  const double mean = head.weights.sum() / count, effective_mean = effective.sum() / count;
  double xx = 0, yy = 0, xy = 0, size = 0, effective_size = 0;
  for (Index i = 0; i < effective.rows(); ++i) {
    const Row x = head.weights.row(i).head(seen(head, i)), y = effective.row(i).head(seen(head, i));
    // sum (x - mean x)^2, sum (y - mean y)^2, sum (x - mean x)(y - mean y)
    xx += (x.array() - mean).square().sum();
    yy += (y.array() - effective_mean).square().sum();
    xy += ((x.array() - mean) * (y.array() - effective_mean)).sum();
    size += x.squaredNorm();
    effective_size += y.squaredNorm();
  }
  // Entries that are equal up to round-off have no correlation.
  constexpr double rounding = 1e-28;
  if (!(xx > rounding * size) || !(yy > rounding * effective_size))
    return std::numeric_limits<double>::quiet_NaN();
  return xy / std::sqrt(xx * yy);
}

}  // namespace

std::vector<int> largest_weights(const SampleHead& head, const Matrix& weights) {
  // Tokens with equal values have equal effective weights, up to round-off; a projection loses the condition of
  // the values.
  constexpr double rounding = 1e-10;
  std::vector<int> keys;
  for (Index i = 0; i < weights.rows(); ++i) {
    const Row row = weights.row(i).head(seen(head, i));
    const double least = row.maxCoeff() - rounding * head.weights.row(i).norm();
    Index key = 0;
    while (row[key] < least) ++key;
    keys.push_back(key);
  }
  return keys;
}

EffectiveResult effective_measures(const SampleHead& head, const Matrix& effective) {
  if (!head.weights.allFinite() || !effective.allFinite()) {
    constexpr double nan = std::numeric_limits<double>::quiet_NaN();
    return {nan, nan, nan, nan, nan, nan, nan};
  }
  const Index tokens = head.weights.rows();
  const double n = tokens;
  const double count = head.causal ? n * (n + 1) / 2 : n * n;
  EffectiveResult found;
  found.correlation = correlation_of(head, effective, count);
  found.row_sum = effective.sum() / n;
  found.kept_norm = effective.norm() / head.weights.norm();
  const auto raw = largest_weights(head, head.weights), moved = largest_weights(head, effective);
  for (Index i = 0; i < tokens; ++i) {
    const Row x = head.weights.row(i).head(seen(head, i)), y = effective.row(i).head(seen(head, i));
    // A projection has errors of some 1e-16 of the row, which must not count as negative weights.
    const double rounding = 1e-14 * x.norm();
    found.negative_share += (y.array() < -rounding).count() / count;
    found.entropy += entropy_of(x) / n;
    found.effective_entropy += entropy_of(y) / n;
    found.moved_share += raw[i] != moved[i] ? 1 / n : 0;
  }
  return found;
}

namespace {

/// Share of a row's dimensions that a random space of this rank keeps, beyond the row's mean in `simplex`.
double kept_share(double seen, double rank, EffectivePart part) {
  if (rank >= seen) return 1;
  if (part == EffectivePart::linear) return rank / seen;
  return std::min(1.0, rank / (seen - 1));
}

}  // namespace

EffectiveNull expected_null(const SampleHead& head, int rank, EffectivePart part) {
  const double n = head.tokens();
  const double entries = head.causal ? n * (n + 1) / 2 : n * n, mean = n / entries;
  double raw = 0, kept = 0, sums = 0;  // sums over rows of a a^T, E a P a^T and E a P 1
  for (Index i = 0; i < head.weights.rows(); ++i) {
    const double seen = head.causal ? i + 1 : n;
    const double share = kept_share(seen, rank, part), square = head.weights.row(i).squaredNorm();
    raw += square;
    const bool linear = part == EffectivePart::linear;
    // `simplex` keeps the mean of the row, whose square is 1/seen, in any case.
    kept += linear ? share * square : 1 / seen + share * (square - 1 / seen);
    sums += linear ? share : 1;
  }
  EffectiveNull null;
  // Pearson's r of entries of a and a P. As P is a projection, the mean square of a P and the mean product
  // of a and a P are the same number, E a P a^T over all entries.
  const double effective_mean = sums / entries;
  const double variance = raw / entries - mean * mean;
  const double effective_variance = kept / entries - effective_mean * effective_mean;
  const double both = kept / entries - mean * effective_mean;
  // A variance of 0 is left with the round-off of its two terms.
  const bool constant = variance <= 1e-14 * raw / entries;
  null.correlation = constant ? missing_value : both / std::sqrt(variance * effective_variance);
  null.correlation_spread = missing_value;
  null.row_sum = sums / n;
  const double rho = std::min(1.0, rank / n);
  null.row_sum_spread = part == EffectivePart::simplex ? 0
                        : head.causal                  ? missing_value
                                                       : std::sqrt(2 * rho * (1 - rho) / (n + 2));
  return null;
}

EffectiveNull drawn_null(const SampleHead& head, int rank, EffectivePart part, int draws,
                         const RandomStream& stream) {
  SampleHead drawn = head;
  // T is drawn as n x r Gaussian numbers with H = I, so that its column space is random, of rank r.
  drawn.values.resize(head.weights.rows(), rank);
  drawn.output = Matrix::Identity(rank, rank);
  drawn.factor = {};
  Eigen::ArrayXd correlation(draws), row_sum(draws);
  for (int draw = 0; draw < draws; ++draw) {
    const auto numbers = stream.item(draw);
    for (Index k = 0; k < drawn.values.size(); ++k) drawn.values.data()[k] = numbers.normal(k);
    const auto found = effective_measures(head, effective_attention(drawn, part));
    correlation[draw] = found.correlation;
    row_sum[draw] = found.row_sum;
  }
  const auto spread = [draws](const Eigen::ArrayXd& x) {
    // Standard deviation over the draws: sqrt(sum (x - mean)^2 / (draws - 1))
    return std::sqrt((x - x.mean()).square().sum() / (draws - 1));
  };
  return {correlation.mean(), spread(correlation), row_sum.mean(), spread(row_sum)};
}

}  // namespace fluxformer::identifiability
