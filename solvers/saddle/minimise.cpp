#include "solvers/saddle/minimise.hpp"

#include <petsctao.h>

#include <Eigen/Cholesky>
#include <algorithm>
#include <array>
#include <cmath>
#include <exception>
#include <limits>
#include <utility>

#include "base/error.hpp"
#include "base/handle.hpp"
#include "base/index.hpp"
#include "base/mpi.hpp"
#include "base/vector_arrays.hpp"

namespace fluxformer::saddle {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

/// A gradient this small, measured by its scale, is round-off.
constexpr double round_off = 1e-13;

double largest(const std::vector<double>& values) {
  double most = 0;
  for (const double value : values) most = std::max(most, std::abs(value));
  return most;
}

/// The function f with a count of its calls.
struct Counted {
  const Function& f;
  int calls = 0;
  double operator()(const std::vector<double>& x, std::vector<double>& gradient) {
    ++calls;
    return f(x, gradient);
  }
};

PetscErrorCode evaluate(Tao /*tao*/, Vec at, PetscReal* value, Vec slope, void* context) {
  return guarded([&] {
    const ReadArray x(at);
    const WriteArray to(slope);
    PetscInt size = 0;
    check(VecGetLocalSize(at, &size));
    std::vector<double> gradient(size);
    *value = (*static_cast<Counted*>(context))(std::vector<double>(x.values, x.values + size), gradient);
    std::ranges::copy(gradient, to.values);
  });
}

/// x becomes TAO's solution. Returns the number of iterations.
int quasi_newton(Counted& f, std::vector<double>& x, const MinimumRequest& request) {
  const Index size = x.size();
  VecHandle at;
  check(VecCreateSeq(PETSC_COMM_SELF, size, at.out()));
  std::ranges::copy(x, WriteArray(at).values);
  Handle<Tao, TaoDestroy> tao;
  check(TaoCreate(PETSC_COMM_SELF, tao.out()));
  check(TaoSetType(tao, TAOLMVM));
  check(TaoSetObjectiveAndGradient(tao, nullptr, evaluate, &f));
  check(TaoSetSolution(tao, at));
  // TAO measures by the 2-norm, which is no smaller than the largest entry.
  check(TaoSetTolerances(tao, request.tolerance * request.scale / 10, 0, 0));
  check(TaoSetMaximumIterations(tao, request.iterations));
  check(TaoSetMaximumFunctionEvaluations(tao, 20 * request.iterations));
  // Backtracking can step back from where f is infinite; the default, Moré and Thuente's, gives up there.
  TaoLineSearch search = nullptr;
  check(TaoGetLineSearch(tao, &search));
  check(TaoLineSearchSetType(search, TAOLINESEARCHARMIJO));
  check(TaoSetFromOptions(tao));
  check(
      TaoSolve(tao));  // where its line search finds nothing lower, it stops: `minimise` judges the gradient
  PetscInt iterations = 0;
  check(TaoGetIterationNumber(tao, &iterations));
  const ReadArray found(at);
  std::copy_n(found.values, x.size(), x.begin());
  return iterations;
}

/// The Hessian by central differences of the gradient, symmetrised: H_ji = (g_j(x + h e_i) - g_j(x - h e_i))
/// / 2h. The step h ~ eps^(1/3) balances truncation and round-off.
MatrixXd hessian(Counted& f, const std::vector<double>& x) {
  const Index size = x.size();
  const double relative = std::cbrt(std::numeric_limits<double>::epsilon());
  MatrixXd h(size, size);
  std::vector<double> moved = x, after(x.size()), before(x.size());
  for (Index i = 0; i < size; ++i) {
    const double step = relative * std::max(1.0, std::abs(x[i]));
    moved[i] = x[i] + step;
    f(moved, after);
    moved[i] = x[i] - step;
    f(moved, before);
    moved[i] = x[i];
    for (Index j = 0; j < size; ++j) h(j, i) = (after[j] - before[j]) / (2 * step);
  }
  return (h + h.transpose()) / 2;
}

/// Takes one Newton step x -= H^-1 g. Returns false, and changes nothing, if it does not make the gradient
/// smaller.
bool newton(Counted& f, Minimum& best, std::vector<double>& gradient, double scale) {
  // Without a Cholesky factor the Hessian is not positive definite, and the step no descent.
  const Eigen::LLT<MatrixXd> factor(hessian(f, best.x));
  if (factor.info() != Eigen::Success) return false;
  const Index size = best.x.size();
  const VectorXd step = factor.solve(Eigen::Map<const VectorXd>(gradient.data(), size));
  std::vector<double> moved = best.x, slope(best.x.size());
  for (Index k = 0; k < std::ssize(moved); ++k) moved[k] -= step[k];
  const double value = f(moved, slope), steepest = largest(slope) / scale;
  if (!std::isfinite(value) || !(steepest < best.gradient)) return false;
  best.x = std::move(moved);
  best.value = value;
  best.gradient = steepest;
  gradient = std::move(slope);
  return true;
}

}  // namespace

Minimum minimise(const Function& function, std::vector<double> start, const MinimumRequest& request) {
  Counted f{function};
  Minimum best{.x = std::move(start)};
  std::vector<double> gradient(best.x.size());
  best.value = f(best.x, gradient);
  if (std::isfinite(best.value)) {  // TAO cannot begin elsewhere
    best.iterations = quasi_newton(f, best.x, request);
    best.value = f(best.x, gradient);
  }
  best.gradient = largest(gradient) / request.scale;
  if (std::isfinite(best.value)) {
    for (int k = 0; k < request.newton_steps && best.gradient > round_off; ++k)
      if (!newton(f, best, gradient, request.scale)) break;
    best.converged = best.gradient <= request.tolerance;
  }
  best.evaluations = f.calls;
  return best;
}

namespace {

/// The messages of the first rank to the others: the next x, or that there is none.
class Orders {
 public:
  explicit Orders(MPI_Comm comm) : comm_(comm) {}

  /// Sends x from the first rank to the others. False at the end.
  bool next(std::vector<double>& x, int goes_on = 1) const {
    check_mpi(MPI_Bcast(&goes_on, 1, MPI_INT, 0, comm_));
    if (goes_on == 1) share(x.data(), x.size());
    return goes_on == 1;
  }
  void end() const {
    std::vector<double> none;
    next(none, 0);
  }
  void share(double* numbers, Index count) const {
    check_mpi(MPI_Bcast(numbers, count, MPI_DOUBLE, 0, comm_));
  }

 private:
  MPI_Comm comm_;
};

/// The part of the first rank: minimises, and tells the others which x comes next.
Minimum lead(MPI_Comm comm, const Orders& orders, const Function& f, std::vector<double> start,
             const MinimumRequest& request) {
  bool inside = false;
  const auto asked = [&](const std::vector<double>& x, std::vector<double>& gradient) {
    auto told = x;
    orders.next(told);
    inside = true;
    const double value = f(x, gradient);
    inside = false;
    return value;
  };
  Minimum least;
  std::exception_ptr failed;
  try {
    least = minimise(asked, std::move(start), request);
  } catch (const std::runtime_error&) {
    failed = std::current_exception();
  } catch (const std::logic_error&) {
    failed = std::current_exception();
  }
  if (failed && inside) std::rethrow_exception(failed);  // f has thrown on all ranks
  orders.end();
  collectively(comm, [&] {
    if (failed) std::rethrow_exception(failed);
  });
  return least;
}

/// The part of any other rank: evaluates f with the first one. `gradient` is its place.
Minimum follow(MPI_Comm comm, const Orders& orders, const Function& f, std::vector<double> start,
               std::vector<double> gradient) {
  Minimum least{.x = std::move(start)};
  while (orders.next(least.x)) f(least.x, gradient);
  collectively(comm, [] {});
  return least;
}

}  // namespace

Minimum minimise_together(MPI_Comm comm, const Function& f, std::vector<double> start,
                          const MinimumRequest& request) {
  if (mpi::size(comm) == 1) return minimise(f, std::move(start), request);
  const Orders orders(comm);
  std::vector<double> gradient;
  collectively(comm, [&] { gradient.resize(start.size()); });
  auto least = mpi::is_root(comm) ? lead(comm, orders, f, std::move(start), request)
                                  : follow(comm, orders, f, std::move(start), std::move(gradient));
  orders.share(least.x.data(), least.x.size());
  std::array<double, 5> numbers{least.value, least.gradient, static_cast<double>(least.iterations),
                                static_cast<double>(least.evaluations), least.converged ? 1.0 : 0.0};
  orders.share(numbers.data(), numbers.size());
  least.value = numbers[0];
  least.gradient = numbers[1];
  least.iterations = numbers[2];
  least.evaluations = numbers[3];
  least.converged = numbers[4] == 1;
  return least;
}

}  // namespace fluxformer::saddle
