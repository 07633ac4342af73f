#include "solvers/spectra/eigenvalues.hpp"

#include <slepceps.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "base/error.hpp"
#include "solvers/spectra/spectral_density.hpp"

namespace fluxformer::spectra {
namespace {

void check_request(const EigenRequest& request, PetscInt rows) {
  for (const int count : {request.largest, request.smallest})
    if (count < 0 || count > rows)
      throw BadInput(std::to_string(count) + " eigenvalues of an operator with " + std::to_string(rows) +
                     " rows");
  if (!(request.tolerance > 0)) throw BadInput("eigenvalues need a tolerance greater than 0");
}

/// max |lambda| of a few Lanczos steps: a bound from below, good to some per cent, which is enough to turn a
/// relative tolerance into an absolute one.
double norm_estimate(Mat h, Vec start) {
  constexpr int steps = 8;
  const auto nodes = lanczos_quadrature(h, start, steps).nodes;
  return std::max(std::abs(nodes.front()), std::abs(nodes.back()));
}

}  // namespace

class EigenSolver::Solver {
 public:
  explicit Solver(MPI_Comm comm) {
    check(EPSCreate(comm, eps_.out()));
    check(EPSSetProblemType(eps_, EPS_HEP));
    check(EPSSetType(eps_, EPSKRYLOVSCHUR));
    check(EPSSetFromOptions(eps_));
    // A solve writes its own sizes over those of the options.
    check(EPSGetDimensions(eps_, nullptr, &basis_, &projected_));
  }

  EigenEnd solve(Mat h, EPSWhich which, int count, Vec start, double tolerance, const EigenRequest& request) {
    EigenEnd end;
    end.asked = count;
    if (count == 0) return end;
    check(EPSSetOperators(eps_, h, nullptr));
    check(EPSSetWhichEigenpairs(eps_, which));
    // |H x - lambda x| itself: relative to |lambda| an eigenvalue near 0 would never converge.
    check(EPSSetConvergenceTest(eps_, EPS_CONV_ABS));
    check(EPSSetTolerances(eps_, tolerance, request.restarts));
    PetscInt rows = 0;
    check(MatGetSize(h, &rows, nullptr));
    // At least SLEPc's default for k eigenvalues, max(2 k, k + 15); more vectors need fewer restarts.
    const PetscInt basis = std::min(rows, std::max({2 * count, count + 15, request.basis}));
    check(EPSSetDimensions(eps_, count, basis_ > 0 ? basis_ : basis, projected_));
    check(EPSSetInitialSpace(eps_, 1, &start));
    check(EPSSolve(eps_));
    collect(h, end, request.vectors);
    return end;
  }

 private:
  void collect(Mat h, EigenEnd& end, Eigenvectors vectors) {
    PetscInt converged = 0, restarts = 0;
    check(EPSGetConverged(eps_, &converged));
    check(EPSGetIterationNumber(eps_, &restarts));
    end.restarts = restarts;
    for (PetscInt i = 0; i < std::min<PetscInt>(converged, end.asked); ++i) {
      double value = 0, residual = 0;
      check(EPSGetEigenvalue(eps_, i, &value, nullptr));
      check(EPSComputeError(eps_, i, EPS_ERROR_ABSOLUTE, &residual));
      end.values.push_back(value);
      end.residuals.push_back(residual);
      if (vectors == Eigenvectors::not_kept) continue;
      VecHandle x;
      check(MatCreateVecs(h, x.out(), nullptr));
      check(EPSGetEigenvector(eps_, i, x, nullptr));
      end.vectors.push_back(std::move(x));
    }
  }

  Handle<EPS, EPSDestroy> eps_;
  PetscInt basis_ = 0, projected_ = 0;
};

EigenSolver::EigenSolver(MPI_Comm comm) : solver_(std::make_unique<Solver>(comm)) {}
EigenSolver::~EigenSolver() = default;

ExtremeEigenvalues EigenSolver::solve(Mat h, const EigenRequest& request) {
  PetscInt rows = 0;
  check(MatGetSize(h, &rows, nullptr));
  check_request(request, rows);
  VecHandle start;
  check(MatCreateVecs(h, start.out(), nullptr));
  fill_probe(start, Probe::gaussian, RandomStream(request.seed, "start of the eigenvalue solver"));
  ExtremeEigenvalues found;
  // ||H|| turns the relative tolerance into an absolute one; the eigenvalues found correct the estimate at
  // the end.
  found.norm = norm_estimate(h, start);
  // Of H = 0 residuals are 0.
  const double tolerance = std::max(request.tolerance * found.norm, std::numeric_limits<double>::min());
  found.largest = solver_->solve(h, EPS_LARGEST_REAL, request.largest, start, tolerance, request);
  found.smallest = solver_->solve(h, EPS_SMALLEST_REAL, request.smallest, start, tolerance, request);
  for (const auto* end : {&found.largest, &found.smallest})
    for (const double value : end->values) found.norm = std::max(found.norm, std::abs(value));
  if (found.norm > 0)
    for (auto* end : {&found.largest, &found.smallest})
      for (double& residual : end->residuals) residual /= found.norm;
  return found;
}

}  // namespace fluxformer::spectra
