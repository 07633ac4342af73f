// Kernels between paths against sums over pairs, and the predictor against the definition.

#include "analysis/paths/path_kernels.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"
#include "tests/support/symmetric_matrix.hpp"
#include "tests/unit/analysis/paths/random_paths.hpp"

namespace fluxformer::paths {
namespace {

using namespace test;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr int examples = 7, others = 5, paths = 3, path_kernels_dimension = 4;
constexpr double variance = 1.7;
// Sums of some ten products of numbers of size 1.
constexpr double path_kernels_round_off = 1e-13;

/// C_{pi pi'}(mu, nu)
double block(const RowMatrix& a, const RowMatrix& b, int p, int q, int mu, int nu) {
  double sum = 0;
  for (int d = 0; d < path_kernels_dimension; ++d)
    sum += a(mu, p * path_kernels_dimension + d) * b(nu, q * path_kernels_dimension + d);
  return variance / (path_kernels_dimension * paths) * sum;
}

TEST(PathKernels, are_sums_over_pairs_of_paths) {
  const auto x = random_matrix(examples, paths * path_kernels_dimension, 1),
             other = random_matrix(others, paths * path_kernels_dimension, 2);
  const MatrixXd u = random_covariance(paths, 3), m = random_covariance(examples, 4);
  const PathKernels kernels(x, paths, variance);
  const MatrixXd k = kernels.kernel(u), slope = kernels.contract(m),
                 cross = cross_kernel(other, x, u, variance);
  const VectorXd own = own_kernel(other, u, variance);
  MatrixXd wanted = MatrixXd::Zero(examples, examples), contracted = MatrixXd::Zero(paths, paths),
           across = MatrixXd::Zero(others, examples);
  VectorXd alone = VectorXd::Zero(others);
  for (int p = 0; p < paths; ++p)
    for (int q = 0; q < paths; ++q) {
      for (int mu = 0; mu < examples; ++mu)
        for (int nu = 0; nu < examples; ++nu) {
          wanted(mu, nu) += u(p, q) * block(x, x, p, q, mu, nu);
          contracted(p, q) += m(mu, nu) * block(x, x, p, q, mu, nu);
        }
      for (int mu = 0; mu < others; ++mu) {
        for (int nu = 0; nu < examples; ++nu) across(mu, nu) += u(p, q) * block(other, x, p, q, mu, nu);
        alone[mu] += u(p, q) * block(other, other, p, q, mu, mu);
      }
    }
  EXPECT_LT((k - wanted).cwiseAbs().maxCoeff(), path_kernels_round_off);
  EXPECT_LT((slope - (contracted + contracted.transpose()) / 2).cwiseAbs().maxCoeff(),
            10 * path_kernels_round_off);
  EXPECT_LT((cross - across).cwiseAbs().maxCoeff(), path_kernels_round_off);
  EXPECT_LT((own - alone).cwiseAbs().maxCoeff(), path_kernels_round_off);
}

TEST(PathKernels, are_the_same_from_pairs_and_from_inputs) {
  const auto x = random_matrix(40, 6 * 5, 1);
  const MatrixXd u = random_covariance(6, 3), m = random_covariance(40, 4);
  const PathKernels pairs(x, 6, variance, KernelStorage::pairs),
      inputs(x, 6, variance, KernelStorage::inputs);
  const MatrixXd k = pairs.kernel(u), slope = pairs.contract(m);
  // Sums of 30 and of 40 x 40 x 5 products.
  EXPECT_LT((inputs.kernel(u) - k).cwiseAbs().maxCoeff(), 1e-14 * k.cwiseAbs().maxCoeff());
  EXPECT_LT((inputs.contract(m) - slope).cwiseAbs().maxCoeff(), 1e-13 * slope.cwiseAbs().maxCoeff());
  EXPECT_EQ(inputs.kernel(u), inputs.kernel(u).transpose());
  EXPECT_EQ(inputs.contract(m), inputs.contract(m).transpose());
  EXPECT_EQ(kernel_bytes(100, 4, 231), 8 * 10 * 5050.0);
  EXPECT_LT(kernel_bytes(4000, 16, 192), kernel_pair_bytes(4000, 16) / 10);
}

TEST(PathKernels, of_positive_weights_are_positive) {
  const auto x = random_matrix(examples, paths * path_kernels_dimension, 1);
  const MatrixXd k = PathKernels(x, paths).kernel(random_covariance(paths, 3));
  EXPECT_EQ(k, k.transpose());
  const VectorXd values = fluxformer::test::eigenvalues(k);
  EXPECT_GT(values.minCoeff(), -1e-14 * values.maxCoeff());
}

TEST(PathPredictor, interpolates_where_nothing_is_noise) {
  const auto x =
      random_matrix(examples, paths * path_kernels_dimension, 1);  // fewer examples than inputs: K is regular
  const MatrixXd u = random_covariance(paths, 3), k = PathKernels(x, paths).kernel(u);
  const VectorXd y = random_matrix(examples, 1, 9);
  const auto same = predict(k, y, 1e-10, cross_kernel(x, x, u), own_kernel(x, u));
  // Off by T A^-1 y and T: 1e-10 times at most some hundred.
  EXPECT_LT((same.mean - y).cwiseAbs().maxCoeff(), 1e-8);
  EXPECT_LT(same.variance.cwiseAbs().maxCoeff(), 1e-8);
}

TEST(PathPredictor, knows_the_prior_where_nothing_is_alike) {
  const auto none =
      predict(MatrixXd::Identity(2, 2), VectorXd::Ones(2), 0.1, MatrixXd::Zero(3, 2), VectorXd::Ones(3));
  EXPECT_EQ(none.mean, VectorXd::Zero(3));
  EXPECT_EQ(none.variance, VectorXd::Ones(3));
  EXPECT_EQ(draw_accuracy(none, VectorXd::Ones(3)), 0.5);
}

TEST(PathPredictor, counts_a_mean_of_zero_as_wrong) {
  EXPECT_DOUBLE_EQ(accuracy(Eigen::Vector4d(1, -2, 0, 3), Eigen::Vector4d(1, 1, 1, 1)), 0.5);
}

TEST(PathPredictor, tells_how_often_one_draw_is_right) {
  Prediction one{.mean = VectorXd::Constant(1, 1), .variance = VectorXd::Constant(1, 4)};
  EXPECT_NEAR(draw_accuracy(one, VectorXd::Ones(1)), 0.691462461274013, 1e-15);  // Phi(1/2)
  one.variance[0] = 0;
  EXPECT_EQ(draw_accuracy(one, VectorXd::Ones(1)), 1);
  EXPECT_EQ(draw_accuracy(one, -VectorXd::Ones(1)), 0);
}

TEST(PathPredictor, refuses_kernels_that_are_not_positive) {
  EXPECT_THROW(
      predict(-MatrixXd::Identity(2, 2), VectorXd::Ones(2), 0.1, MatrixXd::Zero(1, 2), VectorXd::Ones(1)),
      NumericalFailure);
}

}  // namespace
}  // namespace fluxformer::paths
