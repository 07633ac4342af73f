// Tokens that are spread evenly: unit vectors whose means are those of the sphere, and displacements that are gradients of harmonics.

#include "analysis/clusters/evenly_spread.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <set>
#include <vector>

#include "base/error.hpp"

namespace fluxformer::clusters {
namespace {

/// Mean of <x, e>^power over the sphere: 1 3 5 ... (power - 1) / (d (d + 2) ... (d + power - 2)) for even powers, else 0.
double mean_power(int d, int power) {
  if (power % 2 == 1) return 0;
  double mean = 1;
  for (int k = 0; k < power; k += 2) mean *= (k + 1.0) / (d + k);
  return mean;
}

TEST(EvenlySpread, designs_have_the_means_of_the_sphere_up_to_their_degree_and_not_beyond) {
  const struct {
    const char* name;
    int dimension, count, exact;
  } known[] = {{"icosahedron", 3, 12, 5}, {"cell600", 4, 120, 11}, {"e8", 8, 240, 7}};
  for (const auto& one : known) {
    const auto tokens = design(one.name);
    EXPECT_EQ(tokens.dimension, one.dimension);
    EXPECT_EQ(tokens.count(), one.count);
    std::set<std::vector<long>> different;
    std::vector<double> e(one.dimension);
    for (int k = 0; k < one.dimension; ++k)
      e[k] = std::sqrt(2 * (k + 1.0) / (one.dimension * (one.dimension + 1)));
    std::vector<double> means(one.exact + 2, 0.0);
    for (Index i = 0; i < tokens.count(); ++i) {
      double square = 0, along = 0;
      std::vector<long> rounded;
      for (int k = 0; k < one.dimension; ++k) {
        square += tokens[i][k] * tokens[i][k];
        along += tokens[i][k] * e[k];
        rounded.push_back(std::lround(1e6 * tokens[i][k]));
      }
      different.insert(rounded);
      EXPECT_NEAR(square, 1, 1e-15);
      for (std::size_t power = 1; power < means.size() + 1; ++power)
        means[power - 1] += std::pow(along, power) / static_cast<double>(tokens.count());
    }
    EXPECT_EQ(std::ssize(different), one.count);
    for (int power = 1; power <= one.exact; ++power)
      EXPECT_NEAR(means[power - 1], mean_power(one.dimension, power), 1e-15) << one.name << ' ' << power;
    EXPECT_GT(std::abs(means[one.exact] - mean_power(one.dimension, one.exact + 1)), 1e-6) << one.name;
  }
  EXPECT_THROW(design("cube"), BadInput);
}

TEST(EvenlySpread, rings_are_roots_of_unity) {
  const auto tokens = ring(5);
  for (Index j = 0; j < 5; ++j) {
    EXPECT_NEAR(tokens[j][0], std::cos(2 * std::numbers::pi * j / 5), 1e-15);
    EXPECT_NEAR(tokens[j][1], std::sin(2 * std::numbers::pi * j / 5), 1e-15);
  }
}

TEST(EvenlySpread, displacements_are_tangential_and_change_the_harmonic_by_its_slope) {
  // The Gegenbauer polynomials by hand: degrees 1, 2, 3.
  const auto harmonic = [](int d, int degree, double t) {
    if (degree == 1) return t;
    if (degree == 2) return (d * t * t - 1) / (d - 1);
    return ((d + 2) * t * t * t - 3 * t) / (d - 1);
  };
  for (const auto& tokens : {ring(7), design("icosahedron"), design("cell600"), design("e8")}) {
    const int d = tokens.dimension;
    const auto first = zonal_displacement(tokens, 1, 3);  // e - <x, e> x
    // e from the displacement of degree 1: its sum is n (1 - 1/d) e.
    std::vector<double> e(d, 0.0);
    for (Index i = 0; i < std::ssize(first); ++i)
      e[i % d] += first[i] / (static_cast<double>(tokens.count()) * (1 - 1.0 / d));
    for (int degree = 1; degree <= 3; ++degree) {
      const auto moved = zonal_displacement(tokens, degree, 3);
      for (Index i = 0; i < tokens.count(); ++i) {
        double radial = 0, along = 0, shift = 0;
        for (int k = 0; k < d; ++k) {
          radial += moved[i * d + k] * tokens[i][k];
          along += e[k] * tokens[i][k];
          shift += e[k] * moved[i * d + k];
        }
        EXPECT_NEAR(radial, 0, 1e-14);
        const double step = 1e-5,
                     slope =
                         (harmonic(d, degree, along + step) - harmonic(d, degree, along - step)) / (2 * step);
        EXPECT_NEAR(shift, slope * (1 - along * along), 1e-8)
            << d << ' ' << degree;  // differences of numbers of size 1
      }
    }
    EXPECT_NE(zonal_displacement(tokens, 2, 3), zonal_displacement(tokens, 2, 4));
  }
}

}  // namespace
}  // namespace fluxformer::clusters
