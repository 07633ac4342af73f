// Rates of growth from evenly spread tokens against numbers that were computed apart, by 40 digits, and against their limits.

#include "analysis/clusters/growth_rates.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <vector>

namespace fluxformer::clusters {
namespace {

constexpr double printed = 1e-6;  // the digits of the numbers below

TEST(GrowthRates, of_softmax_tokens_are_those_of_the_kernels_harmonics) {
  const auto expect = [](int dimension, double beta, const std::vector<double>& rates) {
    for (std::size_t k = 0; k < rates.size(); ++k)
      EXPECT_NEAR(growth_rate(UniformTokens{dimension, beta}, static_cast<int>(k) + 1), rates[k], printed)
          << dimension << ' ' << beta << ' ' << k + 1;
  };
  expect(2, 5, {0.178677, 0.514117, 0.682678, 0.600089});
  expect(3, 5, {0.320036, 0.623935, 0.672349, 0.510968});
  expect(16, 4, {0.890086, 0.404598});
  for (const int d :
       {2, 3, 16, 1000}) {  // beta -> 0: the mean of all tokens attracts each, nothing else does
    EXPECT_NEAR(growth_rate(UniformTokens{d, 0}, 1), (d - 1.0) / d, 1e-12);
    EXPECT_EQ(growth_rate(UniformTokens{d, 0}, 2), 0);
    EXPECT_LT(growth_rate(UniformTokens{d, 5, -1}, 3), 0);  // v < 0: all decay
  }
}

TEST(GrowthRates, of_unnormalised_weights_are_smaller_by_the_mean_weight_and_noise_damps_them) {
  for (const int d : {2, 3, 16})
    for (const int degree : {1, 2, 5}) {
      const UniformTokens tokens{d, 5};
      const double mean = kernel_eigenvalue(d, 5, 0), plain = growth_rate(tokens, degree);
      EXPECT_NEAR(growth_rate(UniformTokens{d, 5, 1, 0, Weights::unnormalised}, degree), plain * mean, 1e-14);
      EXPECT_NEAR(growth_rate(UniformTokens{d, 5, 1, 0.01}, degree), plain - 0.01 * degree * (degree + d - 2),
                  1e-14);
    }
}

TEST(GrowthRates, the_fastest_degree) {
  const auto fastest = [](int dimension, const std::vector<double>& betas) {
    std::vector<int> degrees;
    for (const double beta : betas) degrees.push_back(fastest_degree({dimension, beta}));
    return degrees;
  };
  using testing::ElementsAre;
  EXPECT_THAT(fastest(2, {1, 2, 3, 5, 7, 9, 12, 20, 40}), ElementsAre(1, 2, 2, 3, 4, 4, 5, 6, 9));
  EXPECT_THAT(fastest(3, {1, 2, 3, 5, 7, 9, 12, 20, 40}), ElementsAre(1, 2, 2, 3, 3, 4, 4, 6, 8));
  EXPECT_THAT(fastest(16, {4, 9, 12, 20, 40}), ElementsAre(1, 1, 2, 2, 4));
  EXPECT_THAT(fastest(64, {8, 20, 40, 60}), ElementsAre(1, 1, 1, 2));
  EXPECT_EQ(fastest_degree({2, 5, -1}), 0);
  const double noise[] = {0, .02, .05, .08, .1};
  std::vector<int> degrees;
  for (const double one : noise) degrees.push_back(fastest_degree({2, 9, 1, one}));
  EXPECT_THAT(degrees, ElementsAre(4, 3, 2, 2, 1));
  for (int d = 3; d < 200; ++d) EXPECT_EQ(fastest_degree({d, std::sqrt(d)}), 1) << d;
}

TEST(GrowthRates, degree_1_gives_way_to_2) {
  const std::vector<std::pair<int, double>> switches = {{2, 1.044457},   {3, 1.816155},   {4, 2.528520},
                                                        {8, 5.251111},   {16, 10.605565}, {32, 21.281078},
                                                        {64, 42.618439}, {128, 85.287027}};
  for (const auto& [dimension, beta] : switches) {
    EXPECT_NEAR(beta_of_two(dimension), beta, printed);
    EXPECT_EQ(fastest_degree({dimension, beta - 1e-3}), 1);
    EXPECT_EQ(fastest_degree({dimension, beta + 1e-3}), 2);
  }
}

TEST(GrowthRates, of_large_beta_on_the_circle_tend_to_2_over_e) {
  const std::vector<std::pair<double, double>> rates = {{40, 0.729495}, {400, 0.735003}, {2000, 0.735615}};
  for (const auto& [beta, rate] : rates) {
    const UniformTokens tokens{2, beta};
    const int degree = fastest_degree(tokens);
    EXPECT_NEAR(growth_rate(tokens, degree), rate, printed);
    EXPECT_NEAR(degree, std::sqrt(2 * beta), 1);
  }
  EXPECT_NEAR(growth_rate(UniformTokens{2, 1e5}, fastest_degree({2, 1e5})), 2 / std::numbers::e, 1e-5);
}

TEST(GrowthRates, in_a_layer) {
  EXPECT_NEAR(growth_in_layer({2, 5}, 3, 1), 1.360560, printed);
  EXPECT_NEAR(growth_without_residual({2, 5}, 3), 1.764150, printed);
  const double small = 1e-6;
  EXPECT_NEAR((growth_in_layer({3, 5}, 2, small) - 1) / small, growth_rate(UniformTokens{3, 5}, 2), 1e-5);
}

/// The same by the images of the kernel's modes: (J_m - J_0) / Z with J_m = (1/beta) sum_a (m + a n)^2 e^{-beta} I_{|m + a n|}.
double by_modes(const Ring& ring, int mode) {
  const auto bessel = [&](int k) { return kernel_eigenvalue(2, ring.beta, std::abs(k)); };
  double difference = 0, weight = 0;
  for (int a = -60; a <= 60; ++a) {
    const double moved = mode + 1.0 * a * ring.tokens, rest = 1.0 * a * ring.tokens;
    difference += moved * moved * bessel(mode + a * ring.tokens) - rest * rest * bessel(a * ring.tokens);
    weight += bessel(a * ring.tokens);
  }
  return difference / ring.beta / (ring.weights == Weights::softmax ? weight : 1);
}

TEST(GrowthRates, of_rings_by_both_forms) {
  for (const int n : {2, 3, 6, 11, 64})
    for (const double beta : {0.05, 1.0, 5.0, 20.0, 40.0})
      for (const auto weights : {Weights::softmax, Weights::unnormalised})
        for (int mode = 1; mode <= n / 2; ++mode) {
          const Ring ring{n, beta, weights};
          EXPECT_NEAR(growth_rate(ring, mode), by_modes(ring, mode), 1e-12)
              << n << ' ' << beta << ' ' << mode;
        }
  for (int mode = 1; mode <= 5; ++mode)  // many tokens: the circle, for modes far below n
    EXPECT_NEAR(growth_rate(Ring{64, 5}, mode), growth_rate(UniformTokens{2, 5}, mode), 1e-12);
}

TEST(GrowthRates, lifetimes_of_rings_of_clusters) {
  EXPECT_NEAR(lifetime({3, 5}), 141.9641, 1e-4);
  EXPECT_NEAR(lifetime({4, 9}), 225.1412, 1e-4);
  EXPECT_NEAR(lifetime({6, 20}), 379.8011, 1e-4);
  EXPECT_NEAR(lifetime({3, 9}), 33536.477, 1e-3);
  for (const double beta : {1.0, 5.0, 9.0}) {  // two opposite clusters: 2 / (e^{2 beta} + 1) exactly
    const double exact = (std::exp(2 * beta) + 1) / 2;
    EXPECT_NEAR(lifetime({2, beta}), exact, 1e-14 * exact);
  }
  EXPECT_NEAR(lifetime({10, 50}), 213.0928, 1e-4);
  EXPECT_NEAR(lifetime({20, 200}), 245.6716, 1e-4);
  EXPECT_NEAR(lifetime({40, 800}), 254.8132, 1e-4);
  EXPECT_NEAR(lifetime({80, 3200}), 257.1669, 1e-4);
}

TEST(GrowthRates, the_mean_weight_is_that_of_the_sphere) {
  EXPECT_NEAR(1 / kernel_eigenvalue(2, 5, 0), 5.448379, printed);
  EXPECT_NEAR(1 / kernel_eigenvalue(2, 9, 0), 7.409629, printed);
  EXPECT_NEAR(1 / kernel_eigenvalue(2, 20, 0), 11.138299, printed);
  EXPECT_NEAR(1 / kernel_eigenvalue(3, 5, 0), 10.000454, printed);
  EXPECT_NEAR(1 / kernel_eigenvalue(3, 9, 0), 18.0, printed);
  for (const double beta : {0.1, 5.0, 700.0, 5000.0})  // on S^2: (1 - e^{-2 beta}) / (2 beta)
    EXPECT_NEAR(kernel_eigenvalue(3, beta, 0) * 2 * beta, -std::expm1(-2 * beta), 1e-11);
  EXPECT_EQ(kernel_eigenvalue(7, 0, 0), 1);
}

}  // namespace
}  // namespace fluxformer::clusters
