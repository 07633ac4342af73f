#include "analysis/identifiability/reachable_nullities.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "analysis/identifiability/thin_svd.hpp"
#include "base/index.hpp"
#include "base/statistics.hpp"

namespace fluxformer::identifiability {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;

constexpr double infinite = std::numeric_limits<double>::infinity();

/// Ranks that are added up; the least margin of all.
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
  return norm * other_norm * static_cast<double>(size) * std::numeric_limits<double>::epsilon();
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
    complement -= inside * inside.transpose();
    const MatrixXd left = p * thin_svd(complement).left.leftCols(rest) / size;
    MatrixXd block = MatrixXd::Zero(rest, tokens_ * d_k_);
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
    // Every block has been scaled, so that round-off is relative to 1.
    sum.add(numerical_rank(singular_values(all), product_threshold(1, 1, std::max(all.rows(), all.cols()))));
    return sum;
  }

 private:
  Index tokens_, d_k_, rows_ = 0;
  std::vector<MatrixXd> blocks_;
  RankSum sum_;
};

MatrixXd centred(const Matrix& x) {
  const Matrix shifted = x.rowwise() - x.row(0);
  return shifted.rowwise() - shifted.colwise().mean();
}

}  // namespace

Matrix softmax_tangent(const Eigen::RowVectorXd& a, const Matrix& x) {
  // sum_k a_k (X_j - X_k) from differences to the row of the largest weight: where that is near 1, the mean of
  // the differences is small and exact, while X_j - sum_k a_k X_k would cancel.
  Index largest = 0;
  a.maxCoeff(&largest);
  const Matrix differences = x.rowwise() - x.row(largest);
  const Eigen::RowVectorXd mean = a * differences;
  return a.transpose().asDiagonal() * (differences.rowwise() - mean).eval();
}

ReachableNullities::ReachableNullities(const AttentionHead& head)
    : head_(head),
      values_(compact_values(head)),
      finite_(values_.allFinite() && head.weights.allFinite() && head.keys.allFinite() &&
              head.queries.allFinite()) {}

Matrix ReachableNullities::shifted_values(Index seen) const {
  const auto values = values_.topRows(seen);
  return values.rowwise() - values.row(0);
}

Nullity ReachableNullities::query(int row) const {
  if (!finite_) return {missing_value, {missing_value, missing_value, missing_value}, missing_value};
  const Index n = seen(row);
  const Matrix tangent = softmax_tangent(head_.weights.row(row).head(n), head_.keys.topRows(n));
  const Matrix values = shifted_values(n);
  const MatrixXd change = values.transpose() * tangent;
  const auto reachable = own_rank(tangent);
  const auto sigma = singular_values(change);
  const Index size = std::max({n, change.rows(), change.cols()});
  const auto seen_in_output = numerical_rank(sigma, product_threshold(values.norm(), tangent.norm(), size));
  Nullity result{static_cast<double>(reachable.rank - seen_in_output.rank), {}, 0};
  result.margin = std::min(reachable.margin, seen_in_output.margin);
  for (std::size_t e = 0; e < nullity_epsilons.size(); ++e) {
    const int large = numerical_rank(sigma, nullity_epsilons[e] * sigma[0]).rank;
    result.epsilon[e] = reachable.rank - std::min(large, seen_in_output.rank);
  }
  return result;
}

Nullity ReachableNullities::query(const std::vector<int>& rows) const {
  Nullity mean{0, {}, infinite};
  const auto count = static_cast<double>(rows.size());
  for (const int row : rows) {
    const auto one = query(row);
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
    output.add(query, tangent.transpose() * values, softmax_tangent(a, values),
               product_threshold(values.norm(), tangent.norm(), size));
    if (!head_.causal) continue;
    // Weights > 0 change if and only if the scores change by more than a constant.
    const MatrixXd scores = centred(head_.keys.topRows(keys)).transpose();
    const double share = 1 / static_cast<double>(keys);
    weights.add(query, scores, MatrixXd(MatrixXd::Identity(keys, keys).array() - share),
                product_threshold(head_.keys.topRows(keys).norm(), 1, std::max(keys, d_k)));
  }
  const auto seen_in_output = output.total();
  RankSum reached = weights.total();
  if (!head_.causal) {
    // dQ K_c^T + Q dK_c^T with the centred keys K_c: two spaces of matrices and their intersection.
    const auto keys = own_rank(centred(head_.keys)), queries = own_rank(head_.queries);
    reached.margin = std::min(keys.margin, queries.margin);
    reached.rank = static_cast<double>(n * keys.rank + (n - 1) * queries.rank - queries.rank * keys.rank);
  }
  return {reached.rank - seen_in_output.rank, std::min(reached.margin, seen_in_output.margin)};
}

std::vector<int> sampled_rows(int tokens, int count, const RandomStream& stream) {
  std::vector<int> rows(tokens);
  std::iota(rows.begin(), rows.end(), 0);
  const std::size_t taken = std::min(rows.size(), static_cast<std::size_t>(count));
  for (std::size_t k = 0; k < taken; ++k) std::swap(rows[k], rows[k + stream.below(k, rows.size() - k)]);
  rows.resize(taken);
  std::sort(rows.begin(), rows.end());
  return rows;
}

}  // namespace fluxformer::identifiability
