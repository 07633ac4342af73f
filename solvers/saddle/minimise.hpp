#pragma once

// The minimum of a smooth function of some hundred unknowns: quasi-Newton steps (TAO's LMVM), then Newton steps where these
// stall at the round-off of the values. Not collective: every rank that calls it does the same.

#include <mpi.h>

#include <functional>
#include <vector>

namespace fluxformer::saddle {

/// f(x), and its gradient (as long as x). Infinite where f is not defined, the gradient then has no meaning.
using Function = std::function<double(const std::vector<double>& x, std::vector<double>& gradient)>;

/// How well, and at what cost.
struct MinimumRequest {
  double scale = 1;         ///< what gradients are measured by
  double tolerance = 1e-6;  ///< of max |gradient| / scale, for convergence
  int iterations = 2000;    ///< of LMVM, at most
  int newton_steps = 3;     ///< at most; each costs two gradients for each unknown
};

/// What was found.
struct Minimum {
  std::vector<double> x = {};
  double value = 0;
  double gradient = 0;  ///< max |gradient| / scale
  int iterations = 0;   ///< of LMVM
  int evaluations = 0;  ///< of f and its gradient, those for the Newton steps included
  bool converged = false;
};

/// From x = start. A Newton step (Hessian by central differences of the gradient) is kept only where it makes the gradient
/// smaller. PETSc's options -tao_... have a say. Throws what f throws.
Minimum minimise(const Function& f, std::vector<double> start, const MinimumRequest& request);

// The minimum of a function that several ranks compute together.

/// As `minimise`, for a function that is collective over `comm`. The first rank takes all decisions, so that round-off, which may
/// differ between ranks, cannot part them: the others compute f at each x that it asks for, and only its value counts. All get its
/// result. Throws on all ranks what f throws on all of them, or what the first one throws.
Minimum minimise_together(MPI_Comm comm, const Function& f, std::vector<double> start,
                          const MinimumRequest& request);

}  // namespace fluxformer::saddle
