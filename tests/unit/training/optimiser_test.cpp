// Optimisers against their formulas, written out for two numbers, one of which decays.

#include "training/optimiser.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

#include "base/error.hpp"
#include "tests/support/test_vectors.hpp"

namespace fluxformer {
namespace {

using Pair = std::vector<double>;
constexpr double round_off = 1e-15;
const std::vector<char> second_decays{0, 1};
const std::array<Pair, 3> gradients{Pair{0.5, -2}, Pair{0.25, 1}, Pair{-1, 0}};

/// x after each of three steps from (1, -3), rates 0.1, 0.2, 0.05.
std::vector<Pair> course(const OptimiserSettings& settings) {
  Optimiser optimiser(settings, second_decays);
  Pair x{1, -3};
  std::vector<Pair> all;
  const double rates[] = {0.1, 0.2, 0.05};
  for (std::size_t k = 0; k < 3; ++k) {
    optimiser.step(rates[k], gradients[k], x);
    all.push_back(x);
  }
  return all;
}

void expect_near(const Pair& x, const Pair& y) {
  for (std::size_t j = 0; j < 2; ++j) EXPECT_NEAR(x[j], y[j], 4 * round_off * std::abs(y[j]));
}

TEST(Sgd, adds_momentum_and_decay_to_the_gradient) {
  const auto x = course({.method = Method::sgd, .momentum = 0.5, .decay = 0.1});
  // b = (0.5, -2 + 0.1 * -3) = (0.5, -2.3)
  expect_near(x[0], {0.95, -2.77});
  // b = (0.25 + 0.25, -1.15 + 1 - 0.277) = (0.5, -0.427)
  expect_near(x[1], {0.85, -2.6846});
  // b = (0.25 - 1, -0.2135 + 0 - 0.26846) = (-0.75, -0.48196)
  expect_near(x[2], {0.8875, -2.660502});
}

TEST(Sgd, without_momentum_and_decay_is_the_plain_step) {
  const auto x = course({.method = Method::sgd, .momentum = 0, .decay = 0});
  expect_near(x[0], {0.95, -2.8});
  expect_near(x[1], {0.9, -3.0});
}

constexpr OptimiserSettings adaptive{
    .method = Method::adam, .beta1 = 0.5, .beta2 = 0.75, .epsilon = 0.5, .decay = 0};

TEST(Adam, divides_the_mean_by_the_root_of_the_mean_square) {
  const auto x = course(adaptive);
  // t = 1: both means are the gradient itself: g / (|g| + eps).
  expect_near(x[0], {1 - 0.1 * 0.5 / 1, -3 + 0.1 * 2 / 2.5});
  // t = 2: m = (0.25, 0), v = (3/64 + 1/64, 0.75 + 0.25) = (1/16, 1); 1 - b1^2 = 3/4, 1 - b2^2 = 7/16.
  expect_near(x[1], {x[0][0] - 0.2 * (0.25 / 0.75) / (std::sqrt(1.0 / 7) + 0.5), x[0][1]});
  // t = 3: m = (-0.375, 0), v = (3/64 + 1/4, 3/4) = (19/64, 3/4); 7/8 and 37/64.
  expect_near(x[2], {x[1][0] + 0.05 * (0.375 / 0.875) / (std::sqrt(19.0 / 37) + 0.5), x[1][1]});
}

TEST(Adam, feels_decay_through_the_gradient) {
  auto settings = adaptive;
  settings.decay = 0.5;
  const auto x = course(settings);
  // The second slope is -2 + 0.5 * -3 = -3.5.
  expect_near(x[0], {0.95, -3 + 0.1 * 3.5 / 4});
}

TEST(Adamw, shrinks_beside_the_gradient) {
  auto settings = adaptive;
  settings.method = Method::adamw;
  settings.decay = 0.5;
  const auto x = course(settings), plain = course(adaptive);
  // x (1 - 0.1 * 0.5), then Adam's step, which does not know of it; the first number does not decay.
  expect_near(x[0], {plain[0][0], -3 * 0.95 + 0.08});
  expect_near(x[1], {plain[1][0], x[0][1] * 0.9});
  expect_near(x[2], {plain[2][0], x[1][1] * 0.975});
}

class EveryMethod : public testing::TestWithParam<Method> {};

TEST_P(EveryMethod, goes_on_to_the_bit_from_its_state) {
  constexpr std::size_t size = 13;
  std::vector<char> decays(size, 1);
  decays[3] = 0;
  const OptimiserSettings settings{.method = GetParam()};
  const auto gradient = [](unsigned step) { return test::random_vector(size, 40 + step); };
  Optimiser optimiser(settings, decays);
  auto x = test::random_vector(size, 1);
  for (unsigned step = 0; step < 3; ++step) optimiser.step(0.01, gradient(step), x);
  EXPECT_EQ(optimiser.state().steps, 3);

  Optimiser other(settings, decays);
  auto y = x;
  other.restore(optimiser.state());
  for (unsigned step = 3; step < 6; ++step) {
    optimiser.step(0.02, gradient(step), x);
    other.step(0.02, gradient(step), y);
    EXPECT_EQ(x, y);
  }
  EXPECT_EQ(other.state().steps, 6);
}

TEST_P(EveryMethod, refuses_the_state_of_another_size_or_method) {
  const OptimiserSettings settings{.method = GetParam()};
  Optimiser optimiser(settings, std::vector<char>(4, 1));
  EXPECT_THROW(optimiser.restore(Optimiser(settings, std::vector<char>(5, 1)).state()),
               std::invalid_argument);
  const OptimiserSettings another{.method = GetParam() == Method::sgd ? Method::adam : Method::sgd};
  EXPECT_THROW(optimiser.restore(Optimiser(another, std::vector<char>(4, 1)).state()), std::invalid_argument);
  EXPECT_EQ(optimiser.state().steps, 0);
}

TEST_P(EveryMethod, without_gradient_and_decay_stands_still) {
  Optimiser optimiser({.method = GetParam(), .decay = 0.3}, {0, 0});
  Pair x{1, -3};
  for (int step = 0; step < 3; ++step) optimiser.step(0.1, Pair{0, 0}, x);
  EXPECT_EQ(x, (Pair{1, -3}));
}

INSTANTIATE_TEST_SUITE_P(Methods, EveryMethod, testing::Values(Method::sgd, Method::adam, Method::adamw));

TEST(Method, is_named_or_refused) {
  EXPECT_EQ(method_named("sgd"), Method::sgd);
  EXPECT_EQ(method_named("adam"), Method::adam);
  EXPECT_EQ(method_named("adamw"), Method::adamw);
  try {
    method_named("lion");
    FAIL();
  } catch (const BadInput& error) {
    EXPECT_THAT(error.what(),
                testing::AllOf(testing::HasSubstr("train.optimiser = lion"), testing::HasSubstr("adamw")));
  }
}

}  // namespace
}  // namespace fluxformer
