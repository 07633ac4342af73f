#include "analysis/identifiability/value_space.hpp"

#include <algorithm>
#include <cmath>

#include "analysis/dense_matrices.hpp"

namespace fluxformer::identifiability {
namespace {

using Eigen::Index;
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
  // With B some columns of A, the square of A's condition number is at most |A|_F^2 tr((B B^T)^-1). Where that
  // is far from 1/eps, the Cholesky factor, cheaper than singular values, decides.
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

Matrix compact_values(const AttentionHead& head) {
  if (head.factor.size() > 0) return head.values * head.factor;
  return head.values * output_factor(head.output);
}

MatrixXd with_ones(const Matrix& values) {
  MatrixXd both(values.rows(), values.cols() + 1);
  const double norm = values.norm();
  both.leftCols(values.cols()) = norm == 0 ? values : values / norm;
  both.rightCols(1).setConstant(1 / std::sqrt(static_cast<double>(values.rows())));
  return both;
}

Matrix ColumnSpace::project(const Matrix& x) const {
  if (!values.allFinite()) return Matrix::Constant(x.rows(), x.cols(), std::nan(""));
  if (everything()) return x;
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
