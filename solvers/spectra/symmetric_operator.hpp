#pragma once

// Symmetric operators made of others: from a product with whole vectors, restricted to a block,
// preconditioned.

#include <mpi.h>
#include <petscmat.h>

#include <functional>
#include <span>
#include <vector>

#include "base/handle.hpp"
#include "solvers/shell_matrix.hpp"
#include "solvers/spectra/blocks.hpp"

namespace fluxformer::spectra {

/// A symmetric product that every rank of a communicator computes together for whole vectors (a Hessian,
/// whose samples the ranks share), as a matrix with rows spread evenly: bases of solvers then take 1/ranks of
/// the memory, and all ranks take the same decisions. A product gathers the vector (8 bytes a row) on every
/// rank.
class ReplicatedOperator {
 public:
  /// out := H in. Both hold all rows, `in` is equal on all ranks and may be used as work space; of `out` a
  /// rank's own rows are read. Collective.
  using Product = std::function<void(std::span<double> in, std::span<double> out)>;

  /// `rows` x `rows`. Collective. Throws BadInput if `rows` is not positive.
  ReplicatedOperator(MPI_Comm comm, PetscInt rows, Product product);
  ReplicatedOperator(const ReplicatedOperator&) = delete;
  ReplicatedOperator& operator=(const ReplicatedOperator&) = delete;
  Mat get() const { return matrix_.get(); }

 private:
  void multiply(Vec in, Vec out);
  Product product_;
  std::vector<double> in_, out_;
  ShellMatrix matrix_;
};

/// The matrix P^T H P of the rows and columns of `block`, in its order, spread evenly over the ranks of `h`.
/// It keeps a reference to `h`, but not to the objects behind a shell matrix. Collective. Throws BadInput as
/// check_block does.
MatHandle restricted(Mat h, const Block& block);

/// The entries of `block` out of a whole vector that every rank holds, with the layout of the rows of `like`
/// (restricted to this block). Collective.
VecHandle restricted(std::span<const double> whole, const Block& block, Mat like);

/// The matrix D^-1/2 H D^-1/2 for a positive diagonal D. Its eigenvalues are those of D^-1 H, which an
/// adaptive optimiser with the step D^-1 sees (Cohen et al. 2022, "Adaptive Gradient Methods at the Edge of
/// Stability", arXiv 2207.14484).
class PreconditionedOperator {
 public:
  /// `diagonal` has the layout of the rows of `h` and is copied; `h` must outlive this object. Collective.
  /// Throws BadInput unless every entry is positive and finite.
  PreconditionedOperator(Mat h, Vec diagonal);
  PreconditionedOperator(const PreconditionedOperator&) = delete;
  PreconditionedOperator& operator=(const PreconditionedOperator&) = delete;
  Mat get() const { return matrix_.get(); }

 private:
  void multiply(Vec in, Vec out);
  Mat h_;
  VecHandle scale_, scaled_;
  ShellMatrix matrix_;
};

}  // namespace fluxformer::spectra
