#include "analysis/identifiability/effective_measures.hpp"

#include <cmath>
#include <limits>

#include "base/index.hpp"

namespace fluxformer::identifiability {
namespace {

using Eigen::Index;
using Row = Eigen::RowVectorXd;

Index seen(const AttentionHead& head, Index row) {
  return head.causal ? row + 1 : head.weights.cols();
}

double entropy_of(const Row& row) {
  const double sum = row.cwiseAbs().sum();
  double entropy = 0;
  for (const double x : row)
    if (x != 0) entropy -= std::abs(x) / sum * std::log(std::abs(x) / sum);
  return entropy;
}

/// Pearson's r of the counted entries, by deviations from the means.
double correlation_of(const AttentionHead& head, const Matrix& effective, double count) {
  const double mean = head.weights.sum() / count, effective_mean = effective.sum() / count;
  double xx = 0, yy = 0, xy = 0, size = 0, effective_size = 0;
  for (Index i = 0; i < effective.rows(); ++i) {
    const Row x = head.weights.row(i).head(seen(head, i)), y = effective.row(i).head(seen(head, i));
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

std::vector<int> largest_weights(const AttentionHead& head, const Matrix& weights) {
  std::vector<int> keys;
  for (Index i = 0; i < weights.rows(); ++i) {
    Index key = 0;
    weights.row(i).head(seen(head, i)).maxCoeff(&key);
    keys.push_back(static_cast<int>(key));
  }
  return keys;
}

EffectiveMeasures effective_measures(const AttentionHead& head, const Matrix& effective) {
  if (!head.weights.allFinite() || !effective.allFinite()) {
    constexpr double nan = std::numeric_limits<double>::quiet_NaN();
    return {nan, nan, nan, nan, nan, nan, nan};
  }
  const Index tokens = head.weights.rows();
  const auto n = static_cast<double>(tokens);
  const double count = head.causal ? n * (n + 1) / 2 : n * n;
  EffectiveMeasures found;
  found.correlation = correlation_of(head, effective, count);
  found.row_sum = effective.sum() / n;
  found.kept_norm = effective.norm() / head.weights.norm();
  const auto raw = largest_weights(head, head.weights), moved = largest_weights(head, effective);
  for (Index i = 0; i < tokens; ++i) {
    const Row x = head.weights.row(i).head(seen(head, i)), y = effective.row(i).head(seen(head, i));
    // A projection has errors of some 1e-16 of the row, which must not count as negative weights.
    const double rounding = 1e-14 * x.norm();
    found.negative_share += static_cast<double>((y.array() < -rounding).count()) / count;
    found.entropy += entropy_of(x) / n;
    found.effective_entropy += entropy_of(y) / n;
    found.moved_share += raw[i] != moved[i] ? 1 / n : 0;
  }
  return found;
}

}  // namespace fluxformer::identifiability
