// Attention on the circle by moments against all pairs, and clusters against a search that knows no bins.

#include "analysis/clusters/circle.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>
#include <vector>

#include "analysis/clusters/growth_rates.hpp"
#include "base/random.hpp"

namespace fluxformer::clusters {
namespace {

constexpr double turn = 2 * std::numbers::pi;

/// One for each token.
std::vector<double> ones(std::size_t n) {
  return std::vector<double>(n, 1.0);
}

CircleAttention attention_of(std::size_t n, double beta, double value = 1) {
  return {ones(n), beta, value, MPI_COMM_SELF};
}

std::vector<double> random_angles(int n, std::uint64_t seed) {
  const RandomStream random(seed, "test");
  std::vector<double> angles(n);
  for (int j = 0; j < n; ++j) angles[j] = random.uniform(j, -turn, 2 * turn);
  return angles;
}

struct Pairs {
  std::vector<double> z, rate;
};
Pairs by_pairs(const std::vector<double>& angles, double beta, double value) {
  Pairs found;
  for (const double x : angles) {
    double z = 0, pull = 0;
    for (const double y : angles) {
      const double half = std::sin((y - x) / 2), k = std::exp(-2 * beta * half * half);
      z += k;
      pull += k * std::sin(y - x);
    }
    found.z.push_back(z);
    found.rate.push_back(value * pull / z);
  }
  return found;
}

TEST(Circle, moments_are_all_pairs) {
  const struct {
    double beta;
    int order;
  } cases[] = {{0, 1}, {1, 16}, {5, 27}, {9, 33}, {20, 46}, {40, 62}};
  for (const auto& [beta, order] : cases)
    for (const int n : {1, 15, 63, 64, 65, 1000}) {
      const auto angles = random_angles(n, n);
      const auto attention = attention_of(n, beta, -1.5);
      EXPECT_EQ(CircleKernel(beta).order(), order) << beta;
      const auto pairs = by_pairs(angles, beta, -1.5);
      std::vector<double> rate(n);
      attention.velocity(angles, rate);
      for (int j = 0; j < n; ++j) EXPECT_NEAR(rate[j], pairs.rate[j], 1e-11) << beta << ' ' << n;
      double z = 0, logarithms = 0, dissipation = 0;
      for (int j = 0; j < n; ++j) {
        z += pairs.z[j];
        logarithms += std::log(pairs.z[j] / n);
        dissipation += pairs.z[j] * pairs.rate[j] * pairs.rate[j] / -1.5;
      }
      const auto sums = attention.sums(angles);
      EXPECT_NEAR(sums.number_2, n * n / z, 1e-11);
      EXPECT_NEAR(sums.number_1, std::exp(-logarithms / n), 1e-11);
      EXPECT_NEAR(sums.dissipation, dissipation / n / n, 1e-11);
      if (beta > 0) {
        EXPECT_NEAR(sums.energy, z / (2 * beta * n * n), 1e-11);
        EXPECT_NEAR(sums.number_2, 1 / (2 * beta * sums.energy), 1e-11);
      }
    }
}

TEST(Circle, a_token_opposite_to_all_others_is_not_lost_among_their_roundings) {
  const int n = 100000;
  const double beta = 20;
  // Powers e^{i k theta} have errors of some k 2^-53, which n tokens that are alike have in common: z = 1 of the lone token is a difference of
  // sums of n. It is the only one for which the errors are not 2^-53 of its z.
  const double bound_of_lone = n * CircleKernel(beta).order() * std::exp2(-53), bound = 1e-11;
  std::vector<double> angles(n, 1.0), rate(n);
  angles.back() += turn / 2;
  const auto attention = attention_of(n, beta);
  attention.velocity(angles, rate);
  EXPECT_LT(std::abs(rate.back()), bound_of_lone);
  EXPECT_LT(std::abs(rate.front()), bound);
  // z = n - 1 + w of the others, 1 + (n - 1) w of the lone one. Its logarithm is a part 1 / n of that of N_1: 1e-13 are 1e-8 of its z.
  const double w = std::exp(-2 * beta), others = n - 1;
  const auto sums = attention.sums(angles);
  const double logarithms = others * std::log((others + w) / n) + std::log((1 + others * w) / n);
  EXPECT_NEAR(sums.number_1, std::exp(-logarithms / n), 1e-13);
  EXPECT_NEAR(sums.number_2, static_cast<double>(n) * n / (others * others + 1 + 2 * others * w), 1e-13);
  // Others that are not equal: pairs of some tokens with all.
  const RandomStream random(3, "test");
  for (int j = 0; j < n - 1; ++j) angles[j] = 1 + random.uniform(j, -0.3, 0.3);
  attention.velocity(angles, rate);
  for (int i = n - 1; i >= 0; i -= 9999) {
    double z = 0, pull = 0;
    for (const double other : angles) {
      const double half = std::sin((other - angles[i]) / 2), k = std::exp(-2 * beta * half * half);
      z += k;
      pull += k * std::sin(other - angles[i]);
    }
    EXPECT_NEAR(rate[i], pull / z, i == n - 1 ? bound_of_lone : bound) << i;
  }
}

TEST(Circle, unnormalised_attention_divides_by_the_number_of_tokens) {
  for (const double beta : {0.5, 9.0})
    for (const int n : {10, 200}) {  // by pairs, and by moments
      const auto angles = random_angles(n, n);
      const double value = -1.5;
      const CircleAttention attention(ones(angles.size()), beta, value, MPI_COMM_SELF, Weights::unnormalised);
      const auto pairs = by_pairs(angles, beta, value);
      std::vector<double> rate(n);
      attention.velocity(angles, rate);
      double dissipation = 0, z = 0;
      for (int j = 0; j < n; ++j) {
        const double here = pairs.rate[j] * pairs.z[j] / n;
        EXPECT_NEAR(rate[j], here, 1e-13) << beta << ' ' << n;
        dissipation += here * here / (value * n);  // dE/dt = mean |dx/dt|^2 / v
        z += pairs.z[j];
      }
      const auto sums = attention.sums(angles);
      EXPECT_NEAR(sums.dissipation, dissipation, 1e-13);
      EXPECT_NEAR(sums.number_2, n * n / z, 1e-11);
    }
}

TEST(Circle, moments_of_angles) {
  const auto angles = random_angles(200, 7);
  const auto found = attention_of(200, 3).moments(angles, 5);
  for (int k = 1; k <= 5; ++k) {
    std::complex<double> sum = 0;
    for (const double one : angles) sum += std::polar(1.0, k * one);
    EXPECT_NEAR(std::abs(found[k - 1] - sum / 200.0), 0, 1e-14);
  }
}

/// k groups of equal tokens with these shares of 100 tokens, at equal distances.
std::vector<double> groups(const std::vector<int>& sizes, double distance) {
  std::vector<double> angles;
  for (std::size_t k = 0; k < sizes.size(); ++k)
    angles.insert(angles.end(), sizes[k], distance * static_cast<double>(k) - 0.1);
  return angles;
}

TEST(Circle, soft_numbers_of_groups_in_closed_form) {
  const auto number = [](const std::vector<double>& angles, double beta) {
    return attention_of(angles.size(), beta).sums(angles).number_2;
  };
  EXPECT_NEAR(number(groups({100}, 1), 9), 1, 1e-12);
  EXPECT_NEAR(number(groups({50, 50}, turn / 2), 9), 2 / (1 + std::exp(-18)), 1e-12);
  // Shares at right angles, so that 0.5 and 0.2 are opposite: sum_ab p_a p_b e^{-beta (1 - cos)}
  EXPECT_NEAR(number(groups({50, 30, 20}, turn / 4), 9),
              1 / (0.38 + 2 * (0.15 + 0.06) * std::exp(-9.0) + 2 * 0.1 * std::exp(-18.0)), 1e-12);
  EXPECT_NEAR(number(groups({10, 10, 10}, turn / 3), 5), 2.996685, 1e-6);
  EXPECT_NEAR(number(groups({10, 10, 10, 10}, turn / 4), 9), 3.999013, 1e-6);
  EXPECT_NEAR(number(groups({10, 10, 10, 10, 10, 10}, turn / 6), 20), 5.999455, 1e-6);
  std::vector<double> ring;
  for (int j = 0; j < 256; ++j) ring.push_back(turn * j / 256);
  EXPECT_NEAR(number(ring, 9), 1 / kernel_eigenvalue(2, 9, 0), 1e-11);
}

TEST(Circle, a_token_of_weight_w_is_w_equal_tokens) {
  // Few tokens are summed by pairs, many by moments; beta 9 has 33 of these.
  for (const std::size_t n : {5, 60}) {
    const auto angles = random_angles(static_cast<int>(n), 11);
    std::vector<double> weights, repeated;
    std::vector<std::size_t> first;  // of the copies of each token
    for (std::size_t j = 0; j < n; ++j) {
      weights.push_back(static_cast<double>(1 + j % 4));
      first.push_back(repeated.size());
      repeated.insert(repeated.end(), 1 + j % 4, angles[j]);
    }
    const CircleAttention weighted(weights, 9, 1, MPI_COMM_SELF);
    const auto all = attention_of(repeated.size(), 9);
    EXPECT_EQ(weighted.tokens(), static_cast<Index>(n));
    EXPECT_EQ(weighted.weight(), static_cast<double>(repeated.size()));
    std::vector<double> rate(n), rate_of_all(repeated.size());
    weighted.velocity(angles, rate);
    all.velocity(repeated, rate_of_all);
    // z_i >= 1 is a sum of a dozen numbers, or of 33 moments of 150 tokens.
    const double bound = n < 33 ? 1e-14 : 1e-12;
    for (std::size_t j = 0; j < n; ++j) EXPECT_NEAR(rate[j], rate_of_all[first[j]], bound);
    const auto sums = weighted.sums(angles), sums_of_all = all.sums(repeated);
    EXPECT_NEAR(sums.number_2 / sums_of_all.number_2, 1, bound);
    EXPECT_NEAR(sums.number_1 / sums_of_all.number_1, 1, bound);
    EXPECT_NEAR(sums.dissipation, sums_of_all.dissipation, bound);
    for (int k = 0; k < 4; ++k)
      EXPECT_LT(std::abs(weighted.moments(angles, 4)[k] - all.moments(repeated, 4)[k]), 1e-14);
  }
}

TEST(Circle, forces_between_opposite_clusters_are_not_lost) {
  // Two clusters 0.1 from opposite places: sin(0.1) e^{beta (cos(pi - 0.1) - 1)} / (1 + ...), below the roundings of moments at beta = 30.
  const double beta = 30, angle = std::numbers::pi - 0.1;
  const double w = std::exp(beta * (std::cos(angle) - 1));
  std::vector<double> rate(2);
  attention_of(2, beta).velocity(std::vector<double>{0, angle}, rate);
  // The angle has a rounding of 2^-52, that of w is beta times as large.
  EXPECT_NEAR(rate[0] / (std::sin(angle) * w / (1 + w)), 1, 1e-13);
  EXPECT_EQ(rate[0], -rate[1]);
}

TEST(Circle, quantiles_of_waves) {
  for (const double amplitude : {1e-6, 0.05, 0.9})
    for (const int waves : {1, 3, 50})
      for (const double share : {1e-9, 0.1, 0.5, 0.77, 1 - 1e-9}) {
        const double angle = wave_quantile(share, waves, amplitude);
        EXPECT_NEAR((angle + amplitude * std::sin(waves * angle) / waves) / turn, share, 1e-15);
      }
}

/// The same without bins: sorted angles, cut at every gap.
CircleClusters by_sorting(std::vector<double> angles, double delta) {
  for (double& one : angles) one -= turn * std::floor(one / turn);
  std::ranges::sort(angles);
  const auto n = angles.size();
  std::vector<std::size_t> cuts;  // the token behind each gap
  for (std::size_t j = 0; j < n; ++j)
    if (angles[j] - (j > 0 ? angles[j - 1] : angles[n - 1] - turn) > delta) cuts.push_back(j);
  CircleClusters found;
  const double all = static_cast<double>(n);
  if (cuts.empty()) return {.each = {{.weight = all}}, .compact_share = 0};
  for (std::size_t c = 0; c < cuts.size(); ++c) {
    const auto first = cuts[c], next = cuts[(c + 1) % cuts.size()];
    const auto size = (next + n - first - 1) % n + 1;
    const auto last = (first + size - 1) % n;
    const double diameter = angles[last] - angles[first] + (last < first ? turn : 0);
    double cosine = 0, sine = 0;
    for (std::size_t j = 0; j < size; ++j) {
      cosine += std::cos(angles[(first + j) % n]);
      sine += std::sin(angles[(first + j) % n]);
    }
    found.each.push_back({static_cast<double>(size), std::atan2(sine, cosine), diameter});
    found.diameter = std::max(found.diameter, diameter);
    if (diameter <= 3 * delta) found.compact_share += static_cast<double>(size) / all;
  }
  std::ranges::sort(found.each, [](const auto& one, const auto& other) {
    return std::pair(-one.weight, one.angle) < std::pair(-other.weight, other.angle);
  });
  return found;
}

TEST(Circle, clusters_are_those_of_sorted_angles) {
  for (const int n : {1, 2, 10, 100, 1000})
    for (std::uint64_t seed = 1; seed <= 20; ++seed)
      for (const double delta : {0.003, 0.05, 0.3, 1.0, 3.0}) {
        const auto angles = random_angles(n, 100 * seed + n);
        const auto found = clusters_on_circle(angles, ones(angles.size()), delta, MPI_COMM_SELF),
                   known = by_sorting(angles, delta);
        ASSERT_EQ(found.number(), known.number()) << n << ' ' << delta;
        const bool closed = std::isinf(found.diameter);
        EXPECT_TRUE(closed || std::abs(found.diameter - known.diameter) < 1e-13);
        for (std::size_t k = 0; k < known.each.size(); ++k) {
          EXPECT_EQ(found.each[k].weight, known.each[k].weight);
          if (closed) continue;
          EXPECT_NEAR(found.each[k].diameter, known.each[k].diameter, 1e-13);
          // Large components may have a mean vector near 0.
          if (found.each[k].diameter < 2) {
            EXPECT_NEAR(found.each[k].angle, known.each[k].angle, 1e-13);
          }
        }
        EXPECT_NEAR(found.compact_share, known.compact_share, 1e-12) << n << ' ' << delta;
      }
}

TEST(Circle, clusters_at_the_edges) {
  const auto clusters = [](const std::vector<double>& angles) {
    return clusters_on_circle(angles, ones(angles.size()), 0.1, MPI_COMM_SELF);
  };
  EXPECT_EQ(clusters({1.0}).number(), 1);
  EXPECT_EQ(clusters({1.0}).compact_share, 1);
  EXPECT_EQ(clusters(std::vector<double>(50, 2.5)).number(), 1);
  EXPECT_EQ(clusters({0, turn / 2}).number(), 2);
  const auto across = clusters({-0.03, 0.03, 3.0});  // a cluster across angle 0 counts once
  EXPECT_EQ(across.number(), 2);
  EXPECT_EQ(across.compact_share, 1);
  EXPECT_NEAR(across.each[0].angle, 0, 1e-15);  // angles are taken modulo 2 pi, which rounds by up to 2^-51
  EXPECT_NEAR(across.each[0].diameter, 0.06, 1e-15);
  EXPECT_EQ(clusters({-1e-300, 0, turn, -turn}).number(), 1);
  std::vector<double> cloud;
  for (int j = 0; j < 1000; ++j) cloud.push_back(turn * j / 1000);
  EXPECT_EQ(clusters(cloud).number(), 1);
  EXPECT_EQ(clusters(cloud).compact_share, 0);
}

TEST(Circle, clusters_of_weights) {
  const std::vector<double> angles{0.5, 0.52, 3.0}, weights{3, 1, 6};
  const auto found = clusters_on_circle(angles, weights, 0.1, MPI_COMM_SELF);
  ASSERT_EQ(found.number(), 2);
  EXPECT_EQ(found.each[0].weight, 6);
  EXPECT_NEAR(found.each[0].angle, 3.0, 1e-15);
  EXPECT_EQ(found.each[1].weight, 4);
  EXPECT_NEAR(found.each[1].angle, 0.505, 1e-6);  // the angle of the mean vector
  EXPECT_NEAR(found.diameter, 0.02, 1e-15);
}

}  // namespace
}  // namespace fluxformer::clusters
