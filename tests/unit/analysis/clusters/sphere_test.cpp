// Attention on spheres by the model's kernel against plain sums, its numbers of clusters against closed forms, and starts.

#include "analysis/clusters/sphere.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <vector>

#include "analysis/clusters/circle.hpp"
#include "analysis/clusters/growth_rates.hpp"

namespace fluxformer::clusters {
namespace {

/// Velocities and numbers by their definitions.
struct PlainSums {
  std::vector<double> rate;
  SoftNumbers numbers;
  PlainSums(const Tokens& tokens, double beta) : rate(tokens.x.size()) {
    const Index n = tokens.count();
    const int d = tokens.dimension;
    double all = 0, logarithms = 0, work = 0;
    for (Index i = 0; i < n; ++i) {
      std::vector<double> y(d, 0.0);
      double z = 0, along = 0, square = 0;
      for (Index j = 0; j < n; ++j) {
        double apart = 0;  // <x, y> - 1 = -|x - y|^2 / 2
        for (int k = 0; k < d; ++k) apart += std::pow(tokens[i][k] - tokens[j][k], 2);
        const double weight = std::exp(-beta * apart / 2);
        z += weight;
        for (int k = 0; k < d; ++k) y[k] += weight * tokens[j][k];
      }
      for (int k = 0; k < d; ++k) along += y[k] / z * tokens[i][k];
      for (int k = 0; k < d; ++k) {
        const double one = y[k] / z - along * tokens[i][k];
        rate[i * d + k] = one;
        square += one * one;
      }
      all += z;
      logarithms += std::log(z / static_cast<double>(n));
      work += z * square;
    }
    const auto count = static_cast<double>(n);
    numbers = {.number_2 = count * count / all,
               .number_1 = std::exp(-logarithms / count),
               .energy = all / (2 * beta * count * count),
               .dissipation = work / (count * count)};
  }
};

SphereAttention attention_of(const Tokens& tokens, double beta) {
  return {tokens.count(), tokens.dimension, beta, MPI_COMM_SELF};
}
SoftNumbers numbers_of(const Tokens& tokens, double beta) {
  return attention_of(tokens, beta).sums(tokens.x);
}

/// Tokens in these directions, so many in each.
Tokens repeated(const Tokens& directions, const std::vector<int>& counts) {
  Tokens all{directions.dimension, {}};
  for (Index group = 0; group < directions.count(); ++group)
    for (int k = 0; k < counts[group]; ++k)
      all.x.insert(all.x.end(), directions[group], directions[group] + directions.dimension);
  return all;
}

TEST(Sphere, attention_is_that_of_all_pairs) {
  for (const int dimension : {2, 3, 5, 16})
    for (const int count : {1, 2, 63, 130, 300})
      for (const double beta : {0.5, 9.0, 40.0}) {
        const auto tokens = random_tokens(3, count, dimension, 11);
        const PlainSums plain(tokens, beta);
        auto attention = attention_of(tokens, beta);
        EXPECT_EQ(attention.first(), 0);
        EXPECT_EQ(attention.count(), count);
        std::vector<double> rate(tokens.x.size());
        attention.velocity(tokens.x, rate);
        // <x, y> has an error of some 1e-16, which beta multiplies.
        for (std::size_t k = 0; k < rate.size(); ++k) ASSERT_NEAR(rate[k], plain.rate[k], 1e-13);
        const auto sums = attention.sums(tokens.x);
        EXPECT_NEAR(sums.number_2 / plain.numbers.number_2, 1, 1e-13);
        EXPECT_NEAR(sums.number_1 / plain.numbers.number_1, 1, 1e-13);
        EXPECT_NEAR(sums.energy / plain.numbers.energy, 1, 1e-13);
        EXPECT_NEAR(sums.dissipation, plain.numbers.dissipation, 1e-13);
      }
}

TEST(Sphere, directions_move_the_same_whatever_the_lengths) {
  const auto tokens = random_tokens(0, 40, 3, 2);
  auto longer = tokens;
  for (Index i = 0; i < 40; ++i)
    for (int k = 0; k < 3; ++k) longer.x[3 * i + k] *= 1 + 0.02 * static_cast<double>(i);
  auto attention = attention_of(tokens, 5);
  std::vector<double> rate(tokens.x.size()), other(tokens.x.size());
  attention.velocity(tokens.x, rate);
  attention.velocity(longer.x, other);
  for (Index i = 0; i < 40; ++i)
    for (int k = 0; k < 3; ++k)
      EXPECT_NEAR(other[3 * i + k], (1 + 0.02 * static_cast<double>(i)) * rate[3 * i + k], 1e-14);
  EXPECT_NEAR(attention.sums(longer.x).dissipation, attention.sums(tokens.x).dissipation, 1e-14);
}

TEST(Sphere, on_the_circle_is_attention_by_moments) {
  const auto tokens = random_tokens(0, 500, 2, 8);
  std::vector<double> angles(500), turning(500), rate(1000);
  for (Index i = 0; i < 500; ++i) angles[i] = std::atan2(tokens[i][1], tokens[i][0]);
  const CircleAttention moments(std::vector<double>(500, 1.0), 9, 1, MPI_COMM_SELF);
  moments.velocity(angles, turning);
  auto pairs = attention_of(tokens, 9);
  pairs.velocity(tokens.x, rate);
  // Moments have an error of some n K 2^-53 / z.
  for (Index i = 0; i < 500; ++i) {
    EXPECT_NEAR(rate[2 * i], -turning[i] * std::sin(angles[i]), 1e-11);
    EXPECT_NEAR(rate[2 * i + 1], turning[i] * std::cos(angles[i]), 1e-11);
  }
  const auto one = moments.sums(angles);
  const auto other = pairs.sums(tokens.x);
  EXPECT_NEAR(other.number_2, one.number_2, 1e-11);
  EXPECT_NEAR(other.number_1, one.number_1, 1e-11);
  EXPECT_NEAR(other.energy, one.energy, 1e-11);
  EXPECT_NEAR(other.dissipation, one.dissipation, 1e-11);
}

TEST(Sphere, numbers_of_groups_are_hill_numbers) {
  const auto shares = repeated({3, {1, 0, 0, 0, 1, 0, 0, 0, 1}}, {50, 30, 20});
  EXPECT_NEAR(numbers_of(shares, 9).number_2, 1 / (0.38 + 0.62 * std::exp(-9)), 1e-12);
  double logarithms = 0;
  for (const double share : {0.5, 0.3, 0.2})
    logarithms += share * std::log(share + (1 - share) * std::exp(-9));
  EXPECT_NEAR(numbers_of(shares, 9).number_1, std::exp(-logarithms), 1e-12);
  EXPECT_NEAR(numbers_of(shares, 9).energy, 1 / (2 * 9 * numbers_of(shares, 9).number_2), 1e-15);
  // At right angles the three groups pull on each other.
  EXPECT_GT(numbers_of(shares, 9).dissipation, 0);

  const Tokens opposite{3, {0, 0, 1, 0, 0, -1}};
  EXPECT_NEAR(numbers_of(opposite, 2).number_2, 2 / (1 + std::exp(-4)), 1e-13);
  EXPECT_EQ(numbers_of(opposite, 2).dissipation, 0);
  EXPECT_NEAR(numbers_of(repeated(opposite, {7, 0}), 2).number_2, 1, 1e-14);
  // Equal clusters on a ring, to half a unit of the last printed digit.
  EXPECT_NEAR(numbers_of(ring(3), 5).number_2, 2.996685, 5e-7);
  EXPECT_NEAR(numbers_of(ring(4), 9).number_2, 3.999013, 5e-7);
  EXPECT_NEAR(numbers_of(ring(6), 20).number_2, 5.999455, 5e-7);
}

TEST(Sphere, an_even_cloud_has_the_number_of_the_kernel) {
  // N_2 of an even sphere is 1 / lambda_0; designs have it up to harmonics beyond their degree, lambda_12 of the 600-cell.
  EXPECT_NEAR(numbers_of(design("cell600"), 1).number_2 * kernel_eigenvalue(4, 1, 0), 1, 1e-12);
  EXPECT_NEAR(numbers_of(design("cell600"), 2).number_2 * kernel_eigenvalue(4, 2, 0), 1, 2e-9);
  EXPECT_NEAR(1 / kernel_eigenvalue(3, 5, 0), 10.000454, 5e-7);
  // Random tokens: E 1/N_2 = 1/n + (1 - 1/n) lambda_0, with a standard deviation of some 1/n.
  const int n = 3000;
  const double mean = 1.0 / n + (1 - 1.0 / n) * kernel_eigenvalue(3, 9, 0);
  EXPECT_NEAR(1 / numbers_of(random_tokens(0, n, 3, 1), 9).number_2, mean, 5.0 / n);
}

TEST(Sphere, two_clusters_obey_the_law_of_pairs) {
  // phi' = -sin phi w ((1 - m) / (m + (1 - m) w) + m / ((1 - m) + m w)), w = e^{beta (cos phi - 1)}; 7 tokens and 3.
  const double phi = 1.1, beta = 4, m = 0.7, w = std::exp(beta * (std::cos(phi) - 1));
  const auto tokens = repeated({3, {1, 0, 0, std::cos(phi), std::sin(phi), 0}}, {7, 3});
  std::vector<double> rate(tokens.x.size());
  attention_of(tokens, beta).velocity(tokens.x, rate);
  const double first = rate[1];  // along the tangent (0, 1, 0)
  const double second = -std::sin(phi) * rate[27] + std::cos(phi) * rate[28];
  EXPECT_NEAR(second - first, -std::sin(phi) * w * ((1 - m) / (m + (1 - m) * w) + m / (1 - m + m * w)),
              1e-14);
  for (int i = 1; i < 7; ++i) EXPECT_NEAR(rate[3 * i + 1], first, 1e-15);
}

TEST(Sphere, energy_rises_as_it_is_dissipated) {
  const auto tokens = random_tokens(0, 60, 4, 3);
  auto attention = attention_of(tokens, 6);
  std::vector<double> rate(tokens.x.size());
  attention.velocity(tokens.x, rate);
  const double step = 1e-4;
  const double change = (attention.sums(moved(tokens, rate, step).x).energy -
                         attention.sums(moved(tokens, rate, -step).x).energy) /
                        (2 * step);
  // step^2 times a third derivative of order 1
  EXPECT_NEAR(change, attention.sums(tokens.x).dissipation, 1e-8);
  EXPECT_GT(change, 0.001);
}

TEST(Sphere, powers_tell_one_pole_from_two_and_from_none) {
  const auto powers = [](const Tokens& tokens) { return degree_powers(tokens, MPI_COMM_SELF); };
  const Tokens pole{3, {0.6, 0, 0.8}};
  EXPECT_NEAR(powers(repeated(pole, {9}))[0], 1, 1e-14);
  EXPECT_NEAR(powers(repeated(pole, {9}))[1], 1, 1e-14);
  const Tokens opposite{3, {0.6, 0, 0.8, -0.6, 0, -0.8}};
  EXPECT_NEAR(powers(opposite)[0], 0, 1e-15);
  EXPECT_NEAR(powers(opposite)[1], 1, 1e-14);
  for (const auto& even : {design("icosahedron"), design("cell600"), design("e8")}) {
    EXPECT_NEAR(powers(even)[0], 0, 1e-15);
    EXPECT_NEAR(powers(even)[1], 0, 1e-14);
  }
  // Independent tokens: both are 1/n in the mean.
  const int n = 20000;
  EXPECT_LT(powers(random_tokens(0, n, 3, 1))[0], 10.0 / n);
  EXPECT_LT(powers(random_tokens(0, n, 3, 1))[1], 10.0 / n);
}

TEST(Sphere, random_tokens_are_keyed_by_token_and_of_length_1) {
  const auto all = random_tokens(0, 30, 5, 9), part = random_tokens(12, 4, 5, 9);
  EXPECT_EQ(part.x, std::vector<double>(all[12], all[16]));
  for (Index i = 0; i < 30; ++i) {
    double square = 0;
    for (int k = 0; k < 5; ++k) square += all[i][k] * all[i][k];
    EXPECT_NEAR(square, 1, 2e-15);
  }
  EXPECT_NE(random_tokens(0, 30, 5, 10).x, all.x);
}

TEST(Sphere, moved_tokens_follow_geodesics) {
  const auto tokens = random_tokens(0, 20, 3, 1);
  const auto along = zonal_displacement(tokens, 2, 1);
  const auto there = moved(tokens, along, 0.5), half = moved(tokens, along, 0.25);
  EXPECT_EQ(moved(tokens, along, 0).x, tokens.x);
  for (Index i = 0; i < 20; ++i) {
    double square = 0, cosine = 0, length = 0, middle = 0;
    for (int k = 0; k < 3; ++k) {
      square += there[i][k] * there[i][k];
      cosine += tokens[i][k] * there[i][k];
      length += along[3 * i + k] * along[3 * i + k];
      middle += half[i][k] * there[i][k];
    }
    EXPECT_NEAR(square, 1, 1e-14);
    EXPECT_NEAR(cosine, std::cos(0.5 * std::sqrt(length)), 1e-14);
    EXPECT_NEAR(middle, std::cos(0.25 * std::sqrt(length)), 1e-14);  // half-way on the same arc
  }
  const Tokens pole{3, {0, 0, 1}};
  EXPECT_EQ(moved(pole, {0, 0, 0}, 1).x, pole.x);  // where a harmonic has no slope
}

}  // namespace
}  // namespace fluxformer::clusters
