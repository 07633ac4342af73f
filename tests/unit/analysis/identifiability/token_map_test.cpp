// Ridge regression with intercept: exact maps, the normal equations, shrinkage.

#include "analysis/identifiability/token_map.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "analysis/identifiability/nearest_tokens.hpp"
#include "base/error.hpp"
#include "tests/support/test_matrices.hpp"
#include "tests/unit/analysis/identifiability/token_case.hpp"

namespace fluxformer::identifiability {
namespace {

Matrix product(const Matrix& a, const Matrix& b) {
  return test::product(a, b);
}

/// The moments of samples of 10, 20, 30, ... tokens.
RidgeSums sums_of(const Matrix& u, const Matrix& x) {
  RidgeSums sums(static_cast<int>(u.cols()), static_cast<int>(x.cols()));
  Eigen::Index first = 0;
  for (Eigen::Index count = 10; first < u.rows(); first += count, count += 10) {
    count = std::min(count, u.rows() - first);
    sums.add(u.middleRows(first, count), x.middleRows(first, count));
  }
  sums.reduce(MPI_COMM_SELF);
  return sums;
}

double mean_square(const LinearMap& map, const Matrix& u, const Matrix& x) {
  return (map(u) - x).squaredNorm() / static_cast<double>(u.rows());
}

/// A square matrix with singular values from 1 down to 1/condition.
Matrix with_condition(int d, double condition) {
  const Matrix left = test::orthogonal_factor(normal_matrix(d, d, 11)),
               right = test::orthogonal_factor(normal_matrix(d, d, 12));
  Eigen::VectorXd values(d);
  for (int k = 0; k < d; ++k) values[k] = std::pow(condition, -k / (d - 1.0));
  return product(left * values.asDiagonal(), right);
}

TEST(LinearMap, without_ridge_undoes_an_invertible_map) {
  constexpr int d = 12;
  for (const double condition : {1.0, 30.0, 1e3}) {
    const Matrix x = normal_matrix(400, d, 1).rowwise() + 2 * normal_matrix(1, d, 2).row(0);
    const Matrix u = product(x, with_condition(d, condition)).rowwise() + normal_matrix(1, d, 3).row(0);
    const auto map = sums_of(u, x).solve({0})[0];
    // eps cond(U)^2 times the number of channels, times 1 + |mean|^2 / variance, about 10, times the round-off of sums of
    // 400 tokens, about 10.
    const double bound = 2.2e-16 * condition * condition * d * 100;
    const Matrix fresh = normal_matrix(50, d, 4);
    const Matrix moved =
        product(fresh, with_condition(d, condition)).rowwise() + normal_matrix(1, d, 3).row(0);
    EXPECT_LT((map(moved) - fresh).norm() / fresh.norm(), bound) << condition;
    EXPECT_EQ(nearest_tokens(map(moved), fresh, TokenDistance::l2).rate, 1);
    EXPECT_LT(nearest_tokens(moved, fresh, TokenDistance::l2).rate, 0.9);
  }
}

TEST(LinearMap, solves_the_normal_equations_for_every_lambda) {
  const Matrix u = normal_matrix(90, 6, 1).array() + 0.7,
               x = product(u, normal_matrix(6, 4, 2)) + normal_matrix(90, 4, 3);
  const std::vector<double> lambdas{0, 1e-3, 0.1, 10};
  const auto maps = sums_of(u, x).solve(lambdas);
  const Matrix uc = u.rowwise() - u.colwise().mean(), xc = x.rowwise() - x.colwise().mean();
  const Matrix c = product(uc.transpose(), uc) / 90, b = product(uc.transpose(), xc) / 90;
  for (std::size_t k = 0; k < lambdas.size(); ++k) {
    const Matrix& g = maps[k].slope;
    // 90 tokens and 6 channels of the order of 1: some tens of round-offs.
    EXPECT_LT((product(c, g) + lambdas[k] * c.trace() / 6 * g - b).norm(), 1e-13) << lambdas[k];
    EXPECT_LT((maps[k](u).colwise().mean() - x.colwise().mean()).norm(), 1e-13);
    if (k == 0) continue;
    EXPECT_LT(g.norm(), maps[k - 1].slope.norm());
    EXPECT_GT(mean_square(maps[k], u, x), mean_square(maps[k - 1], u, x));
  }
}

TEST(LinearMap, of_states_without_direction_has_the_least_norm) {
  // The third channel is the sum of the others: C is singular, and G has nothing along (1, 1, -1).
  Matrix u = normal_matrix(60, 3, 1);
  u.col(2) = u.col(0) + u.col(1);
  const Matrix x = product(u, normal_matrix(3, 2, 2));
  const auto map = sums_of(u, x).solve({0})[0];
  EXPECT_LT(std::sqrt(mean_square(map, u, x)), 1e-13);
  EXPECT_LT((map.slope.row(0) + map.slope.row(1) - map.slope.row(2)).norm(), 1e-13);
}

TEST(LinearMap, of_constant_states_is_the_mean) {
  const Matrix u = Matrix::Constant(40, 3, 1), x = normal_matrix(40, 2, 1);
  const auto maps = sums_of(u, x).solve({0, 1});
  for (const auto& map : maps) EXPECT_LT((map(u).row(0) - x.colwise().mean()).norm(), 1e-14);
}

TEST(LinearMap, with_much_ridge_is_the_mean) {
  const Matrix u = normal_matrix(40, 3, 1), x = normal_matrix(40, 2, 2);
  const auto map = sums_of(u, x).solve({1e12})[0];
  EXPECT_LT(map.slope.norm(), 1e-11);
}

TEST(LinearMap, does_not_depend_on_units) {
  const Matrix u = normal_matrix(80, 5, 1), x = normal_matrix(80, 3, 2);
  const auto one = sums_of(u, x).solve({0.3})[0], other = sums_of(1e6 * u, x).solve({0.3})[0];
  EXPECT_LT((one(u) - other(1e6 * u)).norm(), 1e-12);
}

TEST(RidgeSums, about_the_mean_lose_no_digits_to_it) {
  const Matrix x = normal_matrix(200, 3, 1);
  const Matrix u = product(x, normal_matrix(3, 3, 2)).array() + 1e6;
  RidgeSums about_mean(u.colwise().mean(), x.colwise().mean());
  about_mean.add(u, x);
  about_mean.reduce(MPI_COMM_SELF);
  const auto error = [&](const RidgeSums& sums) { return std::sqrt(mean_square(sums.solve({0})[0], u, x)); };
  // The states themselves are rounded to 1e-10; moments about 0 have 1e12 eps = 1e-4.
  EXPECT_LT(error(about_mean), 1e-8);
  EXPECT_GT(error(sums_of(u, x)), 1e-6);
}

TEST(RidgeSums, know_means_and_variances) {
  const Matrix u = 3 * normal_matrix(50, 4, 1), x = normal_matrix(50, 2, 2).array() + 5;
  const auto sums = sums_of(u, x);
  const auto variance = [](const Matrix& m) {
    return (m.rowwise() - m.colwise().mean()).squaredNorm() / static_cast<double>(m.size());
  };
  EXPECT_EQ(sums.tokens(), 50);
  EXPECT_LT((sums.mean_state() - u.colwise().mean()).norm(), 1e-14);
  EXPECT_LT((sums.mean_description() - x.colwise().mean()).norm(), 1e-14);
  EXPECT_NEAR(sums.state_variance(), variance(u), 1e-13);
  EXPECT_NEAR(sums.description_variance(), variance(x), 1e-13);
}

TEST(RidgeSums, refuse_what_does_not_fit) {
  RidgeSums sums(3, 2);
  EXPECT_THROW(sums.add(normal_matrix(5, 4, 1), normal_matrix(5, 2, 1)), BadInput);
  EXPECT_THROW(sums.add(normal_matrix(5, 3, 1), normal_matrix(4, 2, 1)), BadInput);
  sums.reduce(MPI_COMM_SELF);
  EXPECT_THROW(sums.solve({0}), NumericalFailure);  // no tokens
  EXPECT_THROW(sums_of(normal_matrix(9, 3, 1), normal_matrix(9, 2, 1)).solve({-1}), BadInput);
  EXPECT_THROW(sums_of(normal_matrix(9, 3, 1), normal_matrix(9, 2, 1)).solve({NAN}), BadInput);
  EXPECT_THROW(sums_of(Matrix::Constant(9, 3, NAN), normal_matrix(9, 2, 1)).solve({0}), NumericalFailure);
}

}  // namespace
}  // namespace fluxformer::identifiability
