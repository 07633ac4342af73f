// Operators made of others against the matrices they stand for.

#include "solvers/spectra/symmetric_operator.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.hpp"
#include "solvers/spectra/eigenvalues.hpp"
#include "tests/support/symmetric_matrix.hpp"

namespace fluxformer::spectra {
namespace {

using namespace test;
using Eigen::MatrixXd;
using Eigen::VectorXd;

TEST(RestrictedOperator, is_the_submatrix) {
  const MatrixXd h = symmetric_matrix(11, 1);
  const MatHandle matrix = spread(MPI_COMM_SELF, h);
  EXPECT_EQ(whole(restricted(matrix, {{3, 8}})), h.block(3, 3, 5, 5));
  EXPECT_EQ(whole(restricted(matrix, {{0, 11}})), h);
  EXPECT_EQ(whole(restricted(matrix, {{10, 11}})), h.block(10, 10, 1, 1));
  const std::vector<int> indices = {0, 4, 5, 6, 9, 10};
  EXPECT_EQ(whole(restricted(matrix, {{0, 1}, {4, 7}, {9, 11}})), h(indices, indices));
  for (const Block& bad : {Block{}, Block{{0, 12}}, Block{{4, 4}}, Block{{4, 6}, {1, 2}}})
    EXPECT_THROW(restricted(matrix, bad), BadInput);
}

TEST(RestrictedOperator, follows_its_matrix) {
  const MatHandle matrix = spread(MPI_COMM_SELF, symmetric_matrix(6, 1));
  const MatHandle part = restricted(matrix, {{2, 5}});
  check(MatScale(matrix, 3));
  EXPECT_EQ(whole(part), whole(matrix).block(2, 2, 3, 3));
}

TEST(PreconditionedOperator, has_the_eigenvalues_of_the_preconditioned_matrix) {
  const MatrixXd h = symmetric_matrix(25, 2);
  const VectorXd d = VectorXd::LinSpaced(25, 0.1, 4).array().square();
  const MatHandle matrix = spread(MPI_COMM_SELF, h);
  const PreconditionedOperator scaled(matrix, spread(matrix, d));
  const VectorXd s = d.cwiseSqrt().cwiseInverse();
  const MatrixXd expected = s.asDiagonal() * h * s.asDiagonal();
  EXPECT_LT((whole(scaled.get()) - expected).norm(), 1e-14 * expected.norm());
  // D^-1 H has the same: x = D^-1/2 y.
  EigenSolver solver(MPI_COMM_SELF);
  const auto found =
      solver.solve(scaled.get(), {.largest = 1, .tolerance = 1e-12, .vectors = Eigenvectors::kept});
  const VectorXd x = s.cwiseProduct(whole(found.largest.vectors[0]));
  const double lambda = found.largest.values[0];
  EXPECT_LT((h * x - lambda * d.cwiseProduct(x)).norm(), 1e-10 * (lambda * d.cwiseProduct(x)).norm());
}

TEST(PreconditionedOperator, refuses_a_diagonal_that_is_not_positive_and_finite) {
  const MatHandle matrix = spread(MPI_COMM_SELF, symmetric_matrix(3, 2));
  for (const double bad :
       {0.0, -1.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()})
    EXPECT_THROW(PreconditionedOperator(matrix, spread(matrix, VectorXd{{1, bad, 1}})), BadInput) << bad;
}

TEST(ReplicatedOperator, is_the_product_it_is_made_of) {
  const MatrixXd h = symmetric_matrix(9, 3);
  const ReplicatedOperator matrix(MPI_COMM_SELF, 9, [&](std::span<const double> in, std::span<double> out) {
    Eigen::Map<VectorXd>(out.data(), 9) = h * Eigen::Map<const VectorXd>(in.data(), 9);
  });
  EXPECT_LT((whole(matrix.get()) - h).norm(), 1e-15);
  EXPECT_THROW(ReplicatedOperator(MPI_COMM_SELF, 0, {}), BadInput);
}

TEST(ReplicatedOperator, hands_on_what_its_product_throws) {
  const ReplicatedOperator matrix(MPI_COMM_SELF, 3, [](std::span<const double>, std::span<double>) {
    throw NumericalFailure("the loss overflows");
  });
  EXPECT_THROW(EigenSolver(MPI_COMM_SELF).solve(matrix.get(), {.largest = 1}), NumericalFailure);
  EXPECT_THROW(EigenSolver(MPI_COMM_SELF).solve(restricted(matrix.get(), {{0, 2}}), {.largest = 1}),
               NumericalFailure);
}

}  // namespace
}  // namespace fluxformer::spectra
