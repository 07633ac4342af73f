#include "analysis/identifiability/column_space.hpp"

#include <Eigen/Jacobi>
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "analysis/dense_matrices.hpp"
#include "analysis/lapack.hpp"
#include "base/index.hpp"

namespace fluxformer::identifiability {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

/// `a` is overwritten. left: n x min(n, m), or null if U is not wanted.
VectorXd decompose(MatrixXd& a, MatrixXd* left) {
  const Index least = std::min(a.rows(), a.cols());
  VectorXd values = VectorXd::Constant(least, std::numeric_limits<double>::quiet_NaN());
  if (left) *left = MatrixXd::Constant(a.rows(), least, std::numeric_limits<double>::quiet_NaN());
  if (least == 0 || !a.allFinite()) return values;
  const int n = a.rows(), m = a.cols(), one = 1;
  // More than the least that LAPACK asks for, so that it works in blocks.
  std::vector<double> work(5 * least + 64 * (a.rows() + a.cols()));
  const int size = work.size();
  int info = 0;
  double unused = 0;
  dgesvd_(left ? "S" : "N", "N", &n, &m, a.data(), &n, values.data(), left ? left->data() : &unused, &n,
          &unused, &one, work.data(), &size, &info);
  if (info != 0) values.setConstant(std::numeric_limits<double>::quiet_NaN());
  return values;
}

/// Householder's reflections below the diagonal of `a`, R in its upper triangle; returns their factors.
std::vector<double> reflect(MatrixXd& a) {
  const Index least = std::min(a.rows(), a.cols());
  std::vector<double> tau(least), work(64 * a.cols());
  if (least == 0) return tau;
  const int n = a.rows(), m = a.cols(), size = work.size();
  int info = 0;
  dgeqrf_(&n, &m, a.data(), &n, tau.data(), work.data(), &size, &info);
  return tau;
}

MatrixXd upper_of(const MatrixXd& a) {
  // The reflections stand below the diagonal of the same array.
  return a.topRows(std::min(a.rows(), a.cols())).triangularView<Eigen::Upper>();
}

}  // namespace

QrFactors qr_factors(MatrixXd a) {
  const auto tau = reflect(a);
  QrFactors factors{.q = a.leftCols(std::min(a.rows(), a.cols())), .r = upper_of(a)};
  const int n = a.rows(), k = factors.q.cols();
  if (k == 0) return factors;
  std::vector<double> work(64 * k);
  const int size = work.size();
  int info = 0;
  dorgqr_(&n, &k, &k, factors.q.data(), &n, tau.data(), work.data(), &size, &info);
  return factors;
}

MatrixXd upper_factor(MatrixXd a) {
  reflect(a);
  return upper_of(a);
}

ThinSvd thin_svd(MatrixXd a) {
  ThinSvd svd;
  svd.values = decompose(a, &svd.left);
  return svd;
}

VectorXd singular_values(MatrixXd a) {
  return decompose(a, nullptr);
}

double rank_threshold(const Eigen::VectorXd& values, Index rows, Index columns) {
  if (values.size() == 0) return 0;
  // s_max max(n, m) 2^-52
  return values[0] * std::max(rows, columns) * std::numeric_limits<double>::epsilon();
}

NumericalRank numerical_rank(const Eigen::VectorXd& values, double threshold) {
  if (!values.allFinite()) return {0, std::numeric_limits<double>::quiet_NaN()};
  const auto rank = (values.array() > threshold).count();
  if (rank == 0) return {0, std::numeric_limits<double>::infinity()};
  // The margin is the last value that counts over the first that does not.
  const double below = rank < values.size() ? values[rank] : threshold;
  // A next value of 0 gives an infinite ratio, as it should.
  return {.rank = rank, .margin = values[rank - 1] / below};
}

using Eigen::VectorXd;

LeadingRows::LeadingRows(Eigen::MatrixXd matrix) : matrix_(std::move(matrix)), values_(matrix_.rows() + 1) {}

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
  const int gain = ranks[high] - ranks[low];
  // A row adds 0 or 1 to the rank. Without a gain none of these rows adds any; where the gain is their number
  // each adds 1. Nothing is left to count then.
  if (gain == 0 || gain == high - low) {
    for (int rows = low + 1; rows < high; ++rows) ranks[rows] = ranks[low] + (gain == 0 ? 0 : rows - low);
    return;
  }
  // The usual matrix has independent rows until there are as many as its rank: where the interval begins at
  // 0, that place is asked for. Other intervals are halved.
  const int middle = low + gain < high && low == 0 ? gain : (low + high) / 2;
  ranks[middle] = count(middle, threshold);
  fill(low, middle, threshold, ranks);
  fill(middle, high, threshold, ranks);
}

std::vector<int> LeadingRows::ranks(double threshold) {
  const int n = matrix_.rows();
  std::vector<int> ranks(n + 1, 0);
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
      // The rotation makes entry k of the new row 0: (R_k; row) := G (R_k; row), G = [c, -s; s, c].
      r_(k, j) = turn.c() * upper - turn.s() * row[j];
      row[j] = turn.s() * upper + turn.c() * row[j];
    }
    // Q takes the transpose, so that Q R stays the matrix of all rows so far.
    auto mine = q_.col(k).head(n), last = q_.col(m).head(n);
    const VectorXd before = mine;
    mine = turn.c() * before - turn.s() * last;
    last = turn.s() * before + turn.c() * last;
  }
}

VectorXd GrowingQr::project(const VectorXd& x, int rank) const {
  if (rank == rows_) return x;
  // Q Q^T x, or Q U_r U_r^T Q^T x with R = U Sigma Z^T of rank r
  const auto q = q_.topLeftCorner(rows_, r_.cols());
  VectorXd coordinates = q.transpose() * x;
  if (rank < r_.cols()) {
    const Eigen::MatrixXd left = thin_svd(r_).left.leftCols(rank);
    const VectorXd inside = left.transpose() * coordinates;
    coordinates = left * inside;
  }
  return q * coordinates;
}

namespace {

using Eigen::MatrixXd;

/// The column space of q r, where q has orthonormal columns: that of a matrix of q.rows() rows.
ColumnSpace space_of(const MatrixXd& q, const MatrixXd& r) {
  ColumnSpace space;
  space.values = singular_values(r);
  space.rank = numerical_rank(space.values, rank_threshold(space.values, q.rows(), r.cols()));
  const Index rank = space.rank.rank;
  if (rank == q.cols())
    space.basis = q;
  else
    space.basis.noalias() = q * thin_svd(r).left.leftCols(rank);
  return space;
}

}  // namespace

bool has_full_row_rank(const Matrix& a) {
  if (a.rows() > a.cols()) return false;
  // With B some columns of A, the square of A's condition number is at most |A|_F^2 tr((B B^T)^-1). Where
  // that is far from 1/eps, the Cholesky factor, cheaper than singular values, decides.
  const auto b = a.leftCols(std::min(a.cols(), 2 * a.rows()));
  const MatrixXd gram = b * b.transpose();
  if (const Cholesky factor(gram); factor.positive()) {
    const double bound = a.squaredNorm() * factor.solve(MatrixXd::Identity(a.rows(), a.rows())).trace();
    if (bound > 0 && bound < 1e10) return true;
  }
  const auto values = singular_values(a);
  return numerical_rank(values, rank_threshold(values, a.rows(), a.cols())).rank == a.rows();
}

Matrix output_factor(const Matrix& output) {
  return upper_factor(output.transpose()).transpose();
}

Matrix compact_values(const SampleHead& head) {
  if (head.factor.size() > 0) return head.values * head.factor;
  return head.values * output_factor(head.output);
}

MatrixXd with_ones(const Matrix& values) {
  MatrixXd both(values.rows(), values.cols() + 1);
  const double norm = values.norm();
  both.leftCols(values.cols()) = norm == 0 ? values : values / norm;
  // n ones over sqrt(n): this block has norm 1, too.
  both.rightCols(1).setConstant(1 / std::sqrt(values.rows()));
  return both;
}

Matrix ColumnSpace::project(const Matrix& x) const {
  if (!values.allFinite()) return Matrix::Constant(x.rows(), x.cols(), std::nan(""));
  if (everything()) return x;
  // X B B^T with the orthonormal basis B, n x rank; B B^T, n x n, is never formed.
  const Matrix coordinates = x * basis;
  return coordinates * basis.transpose();
}

Matrix ColumnSpace::remove(const Matrix& x) const {
  if (everything()) return Matrix::Zero(x.rows(), x.cols());
  return x - project(x);
}

ColumnSpace column_space(const MatrixXd& a) {
  const auto factors = qr_factors(a);
  return space_of(factors.q, factors.r);
}

ValueSpace::ValueSpace(const Matrix& values) {
  const auto both = qr_factors(with_ones(values));
  // Householder's reflections go from left to right: the first columns of both factors are those of T alone.
  const Index least = std::min(values.rows(), values.cols());
  linear_ = space_of(both.q.leftCols(least), both.r.topLeftCorner(least, values.cols()));
  simplex_ = space_of(both.q, both.r);
}

}  // namespace fluxformer::identifiability
