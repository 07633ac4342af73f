// Tokens with noise: onsets in closed form, steps against their distribution, stationary clusters against a density in time.

#include "analysis/clusters/noise.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <span>
#include <utility>
#include <vector>

#include "analysis/clusters/circle_density.hpp"
#include "analysis/clusters/growth_rates.hpp"
#include "base/random.hpp"
#include "base/statistics.hpp"
#include "solvers/flow/flow.hpp"

namespace fluxformer::clusters {
namespace {

constexpr double digits_of_onset = 1e-6, digits_of_order = 1e-5;  // of the printed numbers

TEST(Noise, at_which_an_even_cloud_gathers) {
  EXPECT_NEAR(critical_noise({2, 1}), 0.446390, digits_of_onset);
  EXPECT_NEAR(critical_noise({2, 5}), 0.178677, digits_of_onset);
  EXPECT_NEAR(critical_noise({2, 9}), 0.104743, digits_of_onset);
  for (const auto weights : {Weights::softmax, Weights::unnormalised})
    for (const int d : {2, 3, 16})
      for (const double beta : {0.5, 5.0, 20.0}) {
        const double mean = weights == Weights::softmax ? kernel_eigenvalue(d, beta, 0) : 1;
        UniformTokens tokens{.dimension = d, .beta = beta, .weights = weights};
        const double critical = critical_noise(tokens);
        EXPECT_NEAR(critical / (kernel_eigenvalue(d, beta, 1) / mean / beta), 1, 1e-13);
        // It is that of degree 1, whatever grows fastest without noise.
        tokens.noise = critical * (1 + 1e-9);
        EXPECT_EQ(fastest_degree(tokens), 0);
        tokens.noise = critical * (1 - 1e-9);
        EXPECT_EQ(fastest_degree(tokens), 1);
      }
}

TEST(Noise, beta_beyond_which_the_order_jumps) {
  for (const auto& [d, beta] : std::vector<std::pair<int, double>>{
           {2, 2.446918}, {3, 1.816155}, {4, 1.575257}, {8, 1.266553}, {16, 1.128972}})
    EXPECT_NEAR(beta_of_jump(d), beta, digits_of_onset) << d;
}

TEST(Noise, mean_cosine_of_a_step) {
  const NoisySteps steps{.step = 0.1, .noise = 0.1};
  EXPECT_NEAR(mean_cosine(2, steps), 0.9904165, 1e-7);
  EXPECT_NEAR(mean_cosine(3, steps), 0.9810943, 1e-7);
  // On S^2, X = chi^2_2 has the density e^{-x/2} / 2: E (1 + a X)^{-1/2} = sqrt(pi/(2a)) e^{1/(2a)} erfc(1/sqrt(2a)).
  for (const double spread : {0.01, 0.1, 0.4}) {
    const double a = 2 * spread;
    EXPECT_NEAR(
        mean_cosine(3, {1, spread}),
        std::sqrt(std::numbers::pi / (2 * a)) * std::exp(1 / (2 * a)) * std::erfc(1 / std::sqrt(2 * a)),
        1e-13);
  }
  // Diffusion: e^{-kappa h (d-1)} up to the square of kappa h (d-1).
  for (const int d : {2, 3, 16})
    EXPECT_NEAR(mean_cosine(d, {1, 1e-6}), 1 - 1e-6 * (d - 1), 10 * std::pow(1e-6 * d, 2));
}

/// The turns of tokens in one step from a point.
std::vector<double> turns(std::size_t tokens, const NoisySteps& steps, double velocity) {
  std::vector<double> angles(tokens, 0.0);
  const std::vector<double> velocities(tokens, velocity);
  take_noisy_step(angles, velocities, steps, RandomStream(3, "test"), 0);
  return angles;
}

TEST(Noise, a_step_has_the_mean_cosine_of_theory) {
  const NoisySteps steps{.step = 0.1, .noise = 0.1};
  std::vector<double> cosines, sines;
  for (const double angle : turns(100000, steps, 0)) {
    cosines.push_back(std::cos(angle));
    sines.push_back(std::sin(angle));
  }
  const auto cosine = estimate_of(cosines), sine = estimate_of(sines);
  EXPECT_NEAR(cosine.mean, mean_cosine(2, steps), 4 * cosine.standard_error);
  EXPECT_NEAR(sine.mean, 0, 4 * sine.standard_error);
  EXPECT_LT(cosine.standard_error, 1e-4);
}

TEST(Noise, a_step_is_that_of_a_vector_on_the_circle) {
  const double velocity = 0.7, start = 2;
  const NoisySteps steps{.step = 0.2, .noise = 0.3};
  const RandomStream random(5, "test");
  std::vector<double> angles(8, start);
  take_noisy_step(angles, std::vector<double>(8, velocity), steps, random, 100);
  for (std::size_t j = 0; j < angles.size(); ++j) {
    const double along =
        steps.step * velocity + std::sqrt(2 * steps.noise * steps.step) * random.normal(100 + j);
    // x + t along the tangent, of which only the direction counts
    const double x = std::cos(start) - along * std::sin(start), y = std::sin(start) + along * std::cos(start);
    EXPECT_NEAR(std::remainder(angles[j] - std::atan2(y, x), 2 * std::numbers::pi), 0, 1e-14);
  }
  // Tokens of two ranks get the numbers of one.
  std::vector<double> some(3, start);
  take_noisy_step(some, std::vector<double>(3, velocity), steps, random, 105);
  for (std::size_t j = 0; j < some.size(); ++j) EXPECT_EQ(some[j], angles[5 + j]);
  EXPECT_EQ(turns(1, {0.2, 0}, velocity).front(), std::atan(0.2 * velocity));
}

TEST(Noise, steps_move_the_onset) {
  for (const double critical : {0.03, 0.18})
    for (const double step : {0.02, 0.2}) {
      const double noise = critical_noise_of_steps(critical, step), x = critical * step;
      EXPECT_NEAR(noise / critical, 1 + 1.5 * x, 8 * x * x);
      // An even cloud with a small wave, 1 + 2 a cos(theta), has V = -2 critical a sin(theta). A step keeps a: by quadrature over angles and
      // over normal numbers, both to round-off; left out is the square of a.
      const double a = 1e-5, width = 0.05;
      const int angles = 64;
      double after = 0;
      for (int m = 0; m < angles; ++m)
        for (int j = -200; j <= 200; ++j) {
          const double theta = 2 * std::numbers::pi * m / angles, xi = width * j;
          const double weight = width * std::exp(-xi * xi / 2) / std::sqrt(2 * std::numbers::pi) / angles;
          const double by =
              std::atan(-2 * step * critical * a * std::sin(theta) + std::sqrt(2 * noise * step) * xi);
          after += weight * (1 + 2 * a * std::cos(theta)) * std::cos(theta + by);
        }
      EXPECT_NEAR(after / a, 1, 1e-9);
    }
}

TEST(NoisyCluster, has_the_order_of_theory) {
  const auto expect = [](const NoisyCluster& cluster, const std::vector<std::pair<double, double>>& known) {
    for (const auto& [ratio, order] : known)
      EXPECT_NEAR(cluster.order(ratio * cluster.critical()), order, digits_of_order) << ratio;
  };
  expect({1, Weights::softmax}, {{0.5, 0.82692}, {0.8, 0.58863}, {0.95, 0.31590}, {1, 0}, {1.01, 0}});
  expect({5, Weights::softmax}, {{0.5, 0.91677}, {0.8, 0.75740}, {0.95, 0.50194}, {1, 0}});
  expect({5, Weights::unnormalised},
         {{0.95, 0.90773}, {1, 0.87521}, {1.05, 0.82548}, {1.1, 0.72681}, {1.115, 0}});
}

TEST(NoisyCluster, of_unnormalised_attention_lives_beyond_the_critical_noise) {
  const NoisyCluster cluster(5, Weights::unnormalised);
  EXPECT_NEAR(cluster.survival() / cluster.critical(), 1.11481, digits_of_order);
  EXPECT_NEAR(cluster.equal_free_energy() / cluster.critical(), 1.09301, digits_of_order);
  // No jump up to beta_of_jump, nor with soft-max attention.
  for (const auto& smooth : {NoisyCluster(2.4, Weights::unnormalised), NoisyCluster(5, Weights::softmax)}) {
    EXPECT_EQ(smooth.survival(), smooth.critical());
    EXPECT_EQ(smooth.equal_free_energy(), smooth.critical());
    for (double at = 0.05; at < 1; at += 0.05) EXPECT_LT(smooth.at(at).noise, smooth.at(at - 0.04).noise);
  }
  const NoisyCluster jumps(2.5, Weights::unnormalised);
  EXPECT_GT(jumps.survival(), jumps.critical());
}

TEST(NoisyCluster, begins_as_the_amplitude_equation_says) {
  // Soft-max attention, d = 2, M_1 = a / 2 (own): kappa_c / kappa_s - 1 = a^2 (1 - q_1) / 4 [(1 + q_1) - (1 - q_2) / (2 (1 - r))], r = q_2 / q_1.
  for (const double beta : {0.5, 1.0, 5.0, 20.0, 100.0}) {
    const NoisyCluster cluster(beta, Weights::softmax);
    const auto q = [&](int k) { return kernel_eigenvalue(2, beta, k) / kernel_eigenvalue(2, beta, 0); };
    const double order = 0.01, a = 2 * order, r = q(2) / q(1);
    const double known = a * a * (1 - q(1)) / 4 * ((1 + q(1)) - (1 - q(2)) / (2 * (1 - r)));
    // The next term has the square of a as a factor, which is 4e-4, times some number of order 1 to 10.
    EXPECT_NEAR((cluster.critical() / cluster.at(order).noise - 1) / known, 1, 1e-2) << beta;
  }
}

/// M_1 of a density that has started as the normal density around the circle of this M_1, after a time.
double order_in_time(double beta, Weights weights, double ratio, double start, double time) {
  // The coefficients left out are below 1e-7.
  const double noise = ratio * critical_noise({.beta = beta, .weights = weights});
  CircleDensity density(weights == Weights::softmax ? 32 : 64, beta, weights, noise);
  auto state = density.wave(1, 0);
  for (int k = 1; k <= density.waves(); ++k) state[2 * k - 2] = std::pow(start, k * k);
  Flow flow(MPI_COMM_SELF, state,
            [&](std::span<const double> at, std::span<double> rate) { density.rate(at, rate); }, 1e-9,
            {.time = 0, .step = 0.01});
  EXPECT_TRUE(flow.advance(time));
  return density.moments(flow.state(), 1).front();
}

TEST(NoisyCluster, is_where_a_density_ends) {
  const struct {
    double beta;
    Weights weights;
    double ratio, start, time;
  } cases[] = {{5, Weights::softmax, 0.5, 0.25, 100},
               {5, Weights::softmax, 0.8, 0.25, 200},
               {1, Weights::softmax, 0.8, 0.25, 100},
               {5, Weights::unnormalised, 1, 0.85, 800}};
  for (const auto& [beta, weights, ratio, start, time] : cases) {
    const NoisyCluster cluster(beta, weights);
    EXPECT_NEAR(order_in_time(beta, weights, ratio, start, time), cluster.order(ratio * cluster.critical()),
                1e-5)
        << beta << ' ' << ratio;
  }
  // Beyond survival an even cloud is left.
  EXPECT_LT(order_in_time(5, Weights::softmax, 1.5, 0.8, 200), 1e-6);
}

}  // namespace
}  // namespace fluxformer::clusters
