// Made-up chains, whose means and errors are known by hand.

#include "analysis/paths/sampled_posterior.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/analysis/paths/random_paths.hpp"

namespace fluxformer::paths {
namespace {

using namespace test;
using Eigen::MatrixXd;
using Eigen::VectorXd;

PosteriorChain made_up(double factor) {
  PosteriorChain chain;
  chain.order = {.u = {factor * random_covariance(4, 1), factor * random_covariance(2, 2)},
                 .readout = factor};
  chain.input_weights = factor * random_matrix(4, 3, 5);
  for (std::size_t q = 0; q < drawn_quantities; ++q)
    chain.traces[q] = {factor, factor + 1, factor - 1, factor + 0.5};
  return chain;
}

TEST(SampledPosterior, is_the_mean_of_its_chains_with_their_spread) {
  const RowMatrix inputs = random_matrix(5, 12, 3);
  const auto all = sampled_posterior({made_up(1), made_up(2), made_up(6)}, inputs);
  // The mean of 1, 2 and 6 is 3, the standard error of the mean sqrt((4 + 1 + 9)/2/3) = 1.5275.
  const double error = std::sqrt(14.0 / 6);
  EXPECT_NEAR(all.order.readout, 3, 1e-14);
  EXPECT_LT((all.order.u[0] - 3 * random_covariance(4, 1)).norm(), 1e-13);
  EXPECT_LT((all.order.u[1] - 3 * random_covariance(2, 2)).norm(), 1e-13);
  EXPECT_NEAR(all.order_error, error / 3, 1e-14);
  const VectorXd one = outputs(inputs, random_matrix(4, 3, 5));
  EXPECT_LT((all.mean - 3 * one).norm(), 1e-13);
  EXPECT_NEAR(all.mean_error, error * one.cwiseAbs().mean(), 1e-13);
  EXPECT_GT(all.r_hat[2], 1.1);
  EXPECT_TRUE(std::isfinite(all.effective_draws[4]));
  EXPECT_TRUE(std::isnan(sampled_posterior({made_up(1)}, inputs).order_error));
}

TEST(TheoryError, is_relative_to_the_draws) {
  const RowMatrix inputs = random_matrix(5, 12, 3);
  const auto all = sampled_posterior({made_up(1), made_up(3)}, inputs);  // mean 2, standard error 1
  const MatrixXd u = 1.5 * random_covariance(4, 1);
  const VectorXd mean = -2 * all.mean;
  const auto error = theory_error(all, u, mean, 10);
  EXPECT_NEAR(error.order, 0.25, 1e-14);
  EXPECT_NEAR(error.excess, 0.25 - (4.0 / 20 + 4 * 0.5), 1e-13);
  EXPECT_NEAR(error.mean, 3 * all.mean.cwiseAbs().mean(), 1e-13);
  EXPECT_NEAR(error.correlation, -1, 1e-13);
  EXPECT_TRUE(std::isnan(theory_error(all, u, mean, 3.9).excess));
  EXPECT_FALSE(std::isnan(theory_error(all, u, mean, 4).excess));
}

}  // namespace
}  // namespace fluxformer::paths
