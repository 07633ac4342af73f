// Moments of densities that are known.

#include "solvers/sampling/adaptive_metropolis.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.hpp"

namespace fluxformer::sampling {
namespace {

TEST(RandomWalk, has_the_moments_of_a_skew_gaussian) {
  // Standard deviations 1 and 0.01, correlation 0.9: a walk that did not learn them would hardly move.
  const double r = 0.9, b = 0.01;
  const auto density = [&](std::span<const double> x) {
    const double u = x[0] - 3, v = (x[1] + 2) / b;
    return -(u * u - 2 * r * u * v + v * v) / (2 * (1 - r * r));
  };
  double count = 0, mean[2] = {}, uu = 0, uv = 0, vv = 0;
  const auto walk =
      random_walk(density, {0, -2}, {.warm_up = 5000, .steps = 100000}, [&](std::span<const double> x) {
        const double u = x[0] - 3, v = (x[1] + 2) / b;
        ++count;
        mean[0] += u, mean[1] += v;
        uu += u * u, uv += u * v, vv += v * v;
      });
  EXPECT_EQ(count, 100000);
  EXPECT_GT(walk.accepted, 0.2);  // 0.35 is the best for two dimensions
  EXPECT_LT(walk.accepted, 0.5);
  // Neighbouring states are correlated over some ten steps: 1e4 independent ones, four standard errors.
  EXPECT_NEAR(mean[0] / count, 0, 0.04);
  EXPECT_NEAR(mean[1] / count, 0, 0.04);
  EXPECT_NEAR(uu / count, 1, 0.06);
  EXPECT_NEAR(vv / count, 1, 0.06);
  EXPECT_NEAR(uv / count, r, 0.06);
}

TEST(RandomWalk, is_the_same_for_the_same_seed) {
  const auto density = [](std::span<const double> x) { return -x[0] * x[0] / 2; };
  const auto last = [&](std::uint64_t seed) {
    return random_walk(density, {0}, {.warm_up = 100, .steps = 100, .seed = seed},
                       [](std::span<const double>) {})
        .last;
  };
  EXPECT_EQ(last(1), last(1));
  EXPECT_NE(last(1), last(2));
}

TEST(RandomWalk, never_goes_where_the_density_is_zero) {
  const auto density = [](std::span<const double> x) {
    return x[0] > 0 ? -x[0] : -std::numeric_limits<double>::infinity();
  };
  double sum = 0;
  random_walk(density, {1}, {.warm_up = 2000, .steps = 50000}, [&](std::span<const double> x) {
    EXPECT_GT(x[0], 0);
    sum += x[0];
  });
  EXPECT_NEAR(sum / 50000, 1, 0.1);  // an exponential; some 20 steps are correlated: four standard errors
  EXPECT_THROW(random_walk(density, {-1}, {}, [](std::span<const double>) {}), BadInput);
}

}  // namespace
}  // namespace fluxformer::sampling
