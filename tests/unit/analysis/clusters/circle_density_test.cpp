// A density on the circle against linear theory, closed forms and many tokens.

#include "analysis/clusters/circle_density.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <numeric>
#include <vector>

#include "analysis/clusters/circle.hpp"
#include "analysis/clusters/growth_rates.hpp"

namespace fluxformer::clusters {
namespace {

constexpr double full_circle = 2 * std::numbers::pi;

std::vector<double> tokens_of_wave(int n, int waves, double amplitude) {
  std::vector<double> angles;
  for (int j = 0; j < n; ++j) angles.push_back(wave_quantile((j + 0.5) / n, waves, amplitude));
  return angles;
}

TEST(CircleDensity, small_waves_grow_as_linear_theory_says) {
  const double amplitude = 1e-5;
  for (const double beta : {1.0, 5.0, 20.0})
    for (const int waves : {1, 2, 3, 7}) {
      CircleDensity density(128, beta);
      const auto state = density.wave(waves, amplitude);
      std::vector<double> rate(state.size());
      density.rate(state, rate);
      // Left out is the square of the amplitude; roundings of the transform are some 1e-16 waves / amplitude.
      EXPECT_NEAR(rate[2 * waves - 2] / (amplitude / 2), growth_rate(UniformTokens{2, beta}, waves), 1e-8);
      EXPECT_NEAR(rate[2 * waves - 1], 0, 1e-14);
    }
}

TEST(CircleDensity, an_even_one_stays_and_has_the_numbers_of_theory) {
  for (const double beta : {1.0, 9.0}) {
    CircleDensity density(64, beta);
    const std::vector<double> even(2 * density.waves(), 0.0);
    std::vector<double> rate(even.size());
    density.rate(even, rate);
    for (const double one : rate) EXPECT_EQ(one, 0);
    const auto sums = density.sums(even);
    EXPECT_NEAR(sums.number_2 * kernel_eigenvalue(2, beta, 0), 1, 1e-14);
    EXPECT_NEAR(sums.number_1 * kernel_eigenvalue(2, beta, 0), 1, 1e-14);
    EXPECT_NEAR(sums.energy * 2 * beta * sums.number_2, 1, 1e-14);
    EXPECT_EQ(sums.dissipation, 0);
    for (const double share : density.shares(even, 10)) EXPECT_NEAR(share, 0.1, 1e-16);
  }
}

TEST(CircleDensity, small_waves_of_unnormalised_attention_with_noise_grow_as_linear_theory_says) {
  const double amplitude = 1e-5, noise = 0.02;
  for (const auto weights : {Weights::softmax, Weights::unnormalised})
    for (const int waves : {1, 2, 7}) {
      CircleDensity density(128, 5, weights, noise);
      const auto state = density.wave(waves, amplitude);
      std::vector<double> rate(state.size());
      density.rate(state, rate);
      EXPECT_NEAR(rate[2 * waves - 2] / (amplitude / 2),
                  growth_rate({.beta = 5, .noise = noise, .weights = weights}, waves), 1e-8);
    }
}

/// A state with several waves, which fall off so fast that all products are resolved.
std::vector<double> smooth_state(const CircleDensity& density) {
  auto state = density.wave(3, 0.3);
  state[0] = 0.05, state[1] = -0.08, state[2] = 0.1, state[7] = 0.04;
  return state;
}

TEST(CircleDensity, energy_grows_by_what_is_dissipated) {
  const double beta = 5;
  for (const auto weights : {Weights::softmax, Weights::unnormalised}) {
    CircleDensity density(256, beta, weights);
    const auto state = smooth_state(density);
    std::vector<double> rate(state.size());
    density.rate(state, rate);
    // E = (c_0 + 2 sum c_k |rho_k|^2) / (2 beta)
    double gained = 0;
    for (int k = 1; k <= density.waves(); ++k)
      gained += 2 / beta * kernel_eigenvalue(2, beta, k) *
                (state[2 * k - 2] * rate[2 * k - 2] + state[2 * k - 1] * rate[2 * k - 1]);
    EXPECT_GT(gained, 1e-5);
    EXPECT_NEAR(gained, density.sums(state).dissipation, 1e-14);
  }
}

TEST(CircleDensity, has_the_numbers_of_many_tokens) {
  const double beta = 5, amplitude = 0.5;
  const int waves = 3, n = 600;  // a multiple of the waves and of the bins
  const auto angles = tokens_of_wave(n, waves, amplitude);
  const std::vector<double> weights(n, 1.0);
  const CircleAttention attention(weights, beta, 1, MPI_COMM_SELF);
  CircleDensity density(128, beta);
  const auto state = density.wave(waves, amplitude);
  // Quantiles of a smooth density are a spectral quadrature of it.
  const auto sums = density.sums(state), of_tokens = attention.sums(angles);
  EXPECT_NEAR(sums.number_2, of_tokens.number_2, 1e-11);
  EXPECT_NEAR(sums.number_1, of_tokens.number_1, 1e-11);
  EXPECT_NEAR(sums.energy, of_tokens.energy, 1e-12);
  EXPECT_NEAR(sums.dissipation, of_tokens.dissipation, 1e-12);
  const auto size = density.moments(state, 10);
  const auto moments = attention.moments(angles, 10);
  for (int k = 1; k <= 10; ++k) EXPECT_NEAR(size[k - 1], std::abs(moments[k - 1]), 1e-13) << k;
  // The share of a bin in closed form.
  const int bins = 8;
  const auto shares = density.shares(state, bins);
  EXPECT_NEAR(std::accumulate(shares.begin(), shares.end(), 0.0), 1, 1e-15);
  for (int b = 0; b < bins; ++b) {
    const double first = full_circle * b / bins, last = full_circle * (b + 1) / bins;
    EXPECT_NEAR(
        shares[b],
        1.0 / bins + amplitude * (std::sin(waves * last) - std::sin(waves * first)) / (waves * full_circle),
        1e-15);
  }
}

TEST(CircleDensity, is_resolved_while_its_last_coefficients_are_small) {
  const CircleDensity density(64, 5);
  auto state = density.wave(3, 0.9);
  EXPECT_EQ(density.waves(), 31);
  EXPECT_TRUE(density.resolved(state));
  for (const int k : {26, 31}) {  // the last six
    auto other = state;
    other[2 * k - 1] = 2e-8;
    EXPECT_FALSE(density.resolved(other)) << k;
    other[2 * k - 1] = 0.5e-8;
    EXPECT_TRUE(density.resolved(other)) << k;
    other[2 * k - 2] = std::nan("");
    EXPECT_FALSE(density.resolved(other)) << k;
  }
  state[2 * 25 - 1] = 1;
  EXPECT_TRUE(density.resolved(state));
  // The last coefficient that is not 0 is 27 for nine equal waves, 24 for eight.
  auto nine = density.wave(9, 0.5), eight = density.wave(8, 0.5);
  nine[2 * 27 - 2] = eight[2 * 24 - 2] = 2e-8;
  EXPECT_FALSE(density.resolved(nine, 9));
  EXPECT_FALSE(density.resolved(eight, 8));
}

}  // namespace
}  // namespace fluxformer::clusters
