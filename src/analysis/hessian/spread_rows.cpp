#include "analysis/hessian/spread_rows.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "base/mpi.hpp"

namespace fluxformer::hessian {
namespace {

/// Number of columns at once: enough for GEMM, and few beside those of the rows.
constexpr Index columns_at_once = 4096;

}  // namespace

SpreadRows::SpreadRows(MPI_Comm comm, std::vector<std::vector<double>> mine)
    : comm_(comm), rows_(std::move(mine)) {
  std::vector<double> counts(mpi::size(comm), 0.0);
  counts[mpi::rank(comm)] = static_cast<double>(rows_.size());
  sum_over_ranks(counts, comm);
  for (const double count : counts) first_.push_back(first_.back() + static_cast<Index>(count));
}

RowMatrix SpreadRows::times_transposed(const SpreadRows& b, const spectra::Block& block,
                                       std::span<const double> weights) const {
  RowMatrix product = RowMatrix::Zero(count(), b.count());
  for (const auto& range : block)
    for (Index begin = range.begin; begin < range.end; begin += columns_at_once)
      add_panel(product, b, begin, std::min(columns_at_once, Index{range.end} - begin), weights);
  sum_over_ranks({product.data(), product.data() + product.size()}, comm_);
  return product;
}

void SpreadRows::add_panel(RowMatrix& product, const SpreadRows& b, Index begin, Index count,
                           std::span<const double> weights) const {
  const int me = mpi::rank(comm_), ranks = mpi::size(comm_);
  const auto panel = [&](const std::vector<std::vector<double>>& rows) {
    RowMatrix part(std::ssize(rows), count);
    for (Index row = 0; row < part.rows(); ++row)
      std::copy_n(rows[row].begin() + begin, count, part.row(row).data());
    return part;
  };
  RowMatrix mine = panel(rows_);
  if (!weights.empty())
    mine = mine * Eigen::Map<const Eigen::VectorXd>(weights.data() + begin, count).asDiagonal();
  const RowMatrix own = panel(b.rows_);
  for (int rank = 0; rank < ranks; ++rank) {
    const Index first = b.first_[rank];
    RowMatrix shown = rank == me ? own : RowMatrix(b.first_[rank + 1] - first, count);
    check_mpi(MPI_Bcast(shown.data(), static_cast<int>(shown.size()), MPI_DOUBLE, rank, comm_));
    product.block(first_[me], first, mine.rows(), shown.rows()).noalias() += mine * shown.transpose();
  }
}

std::vector<double> SpreadRows::row_squares(std::span<const double> weights) const {
  std::vector<double> squares(count(), 0.0);
  for (Index row = 0; row < std::ssize(rows_); ++row)
    for (std::size_t j = 0; j < rows_[row].size(); ++j)
      squares[first_[mpi::rank(comm_)] + row] +=
          rows_[row][j] * rows_[row][j] * (weights.empty() ? 1 : weights[j]);
  sum_over_ranks(squares, comm_);
  return squares;
}

std::vector<double> SpreadRows::column_squares(Index columns) const {
  std::vector<double> squares(columns, 0.0);
  for (const auto& row : rows_)
    for (Index j = 0; j < columns; ++j) squares[j] += row[j] * row[j];
  sum_over_ranks(squares, comm_);
  return squares;
}

}  // namespace fluxformer::hessian
