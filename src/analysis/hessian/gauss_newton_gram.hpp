#pragma once

// The exact spectrum of the Gauss-Newton part H_o = R^T R from the Gram matrix K = R R^T of the gradients of all
// outputs (samples x classes rows): both have the same eigenvalues beside zeros. With R_b the columns of a block b,
// K_b = R_b R_b^T gives the block's spectrum and trace, and || H_o(a, b) ||_F^2 = < K_a, K_b >.

#include <mpi.h>

#include <Eigen/Core>
#include <vector>

#include "analysis/hessian/block_spectra.hpp"
#include "analysis/hessian/training_hessian.hpp"
#include "solvers/spectra/blocks.hpp"

namespace fluxformer::hessian {

/// A symmetric positive semi-definite matrix by its rank-one parts.
class GaussNewtonGram {
 public:
  using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;  ///< by rows

  /// Computes the rows of R that belong to this rank's samples, and keeps them: 8 bytes for each parameter and output. Cheapest
  /// in batches of one sample. `comm`: the ranks of the samples. Collective.
  GaussNewtonGram(TrainingHessian& of, MPI_Comm comm, MPI_Comm line);
  /// Rows of R on all ranks.
  Eigen::Index outputs() const { return first_.back(); }
  /// K_b, outputs x outputs, of the columns in `block`; the same on all ranks. Collective.
  Matrix of(const spectra::Block& block) const;
  MPI_Comm comm() const { return comm_; }

 private:
  void add_panel(Matrix& gram, Eigen::Index begin, Eigen::Index count) const;
  MPI_Comm comm_;
  std::vector<Eigen::Index> first_;        // first row of each rank, and the end
  std::vector<std::vector<double>> rows_;  // [row][parameter]
};

/// What Gram matrices tell; exact to round-off.
struct GramSpectra {
  std::vector<double> eigenvalues;  ///< of the whole matrix, descending: as many as outputs, all others are 0
  double trace = 0, frobenius = 0;
  std::vector<double> block_traces, block_largest;  ///< [block]
  std::vector<std::vector<double>> block_norms;     ///< [block][block], Frobenius
  BlockDistances apart;
};
/// `size`: parameters of the whole matrix. Collective; the same on all ranks.
GramSpectra gram_spectra(const GaussNewtonGram& gram, PetscInt size,
                         const std::vector<spectra::Block>& blocks, const SpectralComparison& comparison);

}  // namespace fluxformer::hessian
