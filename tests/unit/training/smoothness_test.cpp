// The penalty on weights that change with depth, against the integral it approximates.

#include "training/smoothness.hpp"

#include <gtest/gtest.h>

#include "model/depth_weights.hpp"
#include "tests/support/small_problem.hpp"
#include "tests/support/test_vectors.hpp"

namespace fluxformer {
namespace {

using namespace test;

Parameters with_knots(int layers, int knots, DepthVariation variation = DepthVariation::linear) {
  auto model = small_model(layers);
  model.variation = variation;
  model.knots = knots;
  model.classes = 3;
  return random_parameters({.model = model, .kappa = 0.1});
}

double penalty(const Parameters& p, double strength) {
  std::vector<double> gradient(p.values.size());
  return add_smoothness(p.spec, p, strength, gradient);
}

TEST(Smoothness, of_weights_linear_in_depth_is_the_exact_integral) {
  // theta_j(s) = a_j + b_j s for 0 <= s <= S - 1: (strength / 2) (S - 1) |b|^2, on any number of knots.
  constexpr int layers = 7;
  constexpr double strength = 0.3;
  for (const int knots : {2, 3, 5, 7}) {
    auto p = with_knots(layers, knots);
    const auto size = p.layout.block_size();
    const auto a = random_vector(size, 1), b = random_vector(size, 2);
    for (int k = 0; k < knots; ++k)
      for (Index j = 0; j < size; ++j)
        p.values[p.layout.block_offset(k) + j] = a[j] + b[j] * k * (layers - 1) / (knots - 1);
    const double exact = strength / 2 * (layers - 1) * dot(b, b);
    EXPECT_NEAR(penalty(p, strength), exact, 1e-13 * exact) << knots << " knots";
  }
}

TEST(Smoothness, is_the_integral_of_what_the_model_sees) {
  // d theta/ds by differences of the interpolated weights, which are linear on each of these steps.
  constexpr int layers = 4, steps = 24;  // of 1/8: knots at 0, 1.5, 3 are among the ends
  auto p = with_knots(layers, 3);
  DepthWeights<double> weights(p);
  const auto d = static_cast<std::size_t>(p.spec.width);
  // W_1 of layer 1 and 2 alone changes.
  for (const int k : {1, 2})
    for (Index j = 0; j < p.layout.block_size(); ++j)
      p.values[p.layout.block_offset(k) + j] = p.values[p.layout.block_offset(0) + j];
  const auto other = random_vector(p.view("layers/2/W_1").size(), 9);
  std::copy(other.begin(), other.end(), p.view("layers/2/W_1").begin());
  const auto at = [&](double s) {
    const auto w = weights.at({1, s}).reaction.w_1;
    return std::vector<double>(w, w + static_cast<std::size_t>(p.spec.ffn) * d);
  };
  constexpr double step = 3.0 / steps;
  double integral = 0;
  for (int i = 0; i < steps; ++i) {
    const auto change = plus(at((i + 1) * step), -1, at(i * step));
    integral += dot(change, change) / step;
  }
  EXPECT_NEAR(penalty(p, 1), integral / 2, 1e-12 * integral);
}

TEST(Smoothness, adds_the_gradient_of_its_differences) {
  auto p = with_knots(5, 3);
  constexpr double strength = 0.7, step = 1e-3;
  const auto before = random_vector(p.values.size(), 3);
  auto gradient = before;
  const double value = add_smoothness(p.spec, p, strength, gradient);
  EXPECT_GT(value, 0);
  for (std::size_t j = 0; j < p.values.size(); ++j) {
    const double kept = p.values[j];
    p.values[j] = kept + step;
    const double up = penalty(p, strength);
    p.values[j] = kept - step;
    const double down = penalty(p, strength);
    p.values[j] = kept;
    // Quadratic: central differences are exact up to round-off.
    EXPECT_NEAR(gradient[j] - before[j], (up - down) / (2 * step), 1e-14 * value / step + 1e-15) << j;
  }
}

/// Whether entry j of the blocks is the same at all knots, as kappa is.
bool same(const Parameters& p, Index j) {
  const auto in_block = (j - p.layout.block_offset(0)) % p.layout.block_size();
  for (int k = 1; k < p.spec.knots; ++k)
    if (p.values[p.layout.block_offset(k) + in_block] != p.values[p.layout.block_offset(0) + in_block])
      return false;
  return true;
}

TEST(Smoothness, leaves_embedding_head_and_coefficients_alone) {
  const auto p = with_knots(5, 3);
  std::vector<double> gradient(p.values.size(), 0.0);
  add_smoothness(p.spec, p, 1, gradient);
  for (Index j = 0; j < std::ssize(gradient); ++j)
    EXPECT_EQ(gradient[j] != 0, j >= p.layout.block_offset(0) && j < p.layout.block_offset(3) && !same(p, j))
        << j;
}

TEST(Smoothness, of_a_set_per_layer_is_the_sum_of_squared_jumps) {
  const auto p = with_knots(3, 3, DepthVariation::constant);
  double sum = 0;
  for (int k = 0; k < 2; ++k)
    for (Index j = 0; j < p.layout.block_size(); ++j) {
      const double jump = p.values[p.layout.block_offset(k + 1) + j] - p.values[p.layout.block_offset(k) + j];
      sum += jump * jump;
    }
  EXPECT_NEAR(penalty(p, 2), sum, 1e-13 * sum);
}

TEST(Smoothness, is_nothing_without_strength_or_change) {
  for (const auto& p : {with_knots(3, 1), with_knots(1, 1)}) {
    std::vector<double> gradient(p.values.size(), 0.5);
    EXPECT_EQ(add_smoothness(p.spec, p, 1, gradient), 0);
    EXPECT_EQ(gradient, std::vector<double>(p.values.size(), 0.5));
  }
  const auto p = with_knots(3, 3);
  std::vector<double> gradient(p.values.size(), 0.5);
  EXPECT_EQ(add_smoothness(p.spec, p, 0, gradient), 0);
  EXPECT_EQ(gradient, std::vector<double>(p.values.size(), 0.5));
}

}  // namespace
}  // namespace fluxformer
