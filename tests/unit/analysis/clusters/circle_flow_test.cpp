// Tokens and densities on the circle in time: two clusters and rings of clusters against their laws, tokens against the density.

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <functional>
#include <numbers>
#include <span>
#include <utility>
#include <vector>

#include "analysis/clusters/circle.hpp"
#include "analysis/clusters/circle_density.hpp"
#include "analysis/clusters/growth_rates.hpp"
#include "solvers/flow/flow.hpp"

namespace fluxformer::clusters {
namespace {

constexpr double tolerance = 1e-13;

Flow flow_of(const CircleAttention& attention, const std::vector<double>& angles) {
  return {MPI_COMM_SELF,
          angles,
          [&attention](std::span<const double> at, std::span<double> rate) { attention.velocity(at, rate); },
          tolerance,
          {.time = 0, .step = 0.01}};
}

/// For two equal clusters of cos(angle) = gamma, dF(gamma)/dt = 1:
///   F = [-Ei(beta u) - log u - e^{2 beta} E_1(beta (1 + gamma)) + log(1 + gamma)] / 4,    u = 1 - gamma
double time_of_two(double beta, double gamma) {
  const double u = 1 - gamma, w = 1 + gamma;
  return (-std::expint(beta * u) - std::log(u) + std::exp(2 * beta) * std::expint(-beta * w) + std::log(w)) /
         4;
}

TEST(CircleFlow, two_clusters_obey_their_law) {
  const double beta = 9, first = 1, last = 0.1;
  const double closed = time_of_two(beta, std::cos(last)) - time_of_two(beta, std::cos(first));
  EXPECT_NEAR(closed, 8.260155, 5e-7);
  // The angle falls by some 0.1 in a unit of time: printed times have six digits.
  const struct {
    double share, time, bound;
  } cases[] = {{0.5, closed, 1e-8}, {0.1, 3.765622, 1e-7}, {0.01, 2.519504, 1e-7}};
  for (const auto& [share, time, bound] : cases) {
    const CircleAttention attention({share, 1 - share}, beta, 1, MPI_COMM_SELF);
    auto flow = flow_of(attention, {0, first});
    EXPECT_TRUE(flow.advance(time));
    const auto angles = flow.state();
    EXPECT_NEAR(angles[1] - angles[0], last, bound) << share;
    // Both turn; of equal weights as much.
    EXPECT_EQ(share == 0.5, std::abs(first - angles[1] - angles[0]) < 1e-12);
  }
}

TEST(CircleFlow, rings_of_clusters_live_as_long_as_theory_says) {
  const struct {
    int clusters;
    double beta, lifetime, within;
  } cases[] = {{3, 5, 141.9641, 1e-4},
               {4, 9, 225.1412, 1e-4},
               {6, 20, 379.8011, 1e-4},
               {3, 9, 33536.477, 1e-3},
               {2, 9, 3.282998507e7, 1e-2}};
  for (const auto& [clusters, beta, known, within] : cases) {
    EXPECT_NEAR(lifetime({clusters, beta}), known, within);
    int fastest = 1;
    for (int mode = 2; mode <= clusters / 2; ++mode)
      if (growth_rate(Ring{clusters, beta}, mode) > growth_rate(Ring{clusters, beta}, fastest))
        fastest = mode;
    const double amplitude = 1e-6;
    std::vector<double> angles;
    for (int j = 0; j < clusters; ++j)
      angles.push_back(wave_quantile((j + 0.5) / clusters, fastest, amplitude));
    // Clusters of 100 tokens each.
    const CircleAttention attention(std::vector<double>(clusters, 100.0), beta, 1, MPI_COMM_SELF);
    auto flow = flow_of(attention, angles);
    const double before = std::abs(attention.moments(angles, fastest).back());
    EXPECT_TRUE(flow.advance(known));
    const double after = std::abs(attention.moments(flow.state(), fastest).back());
    // Beyond linear theory: the amplitude times 6 or less; errors of the steps over the amplitude.
    EXPECT_NEAR(std::log(after / before), 1, 20 * amplitude) << clusters << ' ' << beta;
  }
}

TEST(CircleFlow, tokens_are_their_density) {
  const double beta = 5, amplitude = 0.05;
  const int waves = 3, n = 256;
  std::vector<double> angles;
  for (int j = 0; j < n; ++j) angles.push_back(wave_quantile((j + 0.5) / n, waves, amplitude));
  const CircleAttention attention(std::vector<double>(n, 1.0), beta, 1, MPI_COMM_SELF);
  auto tokens = flow_of(attention, angles);
  CircleDensity density(512, beta);
  Flow coefficients(MPI_COMM_SELF, density.wave(waves, amplitude),
                    [&](std::span<const double> state, std::span<double> rate) { density.rate(state, rate); },
                    tolerance, {.time = 0, .step = 0.01});
  for (const auto& [time, known] : {std::pair{1.0, 0.0494548}, {3.0, 0.1909562}, {5.0, 0.6184104}}) {
    EXPECT_TRUE(tokens.advance(time));
    const auto resolved = [&](std::span<const double> state) { return density.resolved(state); };
    EXPECT_TRUE(coefficients.advance(time, resolved));
    const double of_tokens = std::abs(attention.moments(tokens.state(), waves).back());
    const double of_density = density.moments(coefficients.state(), waves).back();
    EXPECT_NEAR(of_density, known, 5e-8);
    EXPECT_NEAR(of_tokens, of_density, 2e-11);
  }
  // Points cannot be resolved.
  EXPECT_FALSE(
      coefficients.advance(20, [&](std::span<const double> state) { return density.resolved(state); }));
  EXPECT_GT(coefficients.clock().time, 6);
  EXPECT_LT(coefficients.clock().time, 8);
}

}  // namespace
}  // namespace fluxformer::clusters
