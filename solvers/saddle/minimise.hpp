#pragma once

// The minimum of a smooth function of some hundred unknowns: quasi-Newton steps (TAO's LMVM), then Newton
// steps where these stall at the round-off of the values. Not collective: every rank that calls it does the
// same.

#include <mpi.h>

#include <functional>
#include <vector>

namespace fluxformer::saddle {

/// f(x), and its gradient (as long as x). Infinite where f is not defined, the gradient then has no meaning.
using Function = std::function<double(const std::vector<double>& x, std::vector<double>& gradient)>;

/// The accuracy of a minimum, and its largest cost.
struct MinimumRequest {
  double scale = 1;         ///< scale by which gradients are measured
  double tolerance = 1e-6;  ///< tolerance of max |gradient| / scale for convergence
  int iterations = 2000;    ///< largest number of iterations of LMVM
  int newton_steps = 3;     ///< largest number of Newton steps; each costs two gradients for each unknown
};

/// A minimum, and the cost of finding it.
struct Minimum {
  std::vector<double> x = {};
  double value = 0;
  double gradient = 0;  ///< max |gradient| / scale
  int iterations = 0;   ///< number of iterations of LMVM
  int evaluations = 0;  ///< number of evaluations of f and its gradient, including those for the Newton steps
  bool converged = false;
};

/// Minimises f from x = start. A Newton step (Hessian by central differences of the gradient) is kept only if
/// it makes the gradient smaller. The options -tao_... of PETSc apply. Throws what f throws.
Minimum minimise(const Function& f, std::vector<double> start, const MinimumRequest& request);

/// Minimises a function that is collective over `comm`. The first rank takes all decisions, so that
/// round-off, which may differ between ranks, cannot part them: the others compute f at each x that the first
/// one asks for, and only its value counts. All ranks get its result. Throws on all ranks what f throws on
/// all of them, or what the first one throws.
Minimum minimise_together(MPI_Comm comm, const Function& f, std::vector<double> start,
                          const MinimumRequest& request);

}  // namespace fluxformer::saddle
