#include "analysis/shared_matrices.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "analysis/lapack.hpp"
#include "base/error.hpp"
#include "base/index.hpp"
#include "base/mpi.hpp"

// Prototypes of ScaLAPACK and of BLACS, on which it is built. Matrices are described by nine numbers: kind
// (1), context of BLACS, rows, columns, rows and columns of a block, process row and column of the first
// block, stride on this rank.

extern "C" {
/// Handle of BLACS for a communicator, valid until it is freed.
int Csys2blacs_handle(MPI_Comm comm);
void Cfree_blacs_system_handle(int handle);
/// Makes a grid of processes from a handle, which is replaced by the context of the grid.
void Cblacs_gridinit(int* context, const char* order, int rows, int columns);
void Cblacs_gridexit(int context);
/// Factorises A = L L^T in the place of a triangle of `a`; `info` is the same on all ranks.
void pdpotrf_(const char* triangle, const int* n, double* a, const int* row, const int* column,
              const int* described, int* info);
/// Solves a triangular system for the columns of `b`, in their place.
void pdtrsm_(const char* side, const char* triangle, const char* transposed, const char* unit,
             const int* rows, const int* columns, const double* factor, const double* a, const int* a_row,
             const int* a_column, const int* a_described, double* b, const int* b_row, const int* b_column,
             const int* b_described);
/// Reduces A to the tridiagonal matrix Q^T A Q: its diagonal and the entries beside it, and Q as reflections
/// in the place of `a` with `factors`. All are distributed as the columns of `a`.
void pdsytrd_(const char* triangle, const int* n, double* a, const int* row, const int* column,
              const int* described, double* diagonal, double* beside, double* factors, double* work,
              const int* work_size, int* info);
/// Q C or Q^T C with the reflections of pdsytrd, in the place of `c`.
void pdormtr_(const char* side, const char* triangle, const char* transposed, const int* rows,
              const int* columns, const double* a, const int* a_row, const int* a_column,
              const int* a_described, const double* factors, double* c, const int* c_row, const int* c_column,
              const int* c_described, double* work, const int* work_size, int* info);
}

namespace fluxformer {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr int one = 1;

/// ScaLAPACK's description of n x columns numbers of which each rank holds whole columns. Blocks of rows must
/// be those of the factor, although all rows are on every rank.
std::array<int, 9> described(const RankRow& ranks, int n, int columns, int row_block, int column_block) {
  return {1, ranks.context(), n, columns, row_block, column_block, 0, 0, std::max(n, 1)};
}

/// Column of the whole matrix that is column `here` of this rank.
Index column_of(Index here, int block, const RankRow& row) {
  return (here / block * mpi::size(row.comm()) + mpi::rank(row.comm())) * block + here % block;
}

Communicator duplicate(MPI_Comm comm) {
  MPI_Comm copy = MPI_COMM_NULL;
  check_mpi(MPI_Comm_dup(comm, &copy));
  return Communicator(copy);
}

}  // namespace

RankRow::RankRow(MPI_Comm comm)
    : comm_(duplicate(comm)), handle_(Csys2blacs_handle(comm_)), context_(handle_) {
  Cblacs_gridinit(&context_, "Row", 1, mpi::size(comm));
}

RankRow::~RankRow() {
  Cblacs_gridexit(context_);
  Cfree_blacs_system_handle(handle_);
}

SharedCholesky::SharedCholesky(const RankRow& ranks, int block, MatrixXd& a)
    : ranks_(ranks), block_(block), a_(a) {
  const int n = a.rows();
  const auto how = described(ranks, n, n, block, block);
  int info = 0;
  pdpotrf_("L", &n, a.data(), &one, &one, how.data(), &info);
  if (info != 0) return;
  // ln det A = 2 sum_j ln L_jj over the columns of all ranks.
  for (Index j = 0; j < a.cols(); ++j) log_det_ += 2 * std::log(a(column_of(j, block, ranks), j));
  sum_over_ranks({&log_det_, 1}, ranks.comm());
  positive_ = std::isfinite(log_det_);  // pdpotrf passes over undefined entries
}

void SharedCholesky::solve_lower(Eigen::Ref<MatrixXd> b, int columns, int block) const {
  const int n = a_.rows();
  const auto how = described(ranks_, n, n, block_, block_),
             right = described(ranks_, n, columns, block_, block);
  const double as_it_is = 1;
  pdtrsm_("L", "L", "N", "N", &n, &columns, &as_it_is, a_.data(), &one, &one, how.data(), b.data(), &one,
          &one, right.data());
}

VectorXd SharedCholesky::solve_lower(VectorXd b) const {
  const int n = b.size();
  solve_lower(Eigen::Map<MatrixXd>(b.data(), n, 1), 1, 1);  // the only column is the first rank's
  check_mpi(MPI_Bcast(b.data(), n, MPI_DOUBLE, 0, ranks_.comm()));
  return b;
}

namespace {

/// The tridiagonal matrix T = Q^T A Q, whole on all ranks, and the vector Q^T y.
struct Tridiagonal {
  VectorXd diagonal, beside, turned;
};

/// Reduces A to T and y to Q^T y. Q stays in the place of `a`.
Tridiagonal tridiagonal(const RankRow& ranks, int block, MatrixXd& a, const VectorXd& y) {
  const int n = a.rows(), ask = -1;
  const auto how = described(ranks, n, n, block, block), right = described(ranks, n, 1, block, 1);
  Tridiagonal all;
  VectorXd diagonal, beside, factors;
  std::vector<double> work;
  collectively(ranks.comm(), [&] {
    all = {VectorXd::Zero(n), VectorXd::Zero(n), y};
    for (auto* const part : {&diagonal, &beside, &factors}) part->resize(a.cols());
    work.resize(1);
  });
  int info = 0;
  const auto with_work = [&](auto&& call) {
    call(ask);
    collectively(ranks.comm(), [&] { work.resize(work[0]); });
    call(std::ssize(work));
    if (info != 0) throw std::logic_error("ScaLAPACK refuses its argument " + std::to_string(-info));
  };
  with_work([&](int size) {
    pdsytrd_("L", &n, a.data(), &one, &one, how.data(), diagonal.data(), beside.data(), factors.data(),
             work.data(), &size, &info);
  });
  with_work([&](int size) {
    pdormtr_("L", "L", "T", &n, &one, a.data(), &one, &one, how.data(), factors.data(), all.turned.data(),
             &one, &one, right.data(), work.data(), &size, &info);
  });
  // the only column is the first rank's
  check_mpi(MPI_Bcast(all.turned.data(), n, MPI_DOUBLE, 0, ranks.comm()));
  for (Index j = 0; j < a.cols(); ++j) {
    const Index column = column_of(j, block, ranks);
    all.diagonal[column] = diagonal[j];
    if (column + 1 < n) all.beside[column] = beside[j];
  }
  for (auto* const part : {&all.diagonal, &all.beside})
    sum_over_ranks({part->data(), part->data() + n}, ranks.comm());
  return all;
}

/// products[k] := w_k . Q^T y for the eigenvectors w_k of T, k = first .. last - 1. False if they are not
/// found.
bool add_products(const Tridiagonal& t, int first, int last, double* products) {
  const int n = t.diagonal.size(), from = first + 1, count = last - first, work_size = 18 * n,
            integers_size = 10 * n;
  VectorXd diagonal = t.diagonal, beside = t.beside, values(n), work(work_size);
  MatrixXd vectors(n, count);
  std::vector<int> integers(integers_size), support(2 * count);
  const double unused = 0;
  int found = 0, accurate = 1, info = 0;
  dstemr_("V", "I", &n, diagonal.data(), beside.data(), &unused, &unused, &from, &last, &found, values.data(),
          vectors.data(), &n, &count, support.data(), &accurate, work.data(), &work_size, integers.data(),
          &integers_size, &info);
  if (info != 0 || found != count) return false;
  Eigen::Map<VectorXd>(products + first, count) = vectors.transpose() * t.turned;
  return true;
}

}  // namespace

VectorXd eigenvector_products(const RankRow& ranks, int block, MatrixXd& a, const VectorXd& y) {
  constexpr int most = 128;  // eigenvectors at a time
  const int n = a.rows();
  const auto t = tridiagonal(ranks, block, a, y);
  // v_k = Q w_k, so that v_k . y = w_k . Q^T y: each rank finds some of the w_k, and none is kept. The last
  // number counts failures.
  std::vector<double> products;
  const int rank = mpi::rank(ranks.comm()), size = mpi::size(ranks.comm());
  collectively(ranks.comm(), [&] {
    products.resize(n + 1);
    for (int first = rank * most; first < n; first += size * most)
      if (!add_products(t, first, std::min(first + most, n), products.data())) products.back() = 1;
  });
  sum_over_ranks(products, ranks.comm());
  if (products.back() != 0) return VectorXd::Constant(n, std::numeric_limits<double>::quiet_NaN());
  return Eigen::Map<const VectorXd>(products.data(), n);
}

}  // namespace fluxformer
