#pragma once

// Symmetric matrices whose columns are dealt out to the ranks of a communicator in blocks, in turn: block k is on rank k modulo the
// number of ranks. A rank holds whole columns, one behind the other, and only what is on and below the diagonal counts. ScaLAPACK does the work.

#include <mpi.h>

#include <Eigen/Core>

#include "base/handle.hpp"

namespace fluxformer {

/// The ranks of a communicator side by side.
class RankRow {
 public:
  /// Collective. Works on a duplicate: BLACS frees what it knows of a communicator as a whole, also where two rows share it.
  explicit RankRow(MPI_Comm comm);
  ~RankRow();
  RankRow(const RankRow&) = delete;
  RankRow& operator=(const RankRow&) = delete;

  MPI_Comm comm() const { return comm_; }
  int context() const { return context_; }  ///< BLACS's

 private:
  Communicator comm_;
  int handle_, context_;
};

/// A = L L^T. Collective, as all of its functions are but the first.
class SharedCholesky {
 public:
  /// Factorises in the place of `a`, n x (columns of this rank), which is used from then on. Infinite or undefined entries
  /// make it not positive.
  SharedCholesky(const RankRow& ranks, int block, Eigen::MatrixXd& a);

  /// Whether A is positive definite; if not, the other results have no meaning. The same on all ranks.
  bool positive() const { return positive_; }
  /// ln det A, on all ranks.
  double log_det() const { return log_det_; }
  /// L^-1 B in the place of `b`: n x (columns of this rank), of `columns` in all, dealt out in blocks of `block`.
  void solve_lower(Eigen::Ref<Eigen::MatrixXd> b, int columns, int block) const;
  /// L^-1 b, where `b` and the result are whole on all ranks.
  Eigen::VectorXd solve_lower(Eigen::VectorXd b) const;

 private:
  const RankRow& ranks_;
  int block_;
  Eigen::MatrixXd& a_;
  bool positive_ = false;
  double log_det_ = 0;
};

/// v_k . y for the eigenvectors of a matrix, that of the smallest eigenvalue first, on all ranks; NaN where they are not found. `a` is
/// overwritten by its tridiagonal form; eigenvectors of that are found a few at a time, and none is kept. Collective.
Eigen::VectorXd eigenvector_products(const RankRow& ranks, int block, Eigen::MatrixXd& a,
                                     const Eigen::VectorXd& y);

}  // namespace fluxformer
