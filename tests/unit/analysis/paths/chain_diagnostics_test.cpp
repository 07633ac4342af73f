// Chains whose correlations are known.

#include <gtest/gtest.h>

#include <cmath>

#include "analysis/paths/posterior_chain.hpp"
#include "base/random.hpp"

namespace fluxformer {
namespace {

/// x_t = rho x_{t-1} + sqrt(1 - rho^2) noise + shift, from its stationary distribution.
std::vector<double> autoregressive(double rho, std::size_t draws, std::uint64_t seed, double shift = 0) {
  const RandomStream stream(seed, "autoregressive");
  std::vector<double> x = {stream.normal(0)};
  x.reserve(draws);
  for (std::size_t t = 1; t < draws; ++t)
    x.push_back(rho * x.back() + std::sqrt(1 - rho * rho) * stream.normal(t));
  for (double& one : x) one += shift;
  return x;
}

Chains chains_of(double rho, std::size_t draws, std::size_t count) {
  Chains chains;
  chains.reserve(count);
  for (std::size_t k = 0; k < count; ++k) chains.push_back(autoregressive(rho, draws, k + 1));
  return chains;
}

TEST(EffectiveDraws, are_those_of_an_autoregressive_process) {
  // n (1 - rho)/(1 + rho); the error of such estimates is some 5 % at 40 000 draws (spread over seeds).
  for (const double rho : {0.0, 0.3, 0.7, 0.9}) {
    const double expected = 40000 * (1 - rho) / (1 + rho);
    EXPECT_NEAR(effective_draws(chains_of(rho, 10000, 4)), expected, 0.15 * expected) << rho;
  }
  // Draws that avoid each other are worth more than independent ones.
  EXPECT_GT(effective_draws(chains_of(-0.3, 10000, 4)), 1.5 * 40000);
}

TEST(EffectiveDraws, are_few_where_chains_stay_in_different_places) {
  const Chains apart = {autoregressive(0, 1000, 1), autoregressive(0, 1000, 2, 3)};
  EXPECT_LT(effective_draws(apart), 20);
}

TEST(SplitRHat, is_one_for_chains_that_have_forgotten) {
  // The means of halves of n independent draws differ by 1/n in the variance: 1 + 1/(2n), n = 500.
  EXPECT_NEAR(split_r_hat(chains_of(0, 1000, 4)), 1.0, 0.005);
}

TEST(SplitRHat, says_how_far_apart_chains_are) {
  // Two chains, a apart, of variance 1: halves in pairs at 0 and a have the variance a^2/3 of their four
  // means.
  const double a = 2;
  const Chains apart = {autoregressive(0, 20000, 1), autoregressive(0, 20000, 2, a)};
  EXPECT_NEAR(split_r_hat(apart), std::sqrt(1 + a * a / 3), 0.02);
  // One chain that drifts: its halves are 1 apart, with a variance of 1/2 between two means.
  auto drifting = autoregressive(0, 20000, 3);
  for (std::size_t t = 10000; t < 20000; ++t) drifting[t] += 1;
  EXPECT_NEAR(split_r_hat({drifting}), std::sqrt(1.5), 0.02);
}

TEST(SplitRHat, is_that_of_a_small_example) {
  // Halves (1, 2), (4, 3): means 1.5, 3.5, variances 1/2; between: 2; all: 1/2 x 1/2 + 2 = 2.25. By hand.
  EXPECT_NEAR(split_r_hat({{1, 2, 4, 3}}), std::sqrt(2.25 / 0.5), 1e-15);
}

TEST(Diagnostics, say_what_is_not_known) {
  EXPECT_TRUE(std::isnan(split_r_hat({})));
  EXPECT_TRUE(std::isnan(split_r_hat({{1, 2, 3}})));
  EXPECT_TRUE(std::isnan(effective_draws({{1, 2, 3}})));
  EXPECT_TRUE(std::isnan(effective_draws({{1, 1, 1, 1}})));
  EXPECT_EQ(split_r_hat({{1, 1, 1, 1}}), 1);
  EXPECT_TRUE(std::isinf(split_r_hat({{1, 1, 1, 1}, {2, 2, 2, 2}})));
  EXPECT_TRUE(std::isnan(split_r_hat({{1, 2, 3, NAN}})));
}

}  // namespace
}  // namespace fluxformer
