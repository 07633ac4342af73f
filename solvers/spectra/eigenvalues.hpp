#pragma once

// Extreme eigenvalues of a symmetric matrix by SLEPc's Krylov-Schur method (Stewart, SIAM J. Matrix Anal.
// Appl. 23 (2002) 601).

#include <mpi.h>
#include <petscmat.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "base/handle.hpp"

namespace fluxformer::spectra {

/// Says if a result holds the eigenvectors.
enum class Eigenvectors { not_kept, kept };

/// The eigenvalues that are asked for, and their accuracy.
struct EigenRequest {
  int largest = 0, smallest = 0;  ///< number of eigenvalues at either end; the smallest are the most negative
  double tolerance = 1e-8;        ///< tolerance of |H x - lambda x| / ||H||
  int restarts = 500;             ///< largest number of restarts for each end
  int basis = 40;  ///< vectors in memory, or more if SLEPc's default for so many eigenvalues is more
  Eigenvectors vectors = Eigenvectors::not_kept;
  std::uint64_t seed = 1;  ///< seed of the start vector
};

/// The eigenvalues of one end of the spectrum that converged within the restarts, from outside inwards.
struct EigenEnd {
  std::vector<double> values;
  std::vector<double> residuals;   ///< |H x - lambda x| / ||H|| with |x| = 1; 0 for H = 0
  std::vector<VecHandle> vectors;  ///< x, of length 1 and any sign, if they are kept
  int asked = 0, restarts = 0;
  /// True if all eigenvalues that were asked for converged.
  bool complete() const { return std::ssize(values) == asked; }
};

/// The eigenvalues of both ends of the spectrum.
struct ExtremeEigenvalues {
  EigenEnd largest, smallest;
  double norm = 0;  ///< ||H||_2, estimated by the largest |eigenvalue| seen (from below)
};

/// Solves for the ends of spectra; reads the options of EPS, ST, BV and DS when it is made.
class EigenSolver {
 public:
  /// A solver on the ranks of `comm`. Collective.
  explicit EigenSolver(MPI_Comm comm);
  ~EigenSolver();
  EigenSolver(const EigenSolver&) = delete;
  EigenSolver& operator=(const EigenSolver&) = delete;

  /// `h`: symmetric, on the solver's communicator; some ranks may own no rows. What the request says counts
  /// more than options. A multiple eigenvalue may be found fewer times than it occurs, since all vectors come
  /// from one start vector; those found are eigenvalues, and none lies further out. Equal on any number of
  /// ranks to the tolerance. Collective. Throws BadInput for more eigenvalues than rows, negative counts, or
  /// a tolerance that is not positive; NumericalFailure if a product is not finite.
  ExtremeEigenvalues solve(Mat h, const EigenRequest& request);

 private:
  class Solver;
  std::unique_ptr<Solver> solver_;
};

}  // namespace fluxformer::spectra
