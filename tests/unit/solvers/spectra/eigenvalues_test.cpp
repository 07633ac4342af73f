// Extreme eigenvalues against spectra that are known, and against a dense solver.

#include "solvers/spectra/eigenvalues.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/error.hpp"
#include "base/petsc_options.hpp"
#include "base/vector_arrays.hpp"
#include "solvers/shell_matrix.hpp"
#include "tests/support/reached.hpp"
#include "tests/support/symmetric_matrix.hpp"

namespace fluxformer::spectra {
namespace {

using namespace test;
using Eigen::MatrixXd;
using Eigen::VectorXd;
using testing::DoubleNear;
using testing::ElementsAre;
using testing::Pointwise;

ExtremeEigenvalues solve(const MatrixXd& h, const EigenRequest& request) {
  return EigenSolver(MPI_COMM_SELF).solve(spread(MPI_COMM_SELF, h), request);
}

std::vector<double> ascending(const VectorXd& sorted, int count) {
  return {sorted.data(), sorted.data() + count};
}

std::vector<double> descending(const VectorXd& sorted, int count) {
  const VectorXd reversed = sorted.reverse();
  return {reversed.data(), reversed.data() + count};
}

/// Expects the ends of `spectrum` (ascending). An eigenvalue is as near as its residual (Weyl).
void expect_ends(const ExtremeEigenvalues& found, const VectorXd& spectrum, const EigenRequest& request) {
  const double near = 2 * request.tolerance * spectrum.cwiseAbs().maxCoeff() + 1e-14;
  EXPECT_THAT(found.largest.values, Pointwise(DoubleNear(near), descending(spectrum, request.largest)));
  EXPECT_THAT(found.smallest.values, Pointwise(DoubleNear(near), ascending(spectrum, request.smallest)));
  EXPECT_TRUE(found.largest.complete());
  EXPECT_TRUE(found.smallest.complete());
  for (const auto* end : {&found.largest, &found.smallest}) {
    ASSERT_EQ(end->residuals.size(), end->values.size());
    // The solver's own estimate is that of its recurrence; the residual adds round-off.
    for (const double residual : end->residuals)
      EXPECT_LE(reached("residual of an eigenvalue / tolerance", residual / request.tolerance), 1.01);
  }
}

TEST(ExtremeEigenvalues, of_a_diagonal_shell_matrix_are_its_ends) {
  constexpr int size = 500;
  VecHandle like;
  check(VecCreateMPI(MPI_COMM_SELF, size, size, like.out()));
  const ShellMatrix diagonal(like, [](Vec in, Vec out) {
    const ReadArray x(in);
    const WriteArray y(out);
    for (int i = 0; i < size; ++i) y.values[i] = (i + 1) * x.values[i];
  });
  const EigenRequest request{.largest = 5, .smallest = 5, .tolerance = 1e-11};
  const auto found = EigenSolver(MPI_COMM_SELF).solve(diagonal.get(), request);
  expect_ends(found, counting(size), request);
  EXPECT_NEAR(found.norm, size, 1e-9);
}

TEST(ExtremeEigenvalues, of_a_rotated_diagonal_matrix_are_its_ends) {
  const EigenRequest request{.largest = 4, .smallest = 6, .tolerance = 1e-11};
  expect_ends(solve(with_spectrum(counting(200), 3), request), counting(200), request);
}

TEST(ExtremeEigenvalues, of_an_indefinite_matrix_are_those_of_the_dense_solver) {
  const MatrixXd h = symmetric_matrix(120, 5);
  const EigenRequest request{.largest = 7, .smallest = 9, .tolerance = 1e-11};
  expect_ends(solve(h, request), eigenvalues(h), request);
}

TEST(ExtremeEigenvalues, can_be_all_eigenvalues) {
  for (const int size : {1, 2, 3, 17}) {
    const MatrixXd h = symmetric_matrix(size, 6);
    const EigenRequest request{.largest = size, .smallest = size, .tolerance = 1e-12};
    expect_ends(solve(h, request), eigenvalues(h), request);
  }
}

TEST(ExtremeEigenvalues, near_zero_converge_relative_to_the_norm) {
  VectorXd values = -counting(80);
  values.tail(20).setZero();  // the largest eigenvalue is 0, twenty times
  const EigenRequest request{.largest = 1, .smallest = 2, .tolerance = 1e-10};
  std::sort(values.data(), values.data() + values.size());
  expect_ends(solve(with_spectrum(values, 7), request), values, request);
}

TEST(ExtremeEigenvalues, of_multiple_ends_are_eigenvalues_and_none_lies_further_out) {
  VectorXd values(90);
  values << VectorXd::Constant(30, -2), VectorXd::Constant(30, 1), VectorXd::Constant(30, 5);
  const auto found = solve(with_spectrum(values, 8), {.largest = 4, .smallest = 4, .tolerance = 1e-10});
  for (const auto* end : {&found.largest, &found.smallest}) {
    EXPECT_TRUE(end->complete());
    for (const double value : end->values)
      EXPECT_LT((values.array() - value).abs().minCoeff(), 1e-9) << value;
  }
  EXPECT_NEAR(found.largest.values.front(), 5, 1e-9);
  EXPECT_NEAR(found.smallest.values.front(), -2, 1e-9);
}

TEST(ExtremeEigenvalues, of_the_zero_operator_are_zero) {
  for (const int size : {1, 10}) {
    const auto found = solve(MatrixXd::Zero(size, size), {.largest = 1, .smallest = 1});
    EXPECT_THAT(found.largest.values, ElementsAre(0.0));
    EXPECT_THAT(found.smallest.residuals, ElementsAre(0.0));
    EXPECT_EQ(found.norm, 0);
  }
}

TEST(ExtremeEigenvalues, of_the_identity_are_one) {
  const auto found = solve(MatrixXd::Identity(30, 30), {.largest = 2, .smallest = 3});
  EXPECT_THAT(found.largest.values, Pointwise(DoubleNear(1e-13), {1.0, 1.0}));
  EXPECT_THAT(found.smallest.values, Pointwise(DoubleNear(1e-13), {1.0, 1.0, 1.0}));
}

TEST(Eigenvectors, are_orthonormal_and_have_the_residuals_that_are_told) {
  const MatrixXd h = symmetric_matrix(60, 9);
  const EigenRequest request{.largest = 3, .smallest = 3, .tolerance = 1e-6, .vectors = Eigenvectors::kept};
  const auto found = solve(h, request);
  const double norm = eigenvalues(h).cwiseAbs().maxCoeff();
  for (const auto* end : {&found.largest, &found.smallest}) {
    ASSERT_EQ(end->vectors.size(), 3U);
    for (std::size_t i = 0; i < 3; ++i) {
      const VectorXd x = whole(end->vectors[i]);
      const double residual = (h * x - end->values[i] * x).norm() / norm;
      // The norm is an eigenvalue found to the square of the tolerance, products have round-off.
      EXPECT_NEAR(end->residuals[i], residual, 1e-14);
      for (std::size_t j = 0; j <= i; ++j) EXPECT_NEAR(x.dot(whole(end->vectors[j])), i == j ? 1 : 0, 1e-13);
    }
  }
}

TEST(ExtremeEigenvalues, come_again_bit_for_bit_with_the_same_seed) {
  const MatrixXd h = symmetric_matrix(60, 9);
  EigenRequest request{.largest = 3, .smallest = 3, .tolerance = 1e-4};
  const auto once = solve(h, request), again = solve(h, request);
  EXPECT_EQ(once.largest.values, again.largest.values);
  EXPECT_EQ(once.smallest.values, again.smallest.values);
  request.seed = 2;
  EXPECT_NE(once.largest.residuals, solve(h, request).largest.residuals);
}

TEST(ExtremeEigenvalues, do_not_depend_on_what_the_solver_did_before) {
  EigenSolver solver(MPI_COMM_SELF);
  const MatHandle big = spread(MPI_COMM_SELF, symmetric_matrix(80, 1));
  const MatHandle small = spread(MPI_COMM_SELF, symmetric_matrix(7, 2));
  const EigenRequest request{.largest = 2, .smallest = 2};
  const auto first = solver.solve(big, request);
  EXPECT_EQ(solver.solve(small, request).largest.values,
            EigenSolver(MPI_COMM_SELF).solve(small, request).largest.values);
  EXPECT_EQ(solver.solve(big, request).largest.values, first.largest.values);
}

TEST(ExtremeEigenvalues, that_did_not_converge_are_left_out_and_the_others_told) {
  const EigenRequest request{.largest = 12, .tolerance = 1e-12, .restarts = 2, .basis = 27};
  // One eigenvalue stands apart and converges at once; the others lie close.
  VectorXd values = counting(400);
  values(399) = 4000;
  const auto found = solve(with_spectrum(values, 4), request);
  EXPECT_FALSE(found.largest.complete());
  EXPECT_EQ(found.largest.asked, 12);
  EXPECT_EQ(found.largest.restarts, 2);
  ASSERT_GE(found.largest.values.size(), 1U);
  EXPECT_LT(found.largest.values.size(), 12U);
  EXPECT_NEAR(found.largest.values[0], 4000, 1e-8);
  EXPECT_TRUE(found.smallest.complete());
  EXPECT_THAT(found.smallest.values, ElementsAre());
}

TEST(ExtremeEigenvalues, refuse_more_than_there_are_and_other_nonsense) {
  const MatrixXd h = symmetric_matrix(4, 1);
  EXPECT_NO_THROW(solve(h, {.largest = 4}));
  EXPECT_THROW(solve(h, {.largest = 5}), BadInput);
  EXPECT_THROW(solve(h, {.smallest = 5}), BadInput);
  EXPECT_THROW(solve(h, {.largest = -1}), BadInput);
  EXPECT_THROW(solve(h, {.largest = 1, .tolerance = 0}), BadInput);
  EXPECT_THROW(solve(h, {.largest = 1, .tolerance = std::numeric_limits<double>::quiet_NaN()}), BadInput);
}

TEST(ExtremeEigenvalues, of_products_that_are_not_finite_fail) {
  MatrixXd h = symmetric_matrix(4, 1);
  h(1, 1) = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THROW(solve(h, {.largest = 1}), NumericalFailure);
}

TEST(OptionsOfTheEigenSolver, are_looked_up_when_it_is_made) {
  const SolverOptions options = {
      {"eps_ncv", "33"}, {"eps_krylovschur_restart", "0.4"}, {"bv_type", "mat"}, {"eps_nonsense", "1"}};
  set_petsc_options(options);
  EigenSolver solver(MPI_COMM_SELF);
  EXPECT_THAT(remove_unused_petsc_options(options), ElementsAre("eps_nonsense"));
  const EigenRequest request{.largest = 2, .tolerance = 1e-11};
  expect_ends(solver.solve(spread(MPI_COMM_SELF, with_spectrum(counting(50), 1)), request), counting(50),
              request);
  for (const auto& [name, value] : options) check(PetscOptionsClearValue(nullptr, ("-" + name).c_str()));
}

}  // namespace
}  // namespace fluxformer::spectra
