// Leapfrog steps against their theory, and moments of densities that are known.

#include "solvers/sampling/hamiltonian.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "base/error.hpp"

namespace fluxformer::sampling {
namespace {

/// x^4/4 + (x - y)^2/2: not quadratic, so that no symmetry hides a wrong step.
double quartic(std::span<const double> q, std::span<double> gradient) {
  const double x = q[0], d = q[0] - q[1];
  gradient[0] = x * x * x + d;
  gradient[1] = -d;
  return x * x * x * x / 4 + d * d / 2;
}

PhasePoint start_of(const Potential& potential) {
  PhasePoint at{.q = {0.3, -0.8}, .p = {1.1, 0.4}, .gradient = {0, 0}};
  at.potential = potential(at.q, at.gradient);
  return at;
}

TEST(Leapfrog, goes_back_the_way_it_came) {
  auto at = start_of(quartic);
  const auto before = at;
  ASSERT_TRUE(leapfrog(quartic, at, 0.1, 40));
  EXPECT_GT(std::abs(at.q[0] - before.q[0]), 0.1);
  for (double& p : at.p) p = -p;
  ASSERT_TRUE(leapfrog(quartic, at, 0.1, 40));
  for (std::size_t k = 0; k < 2; ++k) {  // 80 steps, each of some round-offs of numbers about 1
    EXPECT_NEAR(at.q[k], before.q[k], 1e-13);
    EXPECT_NEAR(-at.p[k], before.p[k], 1e-13);
  }
}

TEST(Leapfrog, is_of_second_order) {
  const auto error = [](int steps) {
    auto at = start_of(quartic), fine = at;
    leapfrog(quartic, at, 2.0 / steps, steps);
    leapfrog(quartic, fine, 2.0 / 12800, 12800);
    return std::hypot(at.q[0] - fine.q[0], at.q[1] - fine.q[1]);
  };
  EXPECT_NEAR(std::log2(error(100) / error(200)), 2, 0.02);
}

TEST(Leapfrog, says_where_it_diverges) {
  const auto steep = [](std::span<const double> q, std::span<double> gradient) {
    gradient[0] = 1e6 * q[0];
    return 5e5 * q[0] * q[0];
  };
  PhasePoint at{.q = {1e-3}, .p = {1}, .gradient = {1e3}, .potential = 0.5};
  EXPECT_FALSE(leapfrog(steep, at, 0.1, 100));  // stable below 2e-3
  const auto hole = [](std::span<const double>, std::span<double> gradient) {
    gradient[0] = 0;
    return std::numeric_limits<double>::quiet_NaN();
  };
  EXPECT_FALSE(leapfrog(hole, at, 1e-3, 1));
}

TEST(HamiltonianChain, has_the_moments_of_a_skew_gaussian) {
  // Standard deviations 1 and 0.1, correlation 0.9.
  const double r = 0.9, b = 0.1;
  const auto potential = [&](std::span<const double> q, std::span<double> gradient) {
    const double u = q[0] - 3, v = (q[1] + 2) / b, s = 1 - r * r;
    gradient[0] = (u - r * v) / s;
    gradient[1] = (v - r * u) / s / b;
    return (u * u - 2 * r * u * v + v * v) / (2 * s);
  };
  constexpr int draws = 4000;
  int visits = 0;
  std::array<double, 2> mean = {};
  double uu = 0, uv = 0, vv = 0;
  const auto chain = hamiltonian_chain(potential, {0, 0}, {.warm_up = 300, .draws = draws, .steps = 25},
                                       [&](std::span<const double> q) {
                                         const double u = q[0] - 3, v = (q[1] + 2) / b;
                                         ++visits;
                                         mean[0] += u / draws, mean[1] += v / draws;
                                         uu += u * u / draws, uv += u * v / draws, vv += v * v / draws;
                                       });
  EXPECT_EQ(visits, draws);
  // Aimed at 0.8; the averaged step of the warm-up lies below the ones that were tried.
  EXPECT_GT(chain.acceptance, 0.75);
  EXPECT_LT(chain.acceptance, 0.95);
  EXPECT_EQ(chain.divergent, 0);
  EXPECT_LT(chain.step, 0.2);  // at most twice the smallest standard deviation, 0.043, and more than a tenth
  EXPECT_GT(chain.step, 0.01);
  // A tenth of the draws as independent ones: 400, four standard errors (0.05, of squares 0.07).
  EXPECT_NEAR(mean[0], 0, 0.2);
  EXPECT_NEAR(mean[1], 0, 0.2);
  EXPECT_NEAR(uu, 1, 0.28);
  EXPECT_NEAR(vv, 1, 0.28);
  EXPECT_NEAR(uv, r, 0.28);
}

TEST(HamiltonianChain, does_not_mind_a_step_that_is_too_large) {
  // exp(-x^4/4): <x^2> = 2 Gamma(3/4)/Gamma(1/4) = 0.676. A chain that did not reject would be wrong by the
  // error of its steps.
  const auto potential = [](std::span<const double> q, std::span<double> gradient) {
    gradient[0] = q[0] * q[0] * q[0];
    return std::pow(q[0], 4) / 4;
  };
  constexpr int draws = 40000;
  double square = 0;
  const auto chain =
      hamiltonian_chain(potential, {1}, {.warm_up = 500, .draws = draws, .steps = 2, .acceptance = 0.6},
                        [&](std::span<const double> q) { square += q[0] * q[0] / draws; });
  EXPECT_LT(chain.acceptance, 0.75);
  // <x^4> = 1: the squares' deviation is 0.74; a quarter of the draws as independent ones, four standard
  // errors.
  EXPECT_NEAR(square, 2 * std::tgamma(0.75) / std::tgamma(0.25), 4 * 0.74 / std::sqrt(draws / 4.0));
}

TEST(HamiltonianChain, is_the_same_for_the_same_seed) {
  const auto last = [](std::uint64_t seed) {
    return hamiltonian_chain(quartic, {0, 0}, {.warm_up = 20, .draws = 20, .steps = 5, .seed = seed},
                             [](std::span<const double>) {})
        .last;
  };
  EXPECT_EQ(last(1), last(1));
  EXPECT_NE(last(1), last(2));
}

TEST(HamiltonianChain, does_not_start_where_the_density_is_zero) {
  const auto nowhere = [](std::span<const double>, std::span<double>) {
    return std::numeric_limits<double>::infinity();
  };
  EXPECT_THROW(hamiltonian_chain(nowhere, {0}, {}, [](std::span<const double>) {}), BadInput);
}

}  // namespace
}  // namespace fluxformer::sampling
