#pragma once

// Symmetric matrices with known spectra for the tests of solvers/spectra, whole and as PETSc matrices.

#include <petscmat.h>

#include <Eigen/Core>
#include <vector>

#include "base/handle.hpp"

namespace fluxformer::test {

/// Random, with eigenvalues of both signs.
Eigen::MatrixXd symmetric_matrix(int size, unsigned seed);
/// 1, 2, ..., size
Eigen::VectorXd counting(int size);
/// Q diag(values) Q^T with a random orthogonal Q.
Eigen::MatrixXd with_spectrum(const Eigen::VectorXd& values, unsigned seed);
/// Eigenvalues by Eigen's dense solver, ascending: errors of a few 1e-16 of the largest.
Eigen::VectorXd eigenvalues(const Eigen::MatrixXd& symmetric);

/// Ranks that own rows: all of them, or every other one, beginning with rank 1 if there is one.
enum class Rows { everywhere, on_every_other_rank };
MatHandle spread(MPI_Comm comm, const Eigen::MatrixXd& whole, Rows rows = Rows::everywhere);
/// A vector with the layout of the columns of `like`.
VecHandle spread(Mat like, const Eigen::VectorXd& whole);
/// Every entry, on every rank.
Eigen::VectorXd whole(Vec vector);
/// M e_i for each i: what the operator is, entry by entry.
Eigen::MatrixXd whole(Mat matrix);

}  // namespace fluxformer::test
