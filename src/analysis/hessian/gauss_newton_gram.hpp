#pragma once

// Exact spectrum of the Gauss-Newton part H_o = R^T R from the Gram matrix K = R R^T of the gradients of all
// outputs (samples x classes rows): both have the same eigenvalues beside zeros. With R_b the columns of a
// block b, K_b = R_b R_b^T gives the spectrum and trace of the block, and || H_o(a, b) ||_F^2 = < K_a, K_b >.

#include <mpi.h>

#include <vector>

#include "analysis/dense_matrices.hpp"
#include "analysis/hessian/block_spectra.hpp"
#include "analysis/hessian/training_hessian.hpp"
#include "base/index.hpp"
#include "solvers/spectra/blocks.hpp"

namespace fluxformer::hessian {

/// Rows of R, distributed over the ranks of the samples.
class GaussNewtonGram {
 public:
  /// Computes the rows of R that belong to this rank's samples, and keeps them: 8 bytes for each parameter
  /// and output. Cheapest in batches of one sample. `comm` has the ranks of the samples, `line` those of this
  /// token line. Collective.
  GaussNewtonGram(TrainingHessian& of, MPI_Comm comm, MPI_Comm line);
  /// Number of rows of R on all ranks.
  Index outputs() const { return first_.back(); }
  /// Gram matrix K_b, outputs x outputs, of the columns in `block`; the same on all ranks. Collective.
  RowMatrix of(const spectra::Block& block) const;
  MPI_Comm comm() const { return comm_; }

 private:
  void add_panel(RowMatrix& gram, Index begin, Index count) const;
  MPI_Comm comm_;
  std::vector<Index> first_;               // first row of each rank, and the end
  std::vector<std::vector<double>> rows_;  // [row][parameter]
};

/// Spectra of H_o and of its blocks, exact to round-off.
struct GramSpectra {
  std::vector<double> eigenvalues;  ///< whole matrix: one per output, descending; its other eigenvalues are 0
  double trace = 0, frobenius = 0;  ///< trace and Frobenius norm of the whole matrix
  std::vector<double> block_traces, block_largest;  ///< [block]: trace and largest eigenvalue
  std::vector<std::vector<double>> block_norms;     ///< [block][block]: Frobenius norm
  BlockDistances apart;
};
/// Spectra of the whole matrix of `size` parameters and of blocks, the same on all ranks. Collective.
GramSpectra gram_spectra(const GaussNewtonGram& gram, PetscInt size,
                         const std::vector<spectra::Block>& blocks, const SpectralComparison& comparison);

}  // namespace fluxformer::hessian
