#include "analysis/identifiability/effective_null.hpp"

#include <algorithm>
#include <cmath>

#include "analysis/identifiability/effective_measures.hpp"
#include "base/index.hpp"
#include "base/statistics.hpp"

namespace fluxformer::identifiability {
namespace {

using Eigen::Index;

/// Share of a row's dimensions that a random space of this rank keeps, beyond the row's mean in `simplex`.
double kept_share(double seen, double rank, EffectivePart part) {
  if (rank >= seen) return 1;
  if (part == EffectivePart::linear) return rank / seen;
  return std::min(1.0, rank / (seen - 1));
}

}  // namespace

EffectiveNull expected_null(const AttentionHead& head, int rank, EffectivePart part) {
  const auto n = static_cast<double>(head.tokens());
  const double entries = head.causal ? n * (n + 1) / 2 : n * n, mean = n / entries;
  double raw = 0, kept = 0, sums = 0;  // of a a^T, of E a P a^T and of E a P 1 over rows
  for (Index i = 0; i < head.weights.rows(); ++i) {
    const double seen = head.causal ? static_cast<double>(i + 1) : n;
    const double share = kept_share(seen, rank, part), square = head.weights.row(i).squaredNorm();
    raw += square;
    const bool linear = part == EffectivePart::linear;
    // `simplex` keeps the mean of the row, whose square is 1/seen, in any case.
    kept += linear ? share * square : 1 / seen + share * (square - 1 / seen);
    sums += linear ? share : 1;
  }
  EffectiveNull null;
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

EffectiveNull drawn_null(const AttentionHead& head, int rank, EffectivePart part, int draws,
                         const RandomStream& stream) {
  AttentionHead drawn = head;
  drawn.values.resize(head.weights.rows(), rank);
  drawn.output = Matrix::Identity(rank, rank);
  drawn.factor = {};
  Eigen::ArrayXd correlation(draws), row_sum(draws);
  for (int draw = 0; draw < draws; ++draw) {
    const auto numbers = stream.item(draw);
    for (Index k = 0; k < drawn.values.size(); ++k)
      drawn.values.data()[k] = numbers.normal(static_cast<std::uint64_t>(k));
    const auto found = effective_measures(head, effective_attention(drawn, part));
    correlation[draw] = found.correlation;
    row_sum[draw] = found.row_sum;
  }
  const auto spread = [draws](const Eigen::ArrayXd& x) {
    return std::sqrt((x - x.mean()).square().sum() / (draws - 1));
  };
  return {correlation.mean(), spread(correlation), row_sum.mean(), spread(row_sum)};
}

}  // namespace fluxformer::identifiability
