#include "analysis/identifiability/nullities.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "analysis/identifiability/column_space.hpp"
#include "base/index.hpp"
#include "base/statistics.hpp"

namespace fluxformer::identifiability {
namespace {

using Eigen::MatrixXd;

Nullity nullity_of(const ColumnSpace& space) {
  if (!space.values.allFinite())
    return {missing_value, {missing_value, missing_value, missing_value}, missing_value};
  const double n = space.basis.rows();
  Nullity result{n - space.rank.rank, {}, space.rank.margin};
  // n - rank, where singular values up to epsilon s_max count as zeros
  for (std::size_t e = 0; e < nullity_epsilons.size(); ++e)
    result.epsilon[e] = n - numerical_rank(space.values, nullity_epsilons[e] * space.values[0]).rank;
  return result;
}

/// Mean over rows of (tokens that a row sees - rank of their rows).
double mean_nullity(LeadingRows& rows, double threshold) {
  const auto ranks = rows.ranks(threshold);
  const double n = ranks.size();
  // sum over rows of (i + 1 - rank_i), divided by n
  return (n * (n + 1) / 2 - std::accumulate(ranks.begin(), ranks.end(), 0.0)) / n;
}

Nullity causal_nullity(const MatrixXd& matrix) {
  LeadingRows rows(matrix);
  const auto values = rows.values(matrix.rows());
  if (!values.allFinite())
    return {missing_value, {missing_value, missing_value, missing_value}, missing_value};
  const double threshold = rank_threshold(values, matrix.rows(), matrix.cols());
  Nullity result{mean_nullity(rows, threshold), {}, numerical_rank(values, threshold).margin};
  for (std::size_t e = 0; e < nullity_epsilons.size(); ++e)
    result.epsilon[e] = mean_nullity(rows, nullity_epsilons[e] * values[0]);
  return result;
}

/// The projection [H_1; H_2; ...] of all heads.
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

/// Sum of the ranks of each head's T less the rank of all, for the first `tokens` rows of every head; with
/// one more column for each head where the sums of its weights are fixed.
double lost_rank(const LayerHeads& heads, Index tokens, Index ones) {
  const Index count = std::ssize(heads);
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
  // sum_h rank T_h - rank [T_1; T_2; ...]
  return each - rank_of(all);
}

}  // namespace

HeadNullities nullities(const ValueSpace& space) {
  return {nullity_of(space.linear()), nullity_of(space.simplex())};
}

HeadNullities nullities(const SampleHead& head) {
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
    mean.linear += lost_rank(heads, tokens, 0) / n;
    mean.simplex += lost_rank(heads, tokens, 1) / n;
  }
  return mean;
}

namespace {

using Eigen::MatrixXd;

constexpr double infinite = std::numeric_limits<double>::infinity();

/// A sum of ranks, with the least margin of all.
struct RankSum {
  double rank = 0, margin = infinite;
  void add(const NumericalRank& more) {
    rank += more.rank;
    margin = std::min(margin, more.margin);
  }
};

NumericalRank own_rank(const MatrixXd& a) {
  const auto values = singular_values(a);
  return numerical_rank(values, rank_threshold(values, a.rows(), a.cols()));
}

/// Round-off of a product of matrices with these norms.
double product_threshold(double norm, double other_norm, Index size) {
  return norm * other_norm * size * std::numeric_limits<double>::epsilon();
}

/// Rank of (dQ, dK) -> rows dq_i M_i + q_i dK^T P_i, row by row.
class JointRank {
 public:
  JointRank(Index tokens, Index d_k) : tokens_(tokens), d_k_(d_k) {}

  /// M_i: d_k x m; P_i: seen x m; `threshold` for singular values of M_i.
  void add(const Eigen::RowVectorXd& query, const MatrixXd& m, const MatrixXd& p, double threshold) {
    // What dq_i reaches is taken out; the rest of the row is left to dK.
    const auto reached = thin_svd(m.transpose());
    const auto rank = numerical_rank(reached.values, threshold);
    sum_.add(rank);
    const Index width = m.cols(), rest = width - rank.rank;
    const double size = query.norm() * p.norm();
    if (rest == 0 || size == 0) return;
    MatrixXd complement = MatrixXd::Identity(width, width);
    const MatrixXd inside = reached.left.leftCols(rank.rank);
    if (rank.rank > 0) condition_ = std::max(condition_, reached.values[0] / reached.values[rank.rank - 1]);
    complement -= inside * inside.transpose();
    // P_i on what dq_i does not reach: q_i dK^T P_i is left to dK
    const MatrixXd left = p * thin_svd(complement).left.leftCols(rest) / size;
    MatrixXd block = MatrixXd::Zero(rest, tokens_ * d_k_);
    // Columns (key, component): (P_i)_key^T q_i
    for (Index key = 0; key < left.rows(); ++key)
      block.middleCols(key * d_k_, d_k_) = left.row(key).transpose() * query;
    rows_ += rest;
    blocks_.push_back(std::move(block));
  }

  RankSum total() const {
    RankSum sum = sum_;
    if (rows_ == 0) return sum;
    MatrixXd all(rows_, tokens_ * d_k_);
    Index row = 0;
    for (const auto& block : blocks_) {
      all.middleRows(row, block.rows()) = block;
      row += block.rows();
    }
    // Every block has been scaled, so that round-off is relative to 1, times the condition of the M_i: so far
    // what they leave is known.
    const Index size = std::max(all.rows(), all.cols());
    sum.add(numerical_rank(singular_values(all), product_threshold(condition_, 1, size)));
    return sum;
  }

 private:
  Index tokens_, d_k_, rows_ = 0;
  double condition_ = 1;  // largest over smallest singular value of an M_i that counts
  std::vector<MatrixXd> blocks_;
  RankSum sum_;
};

MatrixXd centred(const Matrix& x) {
  // Differences first: their mean is rounded to the size of the differences, not of x.
  const Matrix shifted = x.rowwise() - x.row(0);
  return shifted.rowwise() - shifted.colwise().mean();
}

}  // namespace

Matrix softmax_tangent(const Eigen::RowVectorXd& a, const Matrix& x) {
  // sum_k a_k (X_j - X_k) from differences to the row of the largest weight: where that is near 1, the mean
  // of the differences is small and exact, while X_j - sum_k a_k X_k would cancel.
  Index largest = 0;
  a.maxCoeff(&largest);
  const Matrix differences = x.rowwise() - x.row(largest);
  const Eigen::RowVectorXd mean = a * differences;
  return a.transpose().asDiagonal() * (differences.rowwise() - mean).eval();
}

ReachableNullities::ReachableNullities(const SampleHead& head)
    : head_(head),
      values_(compact_values(head)),
      finite_(values_.allFinite() && head.weights.allFinite() && head.keys.allFinite() &&
              head.queries.allFinite()) {}

Matrix ReachableNullities::shifted_values(Index seen) const {
  const auto values = values_.topRows(seen);
  Matrix shifted = values.rowwise() - values.row(0);
  // Of tokens that are equal but for the round-off of some layers, as where a line begins with a word twice, the
  // difference would be taken for one.
  constexpr double round_off = 64 * std::numeric_limits<double>::epsilon();
  for (Index i = 0; i < seen; ++i)
    if (shifted.row(i).norm() <= round_off * values.row(i).norm()) shifted.row(i).setZero();
  return shifted;
}

Nullity ReachableNullities::query(int row) const {
  if (!finite_) return {missing_value, {missing_value, missing_value, missing_value}, missing_value};
  const Index n = seen(row);
  const Matrix tangent = softmax_tangent(head_.weights.row(row).head(n), head_.keys.topRows(n));
  const Matrix values = shifted_values(n);
  // T^T D with D = (diag(a) - a a^T) K
  const MatrixXd change = values.transpose() * tangent;
  const auto reachable = own_rank(tangent);
  const auto sigma = singular_values(change);
  const Index size = std::max({n, change.rows(), change.cols()});
  const auto seen_in_output = numerical_rank(sigma, product_threshold(values.norm(), tangent.norm(), size));
  Nullity result;
  result.exact = reachable.rank - seen_in_output.rank;
  result.margin = std::min(reachable.margin, seen_in_output.margin);
  for (std::size_t e = 0; e < nullity_epsilons.size(); ++e) {
    const Index large = numerical_rank(sigma, nullity_epsilons[e] * sigma[0]).rank;
    result.epsilon[e] = reachable.rank - std::min(large, seen_in_output.rank);
  }
  return result;
}

Nullity ReachableNullities::query(const std::vector<int>& rows) const {
  Nullity mean{0, {}, infinite};
  const double count = rows.size();
  for (const int row : rows) {
    const auto one = query(row);
    // Means over the rows; the margin of the least certain one
    mean.exact += one.exact / count;
    for (std::size_t e = 0; e < nullity_epsilons.size(); ++e) mean.epsilon[e] += one.epsilon[e] / count;
    mean.margin = one.margin < mean.margin || one.margin != one.margin ? one.margin : mean.margin;
  }
  return mean;
}

JointNullity ReachableNullities::joint() const {
  if (!finite_) return {missing_value, missing_value};
  const Index n = head_.weights.rows(), d_k = head_.keys.cols();
  JointRank output(n, d_k), weights(n, d_k);
  for (Index i = 0; i < n; ++i) {
    const Index keys = seen(i);
    const Eigen::RowVectorXd a = head_.weights.row(i).head(keys), query = head_.queries.row(i);
    const Matrix values = shifted_values(keys);
    const MatrixXd tangent = softmax_tangent(a, head_.keys.topRows(keys));
    const Index size = std::max({keys, d_k, values.cols()});
    // dq_i (K^T C_i T) + q_i dK^T (C_i T)
    output.add(query, tangent.transpose() * values, softmax_tangent(a, values),
               product_threshold(values.norm(), tangent.norm(), size));
    if (!head_.causal) continue;
    // Weights > 0 change if and only if the scores change by more than a constant.
    const MatrixXd scores = centred(head_.keys.topRows(keys)).transpose();
    const double share = 1.0 / keys;
    weights.add(query, scores, MatrixXd(MatrixXd::Identity(keys, keys).array() - share),
                product_threshold(head_.keys.topRows(keys).norm(), 1, std::max(keys, d_k)));
  }
  const auto seen_in_output = output.total();
  RankSum reached = weights.total();
  if (!head_.causal) {
    // dQ K_c^T + Q dK_c^T with the centred keys K_c: two spaces of matrices and their intersection.
    const auto keys = own_rank(centred(head_.keys)), queries = own_rank(head_.queries);
    reached.margin = std::min(keys.margin, queries.margin);
    reached.rank = n * keys.rank + (n - 1) * queries.rank - queries.rank * keys.rank;
  }
  return {reached.rank - seen_in_output.rank, std::min(reached.margin, seen_in_output.margin)};
}

std::vector<int> sampled_rows(int tokens, int count, const RandomStream& stream) {
  std::vector<int> rows(tokens);
  std::iota(rows.begin(), rows.end(), 0);
  const Index taken = std::min(tokens, count);
  // The first steps of a shuffle: place k gets one of the rows k .. n - 1, all equally likely.
  for (Index k = 0; k < taken; ++k) std::swap(rows[k], rows[k + stream.below(k, rows.size() - k)]);
  rows.resize(taken);
  std::sort(rows.begin(), rows.end());
  return rows;
}

}  // namespace fluxformer::identifiability
