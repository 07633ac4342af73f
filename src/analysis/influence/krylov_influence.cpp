#include "analysis/influence/krylov_influence.hpp"

#include <petscksp.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "base/error.hpp"
#include "base/handle.hpp"
#include "base/mpi.hpp"
#include "base/option.hpp"
#include "base/vector_arrays.hpp"
#include "solvers/shell_matrix.hpp"
#include "solvers/spectra/eigenvalues.hpp"
#include "solvers/spectra/symmetric_operator.hpp"

namespace fluxformer::influence {
/// The curvature C over a block, as a matrix, and a count of products with it.
class BlockOfCurvature {
 public:
  BlockOfCurvature(hessian::TrainingHessian& of, MPI_Comm comm, const spectra::Block& block, Curvature part)
      : whole_(comm, static_cast<PetscInt>(of.size()),
               [this, &of, part](std::span<double> in, std::span<double> out) {
                 ++products;
                 of.multiply(part, in, out);
               }),
        part_(spectra::restricted(whole_.get(), block)) {}
  Mat get() const { return part_; }
  int products = 0;

 private:
  spectra::ReplicatedOperator whole_;
  MatHandle part_;
};

namespace {

VecHandle vector_of(Mat matrix) {
  VecHandle vector;
  check(MatCreateVecs(matrix, vector.out(), nullptr));
  return vector;
}

double norm_of(Vec vector) {
  double norm = 0;
  check(VecNorm(vector, NORM_2, &norm));
  return norm;
}

void check_request(const KrylovRequest& request) {
  const auto refuse = [](bool bad, const std::string& what) {
    if (bad) throw BadInput("influence by a Krylov method with " + what);
  };
  refuse(!(request.damping >= 0) || !std::isfinite(request.damping),
         "the damping " + value_text(request.damping));
  refuse(!(request.tolerance > 0), "the tolerance " + value_text(request.tolerance));
  refuse(request.products < 1, std::to_string(request.products) + " products");
  refuse(request.together < 1, std::to_string(request.together) + " samples together");
}

}  // namespace

class KrylovSolver::Solver {
 public:
  Solver(hessian::TrainingHessian& of, MPI_Comm comm, const spectra::Block& block,
         const KrylovRequest& request)
      : comm_(comm),
        request_(request),
        curvature_(of, comm, block, request.part),
        right_(vector_of(curvature_.get())),
        rest_(vector_of(curvature_.get())),
        x_(vector_of(curvature_.get())),
        step_(vector_of(curvature_.get())),
        // C + d
        damped_(right_, [this](Vec in, Vec out) {
          check(MatMult(curvature_.get(), in, out));
          check(VecAXPY(out, request_.damping, in));
        }) {
    const KSPType method = request.part == Curvature::gauss_newton ? KSPCG : KSPMINRES;
    check(KSPCreate(comm, ksp_.out()));
    check(KSPSetOperators(ksp_, damped_.get(), damped_.get()));
    check(KSPSetType(ksp_, method));
    check(KSPSetFromOptions(ksp_));
    // What the request says counts more than options.
    check(KSPSetType(ksp_, method));
    check(KSPSetInitialGuessNonzero(ksp_, PETSC_FALSE));
    check(KSPSetErrorIfNotConverged(ksp_, PETSC_FALSE));
    PC none = nullptr;
    check(KSPGetPC(ksp_, &none));
    check(PCSetType(none, PCNONE));
  }

  KrylovSolution solve(std::span<const double> gradient) {
    KrylovSolution solution{.x = std::vector<double>(gradient.size(), 0.0), .products = 0, .residual = 0};
    const double size = set_right(gradient);
    if (size == 0) return solution;
    curvature_.products = 0;
    check(VecZeroEntries(x_));
    check(VecCopy(right_, rest_));
    solution.residual = 1;
    // Recurrences of the methods drift away from the true residual, which the next round begins with.
    for (int round = 0; !(solution.residual <= request_.tolerance); ++round) {
      const int left = request_.products - curvature_.products;
      if (round == rounds || left <= 1 || !std::isfinite(solution.residual)) fail(solution.residual);
      improve(0.9 * request_.tolerance / solution.residual, left - 1);
      solution.residual = norm_of(rest_);
    }
    solution.products = curvature_.products;
    collect(size, solution.x);
    return solution;
  }

 private:
  static constexpr int rounds = 5;

  /// right := g / |g|, so that no method takes a small g for 0; returns |g|.
  double set_right(std::span<const double> gradient) {
    PetscInt first = 0, end = 0;
    check(VecGetOwnershipRange(right_, &first, &end));
    std::copy(gradient.begin() + first, gradient.begin() + end, WriteArray(right_).values);
    const double size = norm_of(right_);
    if (!std::isfinite(size)) throw NumericalFailure("influence: the gradient of a loss is not finite");
    if (size > 0) check(VecScale(right_, 1 / size));
    return size;
  }

  /// x += a solution for the rest to a relative tolerance; rest := right - (C + d) x.
  void improve(double tolerance, int products) {
    constexpr double least = 1e-300, growth = 1e100;  // an absolute tolerance, and a limit: neither is to act
    check(KSPSetTolerances(ksp_, std::min(tolerance, 0.9), least, growth, products));
    check(KSPSolve(ksp_, rest_, step_));
    check(KSPGetConvergedReason(ksp_, &reason_));
    check(VecAXPY(x_, 1, step_));
    check(MatMult(damped_.get(), x_, rest_));
    check(VecAYPX(rest_, -1, right_));
  }

  [[noreturn]] void fail(double residual) const {
    const char* const method = request_.part == Curvature::gauss_newton ? "conjugate gradients" : "MINRES";
    throw NumericalFailure(std::string("influence: ") + method + " with the damping " +
                           value_text(request_.damping) + " reached a residual of " + value_text(residual) +
                           " instead of " + value_text(request_.tolerance) + " times the gradient in " +
                           std::to_string(curvature_.products) + " products (" +
                           KSPConvergedReasons[reason_] +
                           "); take a larger damping or a larger tolerance, or allow more products");
  }

  /// whole := size x, on every rank.
  void collect(double size, std::span<double> whole) const {
    PetscInt first = 0, end = 0;
    check(VecGetOwnershipRange(x_, &first, &end));
    const ReadArray own(x_);
    for (PetscInt i = first; i < end; ++i) whole[i] = size * own.values[i - first];
    sum_over_ranks(whole, comm_);
  }

  MPI_Comm comm_;
  KrylovRequest request_;
  BlockOfCurvature curvature_;
  VecHandle right_, rest_, x_, step_;  // right-hand side of norm 1, its rest, the solution, a part of it
  ShellMatrix damped_;
  Handle<KSP, KSPDestroy> ksp_;
  KSPConvergedReason reason_ = KSP_CONVERGED_ITERATING;
};

KrylovSolver::KrylovSolver(hessian::TrainingHessian& of, MPI_Comm comm, const spectra::Block& block,
                           const KrylovRequest& request) {
  check_request(request);
  solver_ = std::make_unique<Solver>(of, comm, block, request);
}

KrylovSolver::~KrylovSolver() = default;

KrylovSolution KrylovSolver::solve(std::span<const double> gradient) {
  return solver_->solve(gradient);
}

KrylovScores krylov_influence(hessian::TrainingHessian& of, SampleGradients& train, SampleGradients& test,
                              const KrylovRequest& request, const SolveVisitor& after_solve) {
  require_one_block(train, test);
  const MPI_Comm comm = train.comm();
  KrylovSolver solver(of, comm, train.block(), request);
  KrylovScores scores;
  scores.pairs = RowMatrix::Zero(test.samples(), train.samples());
  // Test gradients stay on the ranks that keep them.
  std::vector<std::vector<double>> right(test.samples());
  SampleNumbersOf of_train(train.samples()), of_test(test.samples());
  test.for_each([&](const SampleGradient& sample) {
    if (!test.keeps()) return;
    right[sample.place].assign(sample.gradient.begin(), sample.gradient.end());
    of_test.add(sample);
  });
  RowMatrix solutions;
  for (Index first = 0; first < test.samples(); first += solutions.rows()) {
    solutions.resize(std::min(Index{request.together}, test.samples() - first), train.size());
    for (Index k = 0; k < solutions.rows(); ++k) {
      auto& gradient = right[first + k];
      gradient.resize(train.size(), 0.0);  // zeros on the ranks that do not keep it
      sum_over_ranks(gradient, comm);
      const auto solution = solver.solve(gradient);
      const Eigen::Map<const Eigen::VectorXd> x(solution.x.data(), std::ssize(solution.x));
      solutions.row(k) = x;
      scores.self.push_back(x.dot(Eigen::Map<const Eigen::VectorXd>(gradient.data(), x.size())));
      scores.products.push_back(solution.products);
      scores.residual.push_back(solution.residual);
      std::vector<double>().swap(gradient);
      if (after_solve) after_solve(first + k + 1);
    }
    // I(i, t) = -x_t . g_i for all t of the group
    train.for_each([&](const SampleGradient& sample) {
      if (!train.keeps()) return;
      const Eigen::Map<const Eigen::VectorXd> g(sample.gradient.data(), std::ssize(sample.gradient));
      scores.pairs.col(sample.place).segment(first, solutions.rows()).noalias() = -(solutions * g);
      if (first == 0) of_train.add(sample);
    });
  }
  sum_over_ranks({scores.pairs.data(), scores.pairs.data() + scores.pairs.size()}, comm);
  scores.train = of_train.gathered(comm);
  scores.test = of_test.gathered(comm);
  return scores;
}

CurvatureEnds curvature_ends(hessian::TrainingHessian& of, MPI_Comm comm, const spectra::Block& block,
                             Curvature part) {
  const BlockOfCurvature matrix(of, comm, block, part);
  const int smallest = part == Curvature::hessian ? 1 : 0;
  const auto found = spectra::EigenSolver(comm).solve(matrix.get(), {.largest = 1, .smallest = smallest});
  if (!found.largest.complete() || !found.smallest.complete())
    throw NumericalFailure("influence: the extreme eigenvalues of the curvature did not converge");
  return {found.largest.values.front(), smallest > 0 ? found.smallest.values.front() : 0.0};
}

}  // namespace fluxformer::influence
