#include "operators/layer_norm.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/support/hyper_dual.hpp"
#include "tests/support/reference_layer.hpp"
#include "tests/support/richardson.hpp"
#include "tests/support/test_vectors.hpp"

namespace fluxformer {
namespace {

using namespace test;

constexpr double eps = std::numeric_limits<double>::epsilon();

/// N(x); without a bias if that is empty.
std::vector<double> apply(const NormSettings& settings, const std::vector<double>& x, int width,
                          const std::vector<double>& gain, const std::vector<double>& bias = {}) {
  const auto d = static_cast<std::size_t>(width);
  std::vector<double> y(x.size());
  layer_norm(x.data(), d, static_cast<int>(x.size() / d), width, settings, gain.data(),
             bias.empty() ? nullptr : bias.data(), y.data(), d);
  return y;
}
std::vector<double> apply(const std::vector<double>& x, int width, const std::vector<double>& gain,
                          const std::vector<double>& bias) {
  return apply({}, x, width, gain, bias);
}

constexpr NormSettings both_maps[] = {{.map = NormMap::layer, .eps = 1e-5},
                                      {.map = NormMap::rms, .eps = 1e-3}};

// Widths below, at and between multiples of the vector length; rows that do not fill a group of rows.
TEST(LayerNorm, matches_the_plain_loops_on_odd_sizes) {
  for (const NormSettings& settings : both_maps)
    for (const int width : {1, 2, 3, 7, 8, 13, 31, 64, 67})
      for (const int rows : {0, 1, 5, 8, 19}) {
        const auto d = static_cast<std::size_t>(width);
        const std::vector<double> x = random_vector(d * static_cast<std::size_t>(rows), 1, 2, 0.5);
        const std::vector<double> gain = random_vector(d, 2, 0.3, 1), bias = random_vector(d, 3);
        // Two sums of `width` terms, in another order.
        EXPECT_LE(relative_difference(apply(settings, x, width, gain, bias),
                                      reference::normalised(x, width, settings, gain.data(), bias.data())),
                  16 * eps)
            << rows << " x " << width;
        EXPECT_LE(relative_difference(apply(settings, x, width, gain),
                                      reference::normalised(x, width, settings, gain.data(), nullptr)),
                  16 * eps)
            << rows << " x " << width;
      }
}

TEST(LayerNorm, in_float_agrees_to_float_round_off) {
  for (const NormSettings& settings : both_maps)
    for (const int width : {64, 67}) {
      const std::size_t d = static_cast<std::size_t>(width), rows = 19;
      const std::vector<double> x = random_vector(rows * d, 1, 2, 0.5), gain = random_vector(d, 2, 0.3, 1),
                                bias = random_vector(d, 3);
      const auto gain_f = rounded_to<float>(gain), bias_f = rounded_to<float>(bias);
      std::vector<float> y(rows * d);
      layer_norm(x.data(), d, 19, width, settings, gain_f.data(), bias_f.data(), y.data(), d);
      const auto expected = reference::normalised(x, width, settings, gain.data(), bias.data());
      EXPECT_LE(relative_difference(rounded_to<double>({y.begin(), y.end()}), expected), 8 * 6e-8);
    }
}

// x = 1e7 + O(1): round-off of x itself is 1e7 eps. A one-pass variance would lose all digits (1e14 eps of
// 1).
TEST(LayerNorm, keeps_its_digits_far_from_zero) {
  const int width = 64;
  std::vector<double> near_zero = random_vector(64, 4), far(64);
  for (std::size_t j = 0; j < 64; ++j) {
    far[j] = 1e7 + near_zero[j];
    near_zero[j] = far[j] - 1e7;  // exact: what is left of the number at 1e7
  }
  const std::vector<double> gain(64, 1), bias(64, 0);
  EXPECT_LE(relative_difference(apply(far, width, gain, bias), apply(near_zero, width, gain, bias)),
            4 * 1e7 * eps);
}

TEST(LayerNorm, of_a_constant_row_is_the_bias) {
  const std::vector<double> bias = random_vector(13, 5);
  EXPECT_EQ(apply(std::vector<double>(13, 3.0), 13, std::vector<double>(13, 2), bias), bias);
}

TEST(LayerNorm, respects_strides_and_leaves_the_gaps_alone) {
  const std::size_t rows = 11, d = 7, x_stride = 9, y_stride = 12;
  const std::vector<double> x = random_vector(rows * x_stride, 6), gain = random_vector(d, 7),
                            bias = random_vector(d, 8);
  std::vector<double> y(rows * y_stride, -5.0);
  layer_norm(x.data(), x_stride, 11, 7, {}, gain.data(), bias.data(), y.data(), y_stride);
  for (std::size_t r = 0; r < rows; ++r) {
    const auto start = x.begin() + static_cast<std::ptrdiff_t>(r * x_stride);
    const std::vector<double> alone = apply({start, start + 7}, 7, gain, bias);
    for (std::size_t j = 0; j < y_stride; ++j) EXPECT_EQ(y[r * y_stride + j], j < d ? alone[j] : -5.0);
  }
}

// Restarted and repeated runs are compared bit for bit, and allocators return arbitrary addresses.
TEST(LayerNorm, does_not_depend_on_addresses) {
  const std::size_t d = 61;
  const std::vector<double> x = random_vector(d, 9), gain = random_vector(d, 10), bias = random_vector(d, 11);
  const std::vector<double> expected = apply(x, 61, gain, bias);
  for (std::size_t offset = 1; offset < 9; ++offset) {
    std::vector<double> moved(d + offset), y(d + 2 * offset);
    std::copy(x.begin(), x.end(), moved.begin() + static_cast<std::ptrdiff_t>(offset));
    layer_norm(moved.data() + offset, d, 1, 61, {}, gain.data(), bias.data(), y.data() + 2 * offset, d);
    EXPECT_TRUE(
        std::equal(expected.begin(), expected.end(), y.begin() + static_cast<std::ptrdiff_t>(2 * offset)));
  }
}

/// A width and one of both_maps.
using Case = std::tuple<int, NormSettings>;
std::string name_of(const testing::TestParamInfo<Case>& tested) {
  const auto& [width, settings] = tested.param;
  return (settings.map == NormMap::rms ? "rms_" : "layer_") + std::to_string(width);
}
// Widths below, at and between multiples of the vector length, in registers and not.
const auto every_case = testing::Combine(testing::Values(3, 8, 37, 64), testing::ValuesIn(both_maps));

class LayerNormDerivatives : public testing::TestWithParam<Case> {
 protected:
  static constexpr int rows = 11;
  int width = std::get<0>(GetParam());
  NormSettings settings = std::get<1>(GetParam());
  std::size_t d = static_cast<std::size_t>(width);
  std::vector<double> x = random_vector(rows * d, 1, 1.5, 0.4), v = random_vector(rows * d, 2),
                      w = random_vector(rows * d, 3), gain = random_vector(d, 4, 0.3, 1),
                      bias = random_vector(d, 5);

  std::vector<double> tangent() const {
    std::vector<double> y(x.size());
    layer_norm_tangent(x.data(), v.data(), d, rows, width, settings, gain.data(), y.data(), d);
    return y;
  }
};

TEST_P(LayerNormDerivatives, tangent_leaves_a_second_order_remainder) {
  const auto remainder = [&](double h) {
    const std::vector<double> linear = plus(apply(settings, x, width, gain, bias), h, tangent());
    return norm(plus(apply(settings, plus(x, h, v), width, gain, bias), -1, linear));
  };
  EXPECT_NEAR(std::log2(remainder(1e-3) / remainder(5e-4)), 2, 0.05);
}

TEST_P(LayerNormDerivatives, adjoint_is_the_transposed_tangent) {
  std::vector<double> x_bar(x.size(), 0.25);
  layer_norm_adjoint<double>(x.data(), d, w.data(), d, rows, width, settings, gain.data(), 0.7, x_bar.data(),
                             nullptr, nullptr);
  // x_bar is added to.
  const double pulled_back = dot(plus(x_bar, -1, std::vector<double>(x.size(), 0.25)), v);
  EXPECT_NEAR(pulled_back, 0.7 * dot(tangent(), w), 1e-12 * norm(tangent()) * norm(w));
}

// y is linear in gain and bias, so a difference is exact to round-off.
TEST_P(LayerNormDerivatives, gain_and_bias_gradients_are_differences) {
  std::vector<double> x_bar(x.size()), gain_bar(d, 0.5), bias_bar(d, -0.5);
  layer_norm_adjoint<double>(x.data(), d, w.data(), d, rows, width, settings, gain.data(), 0.7, x_bar.data(),
                             gain_bar.data(), bias_bar.data());
  const std::vector<double> zero(d, 0);
  for (std::size_t j = 0; j < d; ++j) {
    std::vector<double> unit(d, 0);
    unit[j] = 1;
    EXPECT_NEAR(gain_bar[j] - 0.5, 0.7 * dot(apply(settings, x, width, unit, zero), w), 1e-12 * norm(w));
    EXPECT_NEAR(bias_bar[j] + 0.5, 0.7 * dot(apply(settings, x, width, zero, unit), w), 1e-12 * norm(w));
  }
}

TEST_P(LayerNormDerivatives, agree_between_float_and_double) {
  const auto gain_f = rounded_to<float>(gain), w_f = rounded_to<float>(w);
  std::vector<float> y(x.size());
  layer_norm_tangent(x.data(), v.data(), d, rows, width, settings, gain_f.data(), y.data(), d);
  EXPECT_LE(relative_difference({y.begin(), y.end()}, tangent()), 32 * 6e-8);
  std::vector<double> x_bar(x.size()), x_bar_f(x.size()), gain_bar(d), gain_bar_f(d), bias_bar(d),
      bias_bar_f(d);
  layer_norm_adjoint(x.data(), d, w.data(), d, rows, width, settings, gain.data(), 1.0, x_bar.data(),
                     gain_bar.data(), bias_bar.data());
  layer_norm_adjoint(x.data(), d, w_f.data(), d, rows, width, settings, gain_f.data(), 1.0, x_bar_f.data(),
                     gain_bar_f.data(), bias_bar_f.data());
  EXPECT_LE(relative_difference(x_bar_f, x_bar), 32 * 6e-8);
  EXPECT_LE(relative_difference(gain_bar_f, gain_bar), 32 * 6e-8);
  EXPECT_LE(relative_difference(bias_bar_f, bias_bar), 32 * 6e-8);
}

INSTANTIATE_TEST_SUITE_P(Maps, LayerNormDerivatives, every_case, name_of);

constexpr double layer_norm_second_order_scale = 0.7;

class LayerNormAlongADirection : public testing::TestWithParam<Case> {
 protected:
  static constexpr int rows = 11;
  int width = std::get<0>(GetParam());
  NormSettings settings = std::get<1>(GetParam());
  std::size_t d = static_cast<std::size_t>(width);
  std::vector<double> x = random_vector(rows * d, 1, 1.5, 0.4), x_dot = random_vector(rows * d, 2),
                      w = random_vector(rows * d, 3), w_dot = random_vector(rows * d, 4),
                      gain = random_vector(d, 5, 0.3, 1), gain_dot = random_vector(d, 6),
                      bias = random_vector(d, 7), bias_dot = random_vector(d, 8);

  struct Bars {
    std::vector<double> x, gain, bias;
  };
  template <class T>
  std::vector<double> tangent() const {
    const auto g = rounded_to<T>(gain), g_dot = rounded_to<T>(gain_dot), b_dot = rounded_to<T>(bias_dot);
    std::vector<T> y(x.size());
    layer_norm_full_tangent(x.data(), x_dot.data(), d, rows, width, settings, g.data(), g_dot.data(),
                            b_dot.data(), y.data(), d);
    return {y.begin(), y.end()};
  }
  template <class T>
  Bars adjoint_tangent(double start = 0) const {
    const auto g = rounded_to<T>(gain), g_dot = rounded_to<T>(gain_dot), v = rounded_to<T>(w),
               v_dot = rounded_to<T>(w_dot);
    Bars bars{std::vector<double>(x.size(), start), std::vector<double>(d, start),
              std::vector<double>(d, start)};
    layer_norm_adjoint_tangent(x.data(), x_dot.data(), d, v.data(), v_dot.data(), d, rows, width, settings,
                               g.data(), g_dot.data(), layer_norm_second_order_scale, bars.x.data(),
                               bars.x.data(), bars.gain.data(), bars.bias.data());
    return bars;
  }
  /// Adjoint at a step along the direction.
  Bars adjoint(double e) const {
    const auto at = plus(x, e, x_dot), v = plus(w, e, w_dot), g = plus(gain, e, gain_dot);
    Bars bars{std::vector<double>(x.size()), std::vector<double>(d), std::vector<double>(d)};
    layer_norm_adjoint(at.data(), d, v.data(), d, rows, width, settings, g.data(),
                       layer_norm_second_order_scale, bars.x.data(), bars.gain.data(), bars.bias.data());
    return bars;
  }
};

TEST_P(LayerNormAlongADirection, tangent_is_the_derivative_in_state_gain_and_bias) {
  const auto expected = derivative(
      [&](double e) {
        const auto at = plus(x, e, x_dot), g = plus(gain, e, gain_dot), b = plus(bias, e, bias_dot);
        std::vector<double> y(x.size());
        layer_norm(at.data(), d, rows, width, settings, g.data(), b.data(), y.data(), d);
        return y;
      },
      4e-3);
  EXPECT_LE(relative_difference(tangent<double>(), expected), 1e-9);
}

TEST_P(LayerNormAlongADirection, tangent_of_the_adjoint_is_its_derivative_in_state_vector_and_gain) {
  const Bars bars = adjoint_tangent<double>();
  EXPECT_LE(relative_difference(bars.x, derivative([&](double e) { return adjoint(e).x; }, 4e-3)), 1e-9);
  EXPECT_LE(relative_difference(bars.gain, derivative([&](double e) { return adjoint(e).gain; }, 4e-3)),
            1e-9);
  EXPECT_LE(relative_difference(bars.bias, derivative([&](double e) { return adjoint(e).bias; }, 4e-3)),
            1e-9);
}

// The same loops in hyper-dual numbers: exact derivatives that know nothing but the map. Sums of `width` numbers
// in another order, and of `rows`.
TEST_P(LayerNormAlongADirection, agrees_with_hyper_dual_numbers) {
  const auto n = static_cast<double>(width);
  // <w, N(x)> of one row along all directions in the first infinitesimal; unit directions in the second.
  const auto row_of = [&](std::size_t row, std::size_t unit_x, std::size_t unit_gain, std::size_t unit_bias) {
    std::vector<HyperDual> at(d), y(d);
    HyperDual mean, square, total;
    for (std::size_t j = 0; j < d; ++j) {
      at[j] = {x[row * d + j], x_dot[row * d + j], j == unit_x ? 1.0 : 0.0, 0};
      if (settings.map == NormMap::layer) mean += at[j] * (1 / n);
    }
    for (std::size_t j = 0; j < d; ++j) square += (at[j] - mean) * (at[j] - mean) * (1 / n);
    for (std::size_t j = 0; j < d; ++j) {
      const HyperDual g{gain[j], gain_dot[j], j == unit_gain ? 1.0 : 0.0, 0},
          b{bias[j], bias_dot[j], j == unit_bias ? 1.0 : 0.0, 0};
      y[j] = (at[j] - mean) / sqrt(square + settings.eps) * g + b;
      total += HyperDual{w[row * d + j], w_dot[row * d + j], 0, 0} * y[j];
    }
    return std::pair{total, y};
  };
  const std::size_t none = d;
  std::vector<double> y_dot(x.size());
  Bars bars{std::vector<double>(x.size()), std::vector<double>(d), std::vector<double>(d)}, bars_dot = bars;
  for (std::size_t row = 0; row < rows; ++row) {
    const auto y = row_of(row, none, none, none).second;
    for (std::size_t j = 0; j < d; ++j) {
      y_dot[row * d + j] = y[j].f1;
      const HyperDual by_x = row_of(row, j, none, none).first, by_gain = row_of(row, none, j, none).first,
                      by_bias = row_of(row, none, none, j).first;
      bars.x[row * d + j] = layer_norm_second_order_scale * by_x.f2;
      bars_dot.x[row * d + j] = layer_norm_second_order_scale * by_x.f12;
      bars.gain[j] += layer_norm_second_order_scale * by_gain.f2;
      bars_dot.gain[j] += layer_norm_second_order_scale * by_gain.f12;
      bars.bias[j] += layer_norm_second_order_scale * by_bias.f2;
      bars_dot.bias[j] += layer_norm_second_order_scale * by_bias.f12;
    }
  }
  const double tolerance = 1e-14 * std::sqrt(width * rows);
  EXPECT_LE(relative_difference(tangent<double>(), y_dot), tolerance);
  const Bars found = adjoint(0), found_dot = adjoint_tangent<double>();
  EXPECT_LE(relative_difference(found.x, bars.x), tolerance);
  EXPECT_LE(relative_difference(found.gain, bars.gain), tolerance);
  EXPECT_LE(relative_difference(found.bias, bars.bias), tolerance);
  EXPECT_LE(relative_difference(found_dot.x, bars_dot.x), tolerance);
  EXPECT_LE(relative_difference(found_dot.gain, bars_dot.gain), tolerance);
  EXPECT_LE(relative_difference(found_dot.bias, bars_dot.bias), tolerance);
}

// The second derivative of <w, N> for a fixed w, in x and gain.
TEST_P(LayerNormAlongADirection, second_derivative_is_symmetric) {
  std::fill(w_dot.begin(), w_dot.end(), 0.0);
  const auto other = random_vector(rows * d, 21), other_gain = random_vector(d, 22);
  const auto one = x_dot, one_gain = gain_dot;
  const Bars by_one = adjoint_tangent<double>();
  x_dot = other, gain_dot = other_gain;
  const Bars by_two = adjoint_tangent<double>();
  const double size = norm(by_one.x) * norm(other) + norm(by_one.gain) * norm(other_gain);
  EXPECT_NEAR(dot(by_one.x, other) + dot(by_one.gain, other_gain),
              dot(by_two.x, one) + dot(by_two.gain, one_gain), 1e-14 * size);
}

// Sums with a zero are exact, and the rest is the same arithmetic.
TEST_P(LayerNormAlongADirection, without_a_bias_has_the_bits_of_a_zero_one) {
  const auto check = [&]<class T>(T) {
    const std::size_t size = x.size();
    const auto g = rounded_to<T>(gain), g_dot = rounded_to<T>(gain_dot), v = rounded_to<T>(w),
               v_dot = rounded_to<T>(w_dot);
    const std::vector<T> zero(d);
    std::vector<T> with(size), without(size);
    layer_norm(x.data(), d, rows, width, settings, g.data(), zero.data(), with.data(), d);
    layer_norm<T>(x.data(), d, rows, width, settings, g.data(), nullptr, without.data(), d);
    EXPECT_EQ(without, with);
    layer_norm_full_tangent(x.data(), x_dot.data(), d, rows, width, settings, g.data(), g_dot.data(),
                            zero.data(), with.data(), d);
    layer_norm_full_tangent<T>(x.data(), x_dot.data(), d, rows, width, settings, g.data(), g_dot.data(),
                               nullptr, without.data(), d);
    EXPECT_EQ(without, with);
    Bars a{std::vector<double>(size), std::vector<double>(d), std::vector<double>(d)}, b = a, c = a, e = a;
    layer_norm_adjoint(x.data(), d, v.data(), d, rows, width, settings, g.data(), 0.7, a.x.data(),
                       a.gain.data(), a.bias.data());
    layer_norm_adjoint(x.data(), d, v.data(), d, rows, width, settings, g.data(), 0.7, b.x.data(),
                       b.gain.data(), nullptr);
    EXPECT_EQ(b.x, a.x);
    EXPECT_EQ(b.gain, a.gain);
    layer_norm_adjoint_tangent(x.data(), x_dot.data(), d, v.data(), v_dot.data(), d, rows, width, settings,
                               g.data(), g_dot.data(), 0.7, c.x.data(), c.x.data(), c.gain.data(),
                               c.bias.data());
    layer_norm_adjoint_tangent(x.data(), x_dot.data(), d, v.data(), v_dot.data(), d, rows, width, settings,
                               g.data(), g_dot.data(), 0.7, e.x.data(), e.x.data(), e.gain.data(), nullptr);
    EXPECT_EQ(e.x, c.x);
    EXPECT_EQ(e.gain, c.gain);
  };
  check(0.0);
  check(0.0F);
}

TEST_P(LayerNormAlongADirection, adds_to_what_is_there) {
  const Bars from_zero = adjoint_tangent<double>(), from_one = adjoint_tangent<double>(1);
  const auto one_more = [](const std::vector<double>& v) {
    return plus(v, 1, std::vector<double>(v.size(), 1));
  };
  EXPECT_LE(relative_difference(from_one.x, one_more(from_zero.x)), 1e-15);
  EXPECT_LE(relative_difference(from_one.gain, one_more(from_zero.gain)), 1e-15);
  EXPECT_LE(relative_difference(from_one.bias, one_more(from_zero.bias)), 1e-15);
}

// Some ten roundings of numbers up to the largest, and sums of `width` or of `rows` terms.
TEST_P(LayerNormAlongADirection, agrees_between_float_and_double) {
  EXPECT_LE(relative_difference(tangent<float>(), tangent<double>()), 64 * 6e-8);
  const Bars single = adjoint_tangent<float>(), exact = adjoint_tangent<double>();
  EXPECT_LE(relative_difference(single.x, exact.x), 64 * 6e-8);
  EXPECT_LE(relative_difference(single.gain, exact.gain), 64 * 6e-8);
  EXPECT_LE(relative_difference(single.bias, exact.bias), 64 * 6e-8);
}

INSTANTIATE_TEST_SUITE_P(Maps, LayerNormAlongADirection, every_case, name_of);

TEST(LayerNormSecondOrder, respects_strides_and_leaves_the_gaps_alone) {
  const std::size_t rows = 5, d = 7, x_stride = 9, y_stride = 12;
  const auto x = random_vector(rows * x_stride, 1), x_dot = random_vector(rows * x_stride, 2),
             w = random_vector(rows * y_stride, 3), w_dot = random_vector(rows * y_stride, 4),
             gain = random_vector(d, 5), gain_dot = random_vector(d, 6), bias_dot = random_vector(d, 7);
  std::vector<double> y(rows * y_stride, -5.0), bar(rows * x_stride, -5.0), sums(2 * d), sums_by_row(2 * d);
  layer_norm_full_tangent(x.data(), x_dot.data(), x_stride, 5, 7, {}, gain.data(), gain_dot.data(),
                          bias_dot.data(), y.data(), y_stride);
  layer_norm_adjoint_tangent(x.data(), x_dot.data(), x_stride, w.data(), w_dot.data(), y_stride, 5, 7, {},
                             gain.data(), gain_dot.data(), 1, x.data(), bar.data(), sums.data(),
                             sums.data() + d);
  for (std::size_t r = 0; r < rows; ++r) {
    const std::size_t from = r * x_stride, to = r * y_stride;
    std::vector<double> y_alone(d), bar_alone(d);
    layer_norm_full_tangent(x.data() + from, x_dot.data() + from, d, 1, 7, {}, gain.data(), gain_dot.data(),
                            bias_dot.data(), y_alone.data(), d);
    layer_norm_adjoint_tangent(x.data() + from, x_dot.data() + from, d, w.data() + to, w_dot.data() + to, d,
                               1, 7, {}, gain.data(), gain_dot.data(), 1, x.data() + from, bar_alone.data(),
                               sums_by_row.data(), sums_by_row.data() + d);
    for (std::size_t j = 0; j < y_stride; ++j) EXPECT_EQ(y[to + j], j < d ? y_alone[j] : -5.0);
    for (std::size_t j = 0; j < x_stride; ++j) EXPECT_EQ(bar[from + j], j < d ? bar_alone[j] : -5.0);
  }
  EXPECT_LE(relative_difference(sums, sums_by_row), 1e-14);  // sums of five, in another order
}

// Exact statements about RMSNorm, N(x) = gain . x r with r = (mean(x^2) + eps)^(-1/2).

class RmsNorm : public testing::TestWithParam<int> {
 protected:
  static constexpr std::size_t rows = 11;
  int width = GetParam();
  std::size_t d = static_cast<std::size_t>(width);
  std::vector<double> x = random_vector(rows * d, 1, 1.5, 0.4), gain = random_vector(d, 2, 0.3, 1);

  std::vector<double> value(const std::vector<double>& at, double its_eps) const {
    return apply({NormMap::rms, its_eps}, at, width, gain);
  }
  std::vector<double> times(double factor) const { return plus(std::vector<double>(x.size()), factor, x); }
};

// A sum of `width` squares and some roundings each.
TEST_P(RmsNorm, of_c_times_x_is_that_of_x_with_eps_over_c_squared) {
  for (const double c : {0.03, 1.7, 2e3})
    for (const double its_eps : {1e-6, 0.3})
      EXPECT_LE(relative_difference(value(times(c), its_eps), value(x, its_eps / (c * c))), 1e-14)
          << c << ", eps " << its_eps;
}

TEST_P(RmsNorm, without_eps_does_not_see_powers_of_two) {
  for (const double c : {0x1p-40, 0.5, 2.0, 0x1p60}) EXPECT_EQ(value(times(c), 0), value(x, 0)) << c;
  const auto gain_f = rounded_to<float>(gain);
  const auto in_float = [&](const std::vector<double>& at) {
    std::vector<float> y(at.size());
    layer_norm<float>(at.data(), d, rows, width, {NormMap::rms, 0}, gain_f.data(), nullptr, y.data(), d);
    return y;
  };
  for (const double c : {0x1p-20, 2.0, 0x1p30}) EXPECT_EQ(in_float(times(c)), in_float(x)) << c;
}

// J x = g . x r^3 eps: nothing is left of the direction x but what eps adds to the length. The two terms of the
// tangent, g . x r and g . x r^3 mean(x^2), cancel to eps r^2 of themselves.
TEST_P(RmsNorm, tangent_along_x_is_gain_x_r_cubed_eps) {
  for (const double its_eps : {1e-5, 0.3}) {
    const NormSettings settings{NormMap::rms, its_eps};
    std::vector<double> tangent(x.size()), expected(x.size());
    layer_norm_tangent(x.data(), x.data(), d, rows, width, settings, gain.data(), tangent.data(), d);
    for (std::size_t row = 0; row < rows; ++row) {
      double square = 0;
      for (std::size_t j = 0; j < d; ++j) square += x[row * d + j] * x[row * d + j] / width;
      for (std::size_t j = 0; j < d; ++j)
        expected[row * d + j] = gain[j] * x[row * d + j] * std::pow(square + its_eps, -1.5) * its_eps;
    }
    const double size = norm(value(x, its_eps));
    EXPECT_LE(norm(plus(tangent, -1, expected)), 1e-14 * size) << its_eps;
    if (its_eps > 0.1) {
      EXPECT_LE(relative_difference(tangent, expected), 1e-12);
    }
  }
}

TEST_P(RmsNorm, of_x_less_its_mean_is_layer_norm_without_a_bias) {
  std::vector<double> centred = x;
  for (std::size_t row = 0; row < rows; ++row) {
    double mean = 0;
    for (std::size_t j = 0; j < d; ++j) mean += x[row * d + j] / width;
    for (std::size_t j = 0; j < d; ++j) centred[row * d + j] -= mean;
  }
  EXPECT_LE(relative_difference(value(centred, 1e-5), apply({NormMap::layer, 1e-5}, x, width, gain)), 1e-14);
}

// gain = d^(-1/2): y = x / |x|.
TEST_P(RmsNorm, with_gain_one_over_root_d_and_no_eps_is_the_unit_sphere) {
  gain.assign(d, 1 / std::sqrt(width));
  std::vector<double> sphere = x;
  ASSERT_TRUE(project_to_sphere(sphere.data(), rows, width));
  EXPECT_LE(relative_difference(value(x, 0), sphere), 1e-14);
  const auto v = random_vector(x.size(), 3);
  auto tangent = v, expected = v;
  layer_norm_tangent(x.data(), v.data(), d, rows, width, {NormMap::rms, 0}, gain.data(), tangent.data(), d);
  sphere_tangent(x.data(), expected.data(), rows, width);
  EXPECT_LE(relative_difference(tangent, expected), 1e-14);
}

INSTANTIATE_TEST_SUITE_P(Widths, RmsNorm, testing::Values(3, 8, 37, 64));

}  // namespace
}  // namespace fluxformer
