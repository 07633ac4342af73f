#include "analysis/identifiability/nullities.hpp"

#include <cmath>
#include <numeric>

#include "analysis/identifiability/leading_rows.hpp"
#include "base/index.hpp"
#include "base/statistics.hpp"

namespace fluxformer::identifiability {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;

Nullity nullity_of(const ColumnSpace& space) {
  if (!space.values.allFinite())
    return {missing_value, {missing_value, missing_value, missing_value}, missing_value};
  const auto n = static_cast<double>(space.basis.rows());
  Nullity result{n - space.rank.rank, {}, space.rank.margin};
  for (std::size_t e = 0; e < nullity_epsilons.size(); ++e)
    result.epsilon[e] = n - numerical_rank(space.values, nullity_epsilons[e] * space.values[0]).rank;
  return result;
}

/// Mean over rows of (tokens that a row sees - rank of their rows).
double mean_nullity(LeadingRows& rows, double threshold) {
  const auto ranks = rows.ranks(threshold);
  const auto n = static_cast<double>(ranks.size());
  return (n * (n + 1) / 2 - std::accumulate(ranks.begin(), ranks.end(), 0.0)) / n;
}

Nullity causal_nullity(const MatrixXd& matrix) {
  LeadingRows rows(matrix);
  const auto values = rows.values(static_cast<int>(matrix.rows()));
  if (!values.allFinite())
    return {missing_value, {missing_value, missing_value, missing_value}, missing_value};
  const double threshold = rank_threshold(values, matrix.rows(), matrix.cols());
  Nullity result{mean_nullity(rows, threshold), {}, numerical_rank(values, threshold).margin};
  for (std::size_t e = 0; e < nullity_epsilons.size(); ++e)
    result.epsilon[e] = mean_nullity(rows, nullity_epsilons[e] * values[0]);
  return result;
}

/// [H_1; H_2; ...]
Matrix projection_of(const LayerHeads& heads) {
  Index rows = 0;
  for (const auto& head : heads) rows += head.output.rows();
  Matrix all(rows, heads.front().output.cols());
  rows = 0;
  for (const auto& head : heads) {
    all.middleRows(rows, head.output.rows()) = head.output;
    rows += head.output.rows();
  }
  return all;
}

int rank_of(const MatrixXd& a) {
  const auto values = singular_values(a);
  return numerical_rank(values, rank_threshold(values, a.rows(), a.cols())).rank;
}

/// Sum of the ranks of each head's T less the rank of all, for the first `tokens` rows of every head; with one
/// more column for each head where the sums of its weights are fixed.
double lost_rank(const LayerHeads& heads, Index tokens, Index ones) {
  const auto count = static_cast<Index>(heads.size());
  std::vector<MatrixXd> small;
  Index rows = 0, width = heads.front().output.cols();
  double each = 0;
  for (Index h = 0; h < count; ++h) {
    const auto& head = heads[h];
    // T_h scaled to norm 1, beside its own column of ones; Q of its rows does not change the rank.
    const Matrix product = head.values.topRows(tokens) * head.output;
    MatrixXd block = MatrixXd::Zero(tokens, width + ones * count);
    const MatrixXd scaled = with_ones(product);
    block.leftCols(width) = scaled.leftCols(width);
    if (ones != 0) block.col(width + h) = scaled.rightCols(1);
    each += rank_of(scaled.leftCols(width + ones));
    small.push_back(qr_factors(block).r);
    rows += small.back().rows();
  }
  MatrixXd all(rows, width + ones * count);
  rows = 0;
  for (const auto& block : small) {
    all.middleRows(rows, block.rows()) = block;
    rows += block.rows();
  }
  return each - rank_of(all);
}

}  // namespace

HeadNullities nullities(const ValueSpace& space) {
  return {nullity_of(space.linear()), nullity_of(space.simplex())};
}

HeadNullities nullities(const AttentionHead& head) {
  if (!head.causal) return nullities(ValueSpace(head));
  const Matrix values = compact_values(head);
  return {causal_nullity(values), causal_nullity(with_ones(values))};
}

bool heads_add_up(const LayerHeads& heads) {
  return has_full_row_rank(projection_of(heads));
}

ExcessNullity excess_nullity(const LayerHeads& heads) {
  for (const auto& head : heads)
    if (!head.values.allFinite() || !head.output.allFinite()) return {missing_value, missing_value};
  if (heads.size() < 2 || heads_add_up(heads)) return {};
  const Index n = heads.front().tokens();
  if (!heads.front().causal) return {lost_rank(heads, n, 0), lost_rank(heads, n, 1)};
  ExcessNullity mean;
  for (Index tokens = 1; tokens <= n; ++tokens) {
    mean.linear += lost_rank(heads, tokens, 0) / static_cast<double>(n);
    mean.simplex += lost_rank(heads, tokens, 1) / static_cast<double>(n);
  }
  return mean;
}

}  // namespace fluxformer::identifiability
