#include "operators/layer_norm_second_order.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "operators/layer_norm.hpp"
#include "tests/support/richardson.hpp"
#include "tests/support/test_vectors.hpp"

namespace fluxformer {
namespace {

using namespace test;

constexpr double layer_norm_second_order_scale = 0.7;

class LayerNormAlongADirection : public testing::TestWithParam<int> {
 protected:
  static constexpr int rows = 11;
  int width = GetParam();
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
    layer_norm_full_tangent(x.data(), x_dot.data(), d, rows, width, layer_norm_eps, g.data(), g_dot.data(),
                            b_dot.data(), y.data(), d);
    return {y.begin(), y.end()};
  }
  template <class T>
  Bars adjoint_tangent(double start = 0) const {
    const auto g = rounded_to<T>(gain), g_dot = rounded_to<T>(gain_dot), v = rounded_to<T>(w),
               v_dot = rounded_to<T>(w_dot);
    Bars bars{std::vector<double>(x.size(), start), std::vector<double>(d, start),
              std::vector<double>(d, start)};
    layer_norm_adjoint_tangent(x.data(), x_dot.data(), d, v.data(), v_dot.data(), d, rows, width,
                               layer_norm_eps, g.data(), g_dot.data(), layer_norm_second_order_scale,
                               bars.x.data(), bars.x.data(), bars.gain.data(), bars.bias.data());
    return bars;
  }
  /// Of the adjoint a step along the direction.
  Bars adjoint(double e) const {
    const auto at = plus(x, e, x_dot), v = plus(w, e, w_dot), g = plus(gain, e, gain_dot);
    Bars bars{std::vector<double>(x.size()), std::vector<double>(d), std::vector<double>(d)};
    layer_norm_adjoint(at.data(), d, v.data(), d, rows, width, layer_norm_eps, g.data(),
                       layer_norm_second_order_scale, bars.x.data(), bars.gain.data(), bars.bias.data());
    return bars;
  }
};

TEST_P(LayerNormAlongADirection, tangent_is_the_derivative_in_state_gain_and_bias) {
  const auto expected = derivative(
      [&](double e) {
        const auto at = plus(x, e, x_dot), g = plus(gain, e, gain_dot), b = plus(bias, e, bias_dot);
        std::vector<double> y(x.size());
        layer_norm(at.data(), d, rows, width, layer_norm_eps, g.data(), b.data(), y.data(), d);
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

// Widths below, at and between multiples of the vector length.
INSTANTIATE_TEST_SUITE_P(Widths, LayerNormAlongADirection, testing::Values(3, 8, 37, 64));

TEST(LayerNormSecondOrder, respects_strides_and_leaves_the_gaps_alone) {
  const std::size_t rows = 5, d = 7, x_stride = 9, y_stride = 12;
  const auto x = random_vector(rows * x_stride, 1), x_dot = random_vector(rows * x_stride, 2),
             w = random_vector(rows * y_stride, 3), w_dot = random_vector(rows * y_stride, 4),
             gain = random_vector(d, 5), gain_dot = random_vector(d, 6), bias_dot = random_vector(d, 7);
  std::vector<double> y(rows * y_stride, -5.0), bar(rows * x_stride, -5.0), sums(2 * d), sums_by_row(2 * d);
  layer_norm_full_tangent(x.data(), x_dot.data(), x_stride, 5, 7, layer_norm_eps, gain.data(),
                          gain_dot.data(), bias_dot.data(), y.data(), y_stride);
  layer_norm_adjoint_tangent(x.data(), x_dot.data(), x_stride, w.data(), w_dot.data(), y_stride, 5, 7,
                             layer_norm_eps, gain.data(), gain_dot.data(), 1, x.data(), bar.data(),
                             sums.data(), sums.data() + d);
  for (std::size_t r = 0; r < rows; ++r) {
    const std::size_t from = r * x_stride, to = r * y_stride;
    std::vector<double> y_alone(d), bar_alone(d);
    layer_norm_full_tangent(x.data() + from, x_dot.data() + from, d, 1, 7, layer_norm_eps, gain.data(),
                            gain_dot.data(), bias_dot.data(), y_alone.data(), d);
    layer_norm_adjoint_tangent(x.data() + from, x_dot.data() + from, d, w.data() + to, w_dot.data() + to, d,
                               1, 7, layer_norm_eps, gain.data(), gain_dot.data(), 1, x.data() + from,
                               bar_alone.data(), sums_by_row.data(), sums_by_row.data() + d);
    for (std::size_t j = 0; j < y_stride; ++j) EXPECT_EQ(y[to + j], j < d ? y_alone[j] : -5.0);
    for (std::size_t j = 0; j < x_stride; ++j) EXPECT_EQ(bar[from + j], j < d ? bar_alone[j] : -5.0);
  }
  EXPECT_LE(relative_difference(sums, sums_by_row), 1e-14);  // sums of five, in another order
}

}  // namespace
}  // namespace fluxformer
