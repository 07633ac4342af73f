#pragma once

// Rows of a matrix that are spread over ranks, and products of them.

#include <mpi.h>

#include <span>
#include <vector>

#include "analysis/dense_matrices.hpp"
#include "base/index.hpp"
#include "solvers/spectra/blocks.hpp"

namespace fluxformer::hessian {

/// The rows of a matrix A: those of rank 0 first, then those of rank 1, ...
class SpreadRows {
 public:
  SpreadRows() = default;
  /// Takes this rank's rows, [row][column]; there may be none. All rows of all ranks have one length. Collective.
  SpreadRows(MPI_Comm comm, std::vector<std::vector<double>> mine);
  /// Number of rows on all ranks.
  Index count() const { return first_.back(); }
  MPI_Comm comm() const { return comm_; }
  /// A B^T over the columns in `block`, or A W B^T with the diagonal matrix W of `weights`, [column], unless that is
  /// empty; the same on all ranks. `b` is on the same communicator. Each rank sends its rows to all others, a panel of
  /// columns at a time. Collective.
  RowMatrix times_transposed(const SpreadRows& b, const spectra::Block& block,
                             std::span<const double> weights = {}) const;
  /// For each row the sum of the squares of its columns, with weights unless they are empty; the same on all ranks.
  /// Collective.
  std::vector<double> row_squares(std::span<const double> weights = {}) const;
  /// For each of the `columns` columns the sum of its squares; the same on all ranks. Collective.
  std::vector<double> column_squares(Index columns) const;

 private:
  void add_panel(RowMatrix& product, const SpreadRows& b, Index begin, Index count,
                 std::span<const double> weights) const;
  MPI_Comm comm_ = MPI_COMM_NULL;
  std::vector<Index> first_{0};            // first row of each rank, and the end
  std::vector<std::vector<double>> rows_;  // [row][column]
};

}  // namespace fluxformer::hessian
