#include "analysis/shared_matrices.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "analysis/scalapack.hpp"
#include "base/error.hpp"
#include "base/rank_of.hpp"
#include "base/reductions.hpp"

namespace fluxformer {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr int one = 1;

/// ScaLAPACK's description of n x columns numbers of which each rank holds whole columns. Blocks of rows must be those of
/// the factor, although all rows are on every rank.
std::array<int, 9> described(const RankRow& ranks, Index n, int columns, int row_block, int column_block) {
  const int rows = static_cast<int>(n);
  return {1, ranks.context(), rows, columns, row_block, column_block, 0, 0, std::max(rows, 1)};
}

/// The column of the whole matrix behind one of this rank's.
Index column_of(Index here, int block, const RankOf& me) {
  return (here / block * me.ranks + me.rank) * block + here % block;
}

Communicator duplicate(MPI_Comm comm) {
  MPI_Comm copy = MPI_COMM_NULL;
  check_mpi(MPI_Comm_dup(comm, &copy));
  return Communicator(copy);
}

}  // namespace

RankRow::RankRow(MPI_Comm comm)
    : comm_(duplicate(comm)), handle_(Csys2blacs_handle(comm_)), context_(handle_) {
  Cblacs_gridinit(&context_, "Row", 1, RankOf(comm).ranks);
}

RankRow::~RankRow() {
  Cblacs_gridexit(context_);
  Cfree_blacs_system_handle(handle_);
}

SharedCholesky::SharedCholesky(const RankRow& ranks, int block, MatrixXd& a)
    : ranks_(ranks), block_(block), a_(a) {
  const int n = static_cast<int>(a.rows());
  const auto how = described(ranks, n, n, block, block);
  int info = 0;
  pdpotrf_("L", &n, a.data(), &one, &one, how.data(), &info);
  if (info != 0) return;
  const RankOf me(ranks.comm());
  for (Index j = 0; j < a.cols(); ++j) log_det_ += 2 * std::log(a(column_of(j, block, me), j));
  sum_over_ranks({&log_det_, 1}, ranks.comm());
  positive_ = std::isfinite(log_det_);  // it passes over undefined entries
}

void SharedCholesky::solve_lower(Eigen::Ref<MatrixXd> b, int columns, int block) const {
  const int n = static_cast<int>(a_.rows());
  const auto how = described(ranks_, n, n, block_, block_),
             right = described(ranks_, n, columns, block_, block);
  const double as_it_is = 1;
  pdtrsm_("L", "L", "N", "N", &n, &columns, &as_it_is, a_.data(), &one, &one, how.data(), b.data(), &one,
          &one, right.data());
}

VectorXd SharedCholesky::solve_lower(VectorXd b) const {
  const int n = static_cast<int>(b.size());
  solve_lower(Eigen::Map<MatrixXd>(b.data(), n, 1), 1, 1);  // the only column is the first rank's
  check_mpi(MPI_Bcast(b.data(), n, MPI_DOUBLE, 0, ranks_.comm()));
  return b;
}

VectorXd eigenvector_products(const RankRow& ranks, int block, MatrixXd& a, const VectorXd& y) {
  const int n = static_cast<int>(a.rows()), ask = -1;
  const auto how = described(ranks, n, n, block, block);
  VectorXd values(n);
  MatrixXd vectors = collectively(ranks.comm(), [&] { return MatrixXd(a.rows(), a.cols()); });
  std::vector<double> work(3);
  std::vector<int> integers(2);
  const double unused = 0;
  int found = 0, found_vectors = 0, info = 0;
  const auto call = [&](int work_size, int integers_size) {
    pdsyevr_("V", "A", "L", &n, a.data(), &one, &one, how.data(), &unused, &unused, &one, &n, &found,
             &found_vectors, values.data(), vectors.data(), &one, &one, how.data(), work.data(), &work_size,
             integers.data(), &integers_size, &info);
  };
  call(ask, ask);
  collectively(ranks.comm(), [&] {
    work.resize(static_cast<std::size_t>(work[0]));
    integers.resize(static_cast<std::size_t>(integers[0]));
  });
  call(static_cast<int>(work.size()), static_cast<int>(integers.size()));
  std::vector<double> products(static_cast<std::size_t>(n) + 1);
  products.back() = info != 0 || found_vectors != n;
  const RankOf me(ranks.comm());
  for (Index j = 0; j < vectors.cols(); ++j)
    products[static_cast<std::size_t>(column_of(j, block, me))] = vectors.col(j).dot(y);
  sum_over_ranks(products, ranks.comm());
  if (products.back() != 0) return VectorXd::Constant(n, std::numeric_limits<double>::quiet_NaN());
  return Eigen::Map<const VectorXd>(products.data(), n);
}

}  // namespace fluxformer
