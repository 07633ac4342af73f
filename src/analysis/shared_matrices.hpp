#pragma once

// Symmetric matrices whose columns are distributed over the ranks of a communicator in cyclic blocks: block k
// is on rank k modulo the number of ranks. A rank holds whole columns, one after the other; only the entries
// on and below the diagonal count. ScaLAPACK does the work.

#include <mpi.h>

#include <Eigen/Core>

#include "base/handle.hpp"

namespace fluxformer {

/// Grid of processes of ScaLAPACK with all ranks of a communicator in one row.
class RankRow {
 public:
  /// Collective. Works on a duplicate of `comm`: BLACS frees what it knows of a communicator as a whole, even
  /// if two grids share it.
  explicit RankRow(MPI_Comm comm);
  ~RankRow();
  RankRow(const RankRow&) = delete;
  RankRow& operator=(const RankRow&) = delete;

  MPI_Comm comm() const { return comm_; }
  int context() const { return context_; }  ///< context of BLACS

 private:
  Communicator comm_;
  int handle_, context_;
};

/// Cholesky factorisation A = L L^T of a distributed matrix. Constructor and solve_lower are collective. They
/// take no memory that could be missing on one rank alone (a copy of `b` is the caller's).
class SharedCholesky {
 public:
  /// Factorises in the place of `a`, n x (columns of this rank), which is borrowed. A with infinite or
  /// undefined entries counts as not positive.
  SharedCholesky(const RankRow& ranks, int block, Eigen::MatrixXd& a);

  /// True, on all ranks, if A is positive definite; if not, the other results have no meaning.
  bool positive() const { return positive_; }
  /// ln det A, the same on all ranks.
  double log_det() const { return log_det_; }
  /// Solves L X = B in the place of `b`, n x (columns of this rank), of `columns` in all, in blocks of
  /// `block`.
  void solve_lower(Eigen::Ref<Eigen::MatrixXd> b, int columns, int block) const;
  /// Solution of L x = b; `b` and the solution are whole on all ranks.
  Eigen::VectorXd solve_lower(Eigen::VectorXd b) const;

 private:
  const RankRow& ranks_;
  int block_;
  Eigen::MatrixXd& a_;
  bool positive_ = false;
  double log_det_ = 0;
};

/// Products v_k . y with the eigenvectors of a matrix, in the order of rising eigenvalues, on all ranks; NaN
/// if they are not found. `a` is overwritten by its tridiagonal form, whose eigenvectors are found a few at a
/// time; none is kept. Collective.
Eigen::VectorXd eigenvector_products(const RankRow& ranks, int block, Eigen::MatrixXd& a,
                                     const Eigen::VectorXd& y);

}  // namespace fluxformer
