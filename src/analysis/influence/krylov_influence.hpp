#pragma once

// Influence I(i, t) = -g_t^T (C + d)^-1 g_i (see gram_influence.hpp) of models whose Gram matrix is too
// large, by Krylov methods on exact products: conjugate gradients for C = H_o (Hestenes, Stiefel 1952),
// MINRES for C = H, which is indefinite away from minima (Paige, Saunders 1975, SIAM J. Numer. Anal. 12,
// 617). One solve for each test sample, (C + d) x_t = g_t, then I(i, t) = -x_t . g_i with training gradients
// that are computed one after the other and not kept.

#include <mpi.h>

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "analysis/dense_matrices.hpp"
#include "analysis/hessian/training_hessian.hpp"
#include "analysis/influence/sample_gradients.hpp"
#include "base/index.hpp"
#include "model/tasks/task.hpp"
#include "solvers/spectra/blocks.hpp"

namespace fluxformer::influence {

/// A damped curvature and the accuracy of solves with it.
struct KrylovRequest {
  Curvature part = Curvature::gauss_newton;  ///< gauss_newton: conjugate gradients; hessian: MINRES
  double damping = 0;                        ///< d, absolute
  double tolerance = 1e-10;                  ///< bound of the true residual |g - (C + d) x| / |g|
  int products = 10000;                      ///< largest number of products for a solve
  /// Number of test samples whose solutions are in memory at a time; training gradients are computed again
  /// for each such group.
  int together = 16;
};

/// Solution of (C + d) x = g.
struct KrylovSolution {
  std::vector<double> x;  ///< [entry of the block], the same on all ranks
  int products = 0;       ///< products with C, that for the true residual included
  double residual = 0;    ///< true residual |g - (C + d) x| / |g|; 0 for g = 0
};

/// Solves with a damped curvature over a block of variables, without a matrix and without a preconditioner;
/// reads the options of KSP when it is made, but method, tolerances and limits are those of the request.
class KrylovSolver {
 public:
  /// `of` is borrowed; `comm` has the ranks of its samples. Collective. Throws BadInput for a block that
  /// leaves the variables, a damping below 0, and a tolerance or number of products that is not positive.
  KrylovSolver(hessian::TrainingHessian& of, MPI_Comm comm, const spectra::Block& block,
               const KrylovRequest& request);
  ~KrylovSolver();
  KrylovSolver(const KrylovSolver&) = delete;
  KrylovSolver& operator=(const KrylovSolver&) = delete;

  /// `gradient`: [entry of the block], the same on all ranks. Where the true residual is above the tolerance
  /// after a solve, it is the right-hand side of the next one. Collective; throws NumericalFailure (agreed)
  /// if it stays above the tolerance.
  KrylovSolution solve(std::span<const double> gradient);

 private:
  class Solver;
  std::unique_ptr<Solver> solver_;
};

/// Scores of all pairs, and what the solves cost and reached; the same on all ranks.
struct KrylovScores {
  RowMatrix pairs;               ///< [test][train]: I(i, t)
  std::vector<double> self;      ///< [test]: -I(t, t), the self-influence of the test samples
  std::vector<int> products;     ///< [test]
  std::vector<double> residual;  ///< [test]: true relative residuals
  SampleNumbers train, test;
};
/// Called after each solve with the number of test samples that are done, on all ranks.
using SolveVisitor = std::function<void(Index done)>;

/// The scores of all pairs. `of`: the objective on the training samples; `train` and `test` have the same
/// block and communicator. Self-influence of training samples: give them as `test`. Collective; throws
/// BadInput for different blocks and as KrylovSolver, NumericalFailure (agreed) if a solve does not converge.
KrylovScores krylov_influence(hessian::TrainingHessian& of, SampleGradients& train, SampleGradients& test,
                              const KrylovRequest& request, const SolveVisitor& after_solve = {});

/// The ends of the spectrum of a curvature over a block of variables.
struct CurvatureEnds {
  double largest = 0;
  double smallest = 0;  ///< most negative eigenvalue; 0 for the Gauss-Newton part, which has none below
};
/// Extreme eigenvalues, by which damping is chosen: relative to the largest one of H_o; above -smallest for
/// H. `comm` has the ranks of the samples. Collective; throws NumericalFailure (agreed) if they do not
/// converge.
CurvatureEnds curvature_ends(hessian::TrainingHessian& of, MPI_Comm comm, const spectra::Block& block,
                             Curvature part);

}  // namespace fluxformer::influence
