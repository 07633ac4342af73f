#include "analysis/hessian/gauss_newton_gram.hpp"

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.hpp"
#include "base/index.hpp"
#include "base/mpi.hpp"

namespace fluxformer::hessian {
namespace {

/// Number of columns at once: enough for GEMM, and few beside those of the rows.
constexpr Index panel = 4096;

std::span<double> numbers_of(RowMatrix& matrix) {
  return {matrix.data(), matrix.data() + matrix.size()};
}

/// Eigenvalues in descending order; those that round-off made negative are 0.
std::vector<double> eigenvalues_of(const RowMatrix& matrix) {
  const Eigen::SelfAdjointEigenSolver<RowMatrix> solver(matrix, Eigen::EigenvaluesOnly);
  const auto& found = solver.eigenvalues();
  std::vector<double> values(found.begin(), found.end());
  std::ranges::reverse(values);
  for (double& value : values) value = std::max(value, 0.0);
  return values;
}

/// Spectrum of a block of `size` parameters over its root mean square; empty for a block that is zero. The
/// eigenvalues that the Gram matrix does not have are 0.
std::vector<SpectralMeasure> scaled(const std::vector<double>& values, double size) {
  const double rms = std::sqrt(std::inner_product(values.begin(), values.end(), values.begin(), 0.0) / size);
  if (rms == 0) return {};
  SpectralMeasure measure;
  for (const double value : values) {
    if (measure.nodes.size() == size) break;  // the remaining values are round-off
    measure.nodes.push_back(value / rms);
    measure.weights.push_back(1 / size);
  }
  measure.nodes.push_back(0);
  measure.weights.push_back(std::max(0.0, 1 - values.size() / size));
  return {measure};
}

}  // namespace

GaussNewtonGram::GaussNewtonGram(TrainingHessian& of, MPI_Comm comm, MPI_Comm line) : comm_(comm) {
  // R = A^T of docs/model.md, 9. All ranks of a token line get the same rows; the first one keeps them.
  const bool keeps = mpi::rank(line) == 0;
  of.for_output_gradients([&](std::span<const double> row) {
    if (keeps) rows_.emplace_back(row.begin(), row.end());
  });
  const int rank = mpi::rank(comm), ranks = mpi::size(comm);
  std::vector<double> counts(ranks, 0.0);
  counts[rank] = rows_.size();
  sum_over_ranks(counts, comm);
  first_.push_back(0);
  for (const Index count : counts) first_.push_back(first_.back() + count);
}

// K_b = R_b R_b^T as a sum over panels of columns.
RowMatrix GaussNewtonGram::of(const spectra::Block& block) const {
  RowMatrix gram = RowMatrix::Zero(outputs(), outputs());
  for (const auto& range : block)
    for (Index begin = range.begin; begin < range.end; begin += panel)
      add_panel(gram, begin, std::min(panel, Index{range.end} - begin));
  sum_over_ranks(numbers_of(gram), comm_);
  return gram;
}

// Each rank sends its rows to all others, which multiply them with their own.
void GaussNewtonGram::add_panel(RowMatrix& gram, Index begin, Index count) const {
  const int me = mpi::rank(comm_), ranks = mpi::size(comm_);
  RowMatrix mine(std::ssize(rows_), count);
  for (Index row = 0; row < mine.rows(); ++row)
    std::copy_n(rows_[row].begin() + begin, count, mine.row(row).data());
  for (int rank = 0; rank < ranks; ++rank) {
    const Index first = first_[rank];
    RowMatrix shown = rank == me ? mine : RowMatrix(first_[rank + 1] - first, count);
    check_mpi(MPI_Bcast(shown.data(), shown.size(), MPI_DOUBLE, rank, comm_));
    gram.block(first_[me], first, mine.rows(), shown.rows()).noalias() += mine * shown.transpose();
  }
}

GramSpectra gram_spectra(const GaussNewtonGram& gram, PetscInt size,
                         const std::vector<spectra::Block>& blocks, const SpectralComparison& comparison) {
  std::vector<RowMatrix> of_blocks;
  of_blocks.reserve(blocks.size());
  for (const auto& block : blocks) of_blocks.push_back(gram.of(block));
  const RowMatrix whole = gram.of({{0, size}});
  const int rank = mpi::rank(gram.comm()), ranks = mpi::size(gram.comm());
  // One eigenproblem for each rank at a time; the whole matrix is the last.
  std::vector<std::vector<double>> values;
  const Index count = std::ssize(blocks);
  for (Index k = 0; k <= count; ++k) {
    auto& mine = values.emplace_back(gram.outputs(), 0.0);
    if (k % ranks == rank) mine = eigenvalues_of(k < count ? of_blocks[k] : whole);
  }
  GramSpectra result;
  for (auto& list : values) sum_over_ranks(list, gram.comm());
  // K and H_o have the same eigenvalues beside zeros: tr H_o = tr K, || H_o ||_F = || K ||_F.
  result.eigenvalues = values.back();
  result.trace = whole.trace();
  result.frobenius = whole.norm();
  std::vector<std::vector<SpectralMeasure>> measures;
  for (Index a = 0; a < count; ++a) {
    result.block_traces.push_back(of_blocks[a].trace());
    result.block_largest.push_back(values[a].front());
    measures.push_back(scaled(values[a], spectra::block_size(blocks[a])));
    // || H_o(a, b) ||_F^2 = < K_a, K_b >
    auto& norms = result.block_norms.emplace_back();
    for (const auto& other : of_blocks)
      norms.push_back(std::sqrt(std::max(0.0, of_blocks[a].cwiseProduct(other).sum())));
  }
  result.apart = block_distances(measures, comparison);
  return result;
}

}  // namespace fluxformer::hessian
