#include "analysis/identifiability/leading_rows.hpp"

#include <Eigen/Jacobi>
#include <utility>

#include "analysis/identifiability/numerical_rank.hpp"
#include "analysis/identifiability/thin_svd.hpp"
#include "base/index.hpp"

namespace fluxformer::identifiability {

using Eigen::Index;
using Eigen::VectorXd;

LeadingRows::LeadingRows(Eigen::MatrixXd matrix)
    : matrix_(std::move(matrix)), values_(static_cast<std::size_t>(matrix_.rows()) + 1) {}

const VectorXd& LeadingRows::values(int rows) {
  VectorXd& known = values_[rows];
  if (known.size() == 0) known = singular_values(matrix_.topRows(rows));
  return known;
}

int LeadingRows::count(int rows, double threshold) {
  return rows == 0 ? 0 : numerical_rank(values(rows), threshold).rank;
}

void LeadingRows::fill(int low, int high, double threshold, std::vector<int>& ranks) {
  // ranks[k] belongs to the first k rows; those of `low` and `high` are known.
  if (high - low < 2) return;
  const auto at = [](int rows) { return static_cast<std::size_t>(rows); };
  const int gain = ranks[at(high)] - ranks[at(low)];
  if (gain == 0 || gain == high - low) {
    for (int rows = low + 1; rows < high; ++rows)
      ranks[at(rows)] = ranks[at(low)] + (gain == 0 ? 0 : rows - low);
    return;
  }
  // The usual matrix has independent rows until there are as many as its rank: ask there first.
  const int middle = low + gain < high && low == 0 ? gain : (low + high) / 2;
  ranks[at(middle)] = count(middle, threshold);
  fill(low, middle, threshold, ranks);
  fill(middle, high, threshold, ranks);
}

std::vector<int> LeadingRows::ranks(double threshold) {
  const int n = static_cast<int>(matrix_.rows());
  std::vector<int> ranks(static_cast<std::size_t>(n) + 1, 0);
  ranks.back() = count(n, threshold);
  fill(0, n, threshold, ranks);
  ranks.erase(ranks.begin());
  return ranks;
}

GrowingQr::GrowingQr(Index n, Index m)
    : q_(Eigen::MatrixXd::Zero(n, m + 1)), r_(Eigen::MatrixXd::Zero(m, m)) {}

void GrowingQr::append(Eigen::RowVectorXd row) {
  // The last column of q is that of the new row, until the rotations have turned it into R.
  const Index m = r_.cols(), n = ++rows_;
  q_.col(m).setZero();
  q_(n - 1, m) = 1;
  for (Index k = 0; k < m; ++k) {
    if (row[k] == 0) continue;
    Eigen::JacobiRotation<double> turn;
    double length = 0;
    turn.makeGivens(r_(k, k), row[k], &length);
    for (Index j = k; j < m; ++j) {
      const double upper = r_(k, j);
      r_(k, j) = turn.c() * upper - turn.s() * row[j];
      row[j] = turn.s() * upper + turn.c() * row[j];
    }
    auto mine = q_.col(k).head(n), last = q_.col(m).head(n);
    const VectorXd before = mine;
    mine = turn.c() * before - turn.s() * last;
    last = turn.s() * before + turn.c() * last;
  }
}

VectorXd GrowingQr::project(const VectorXd& x, int rank) const {
  if (rank == rows_) return x;
  const auto q = q_.topLeftCorner(rows_, r_.cols());
  VectorXd coordinates = q.transpose() * x;
  if (rank < r_.cols()) {
    const Eigen::MatrixXd left = thin_svd(r_).left.leftCols(rank);
    const VectorXd inside = left.transpose() * coordinates;
    coordinates = left * inside;
  }
  return q * coordinates;
}

}  // namespace fluxformer::identifiability
