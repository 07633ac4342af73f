// Minima that are known.

#include "solvers/saddle/minimise.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.hpp"

namespace fluxformer::saddle {
namespace {

/// Rosenbrock's valley, with its minimum 0 at (1, 1).
double valley(const std::vector<double>& x, std::vector<double>& gradient) {
  const double a = 1 - x[0], b = x[1] - x[0] * x[0];
  gradient = {-2 * a - 400 * x[0] * b, 200 * b};
  return a * a + 100 * b * b;
}

TEST(Minimise, finds_the_end_of_a_valley) {
  const auto found = minimise(valley, {-1.2, 1}, {.tolerance = 1e-8});
  EXPECT_TRUE(found.converged);
  EXPECT_NEAR(found.x[0], 1, 1e-12);
  EXPECT_NEAR(found.x[1], 1, 1e-12);
  EXPECT_LT(found.gradient, 1e-12);
  EXPECT_GT(found.iterations, 0);
}

TEST(Minimise, steps_back_where_the_function_is_not_defined) {
  // x - ln x for x > 0, with its minimum at 1; the first step goes beyond 0.
  const auto f = [](const std::vector<double>& x, std::vector<double>& gradient) {
    gradient = {x[0] > 0 ? 1 - 1 / x[0] : 0};
    return x[0] > 0 ? x[0] - std::log(x[0]) : std::numeric_limits<double>::infinity();
  };
  const auto found = minimise(f, {9}, {.tolerance = 1e-10});
  EXPECT_TRUE(found.converged);
  EXPECT_NEAR(found.x[0], 1, 1e-12);
}

TEST(Minimise, does_not_begin_where_the_function_is_not_defined) {
  const auto f = [](const std::vector<double>&, std::vector<double>&) {
    return std::numeric_limits<double>::infinity();
  };
  const auto found = minimise(f, {1, 2}, {});
  EXPECT_FALSE(found.converged);
  EXPECT_EQ(found.x, (std::vector<double>{1, 2}));
  EXPECT_EQ(found.evaluations, 1);
}

TEST(Minimise, says_when_it_did_not_converge) {
  EXPECT_FALSE(
      minimise(valley, {-1.2, 1}, {.tolerance = 1e-8, .iterations = 2, .newton_steps = 0}).converged);
}

TEST(Minimise, passes_on_what_the_function_throws) {
  const auto f = [](const std::vector<double>&, std::vector<double>&) -> double { throw BadInput("no"); };
  EXPECT_THROW(minimise(f, {1}, {}), BadInput);
}

}  // namespace
}  // namespace fluxformer::saddle
