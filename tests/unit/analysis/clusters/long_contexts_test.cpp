// Tokens of one cosine in contexts of any length, against printed values and limits.

#include "analysis/clusters/long_contexts.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>
#include <utility>
#include <vector>

namespace fluxformer::clusters {
namespace {

Context of(double tokens, double scaling) {
  return {tokens, scaling * std::log(tokens)};
}

/// d gamma/dt of n tokens x: x_i' = P_i y_i with y_i = (x_i + w sum of the others) / (1 + (n-1) w), and gamma' = 2 <x_i', x_j>.
double rate_of_cosine(const Context& context, double cosine) {
  const double n = context.tokens, w = std::exp(-context.beta * (1 - cosine)), z = 1 + (n - 1) * w;
  const double along_itself = (1 + (n - 1) * w * cosine) / z,     // <y_i, x_i>
      along_another = (cosine + w * (1 + (n - 2) * cosine)) / z;  // <y_i, x_j>
  return 2 * (along_another - along_itself * cosine);
}

TEST(LongContexts, times_are_those_of_the_equation) {
  // A classical Runge-Kutta method of 4000 steps, of order h^4 = 1e-14 here.
  const Context context{40, 2.5};
  const double end = time_between(context, 0.1, 0.9);
  constexpr int steps = 4000;
  double gamma = 0.1;
  const double h = end / steps;
  for (int step = 0; step < steps; ++step) {
    const double a = rate_of_cosine(context, gamma), b = rate_of_cosine(context, gamma + h / 2 * a),
                 c = rate_of_cosine(context, gamma + h / 2 * b), d = rate_of_cosine(context, gamma + h * c);
    gamma += h / 6 * (a + 2 * b + 2 * c + d);
  }
  EXPECT_NEAR(gamma, 0.9, 1e-11);
}

TEST(LongContexts, times_to_the_end_and_from_rest) {
  // Near gamma = 1 the distance falls as e^{-2t}: ten times closer takes log(10)/2 longer.
  for (const double n : {2.0, 8.0, 1e9, 1e15})
    EXPECT_NEAR(time_between(of(n, 1), 0.5, 0.999999) - time_between(of(n, 1), 0.5, 0.99999),
                std::log(10) / 2, 2e-4)
        << n;
  EXPECT_EQ(time_between({5, 1}, -0.25, 0.5), std::numeric_limits<double>::infinity());
  EXPECT_EQ(time_between(of(1e15, 100), 0, 0.5), std::numeric_limits<double>::infinity());
}

// Half a unit of the last printed digit.
TEST(LongContexts, gather_fast_below_the_critical_scaling_and_slowly_above) {
  EXPECT_EQ(critical_scaling(0.5), 2);
  EXPECT_NEAR(time_between(of(1e6, 1.5), 0.5, 0.99), 2.300676, 5e-7);
  EXPECT_NEAR(time_between(of(1e6, 2), 0.5, 0.99), 2.370757, 5e-7);
  EXPECT_NEAR(time_between(of(1e6, 3), 0.5, 0.99), 50.783977, 5e-7);
  // Far below it is that of equal weights, gamma' = 2 gamma (1 - gamma).
  EXPECT_NEAR(time_between(of(1e12, 1), 0.5, 0.99), std::log(99) / 2, 1e-5);
  for (const auto& [n, ratio] : {std::pair{1e6, 1.05241}, {1e9, 1.00435}, {1e12, 1.00127}})
    EXPECT_NEAR(time_between(of(n, 3), 0.5, 0.99) * 2 * 0.25 * 3 * std::log(n) / std::sqrt(n), ratio, 5e-6)
        << n;
}

TEST(LongContexts, from_orthogonal_tokens_the_critical_scaling_is_1) {
  for (const auto& [n, excess] : {std::pair{1e6, 5.7248e-3}, {1e9, 2.832e-4}, {1e12, 1.23e-5}})
    EXPECT_NEAR(time_between(of(n, 0.5), 0, 0.5) - std::log(n) / 2, excess, 6e-8) << n;
  for (const auto& [n, ratio] : {std::pair{1e6, 1.00636}, {1e9, 1.00203}, {1e12, 1.00106}})
    EXPECT_NEAR(time_between(of(n, 1.5), 0, 0.5) /
                    (std::sqrt(n) / 2 * (std::log(n / (1.5 * std::log(n))) - std::numbers::egamma)),
                ratio, 5e-6)
        << n;
}

TEST(LongContexts, a_layer_gathers_tokens_below_the_critical_scaling) {
  for (const auto& [c, cosine] :
       {std::pair{1.0, 0.999999}, {1.5, 0.999061}, {2.0, 0.8}, {2.5, 0.515562}, {3.0, 0.5005}})
    EXPECT_NEAR(cosine_behind_layer(of(1e6, c), 0.5, {}), cosine, 5e-7) << c;
  // At it 4 rho / (1 + 3 rho), up to 1/n.
  for (const double rho : {0.1, 0.5, 0.9})
    EXPECT_NEAR(cosine_behind_layer(of(1e9, critical_scaling(rho)), rho, {}), 4 * rho / (1 + 3 * rho), 1e-8);
  // No step, no change; a long one forgets the residual.
  EXPECT_DOUBLE_EQ(cosine_behind_layer(of(100, 1), 0.3, 0.0), 0.3);
  EXPECT_NEAR(cosine_behind_layer(of(100, 1), 0.3, 1e12), cosine_behind_layer(of(100, 1), 0.3, {}), 1e-11);
}

TEST(LongContexts, few_random_keys_act_where_attention_is_sharp) {
  EXPECT_NEAR(acting_share(2, 100), 0.05652547, 5e-9);
  EXPECT_NEAR(acting_share(3, 100), 0.01, 5e-9);
  EXPECT_NEAR(acting_share(5, 100), 0.00059102, 5e-9);
  EXPECT_EQ(acting_share(7, 0), 1);
}

}  // namespace
}  // namespace fluxformer::clusters
