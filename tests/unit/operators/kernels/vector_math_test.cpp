#include "operators/kernels/vector_math.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "operators/kernels/vector_math.hpp"

namespace fluxformer {
namespace {

template <class T>
class VectorMath : public testing::Test {
 protected:
  static constexpr T eps = std::numeric_limits<T>::epsilon();

  /// Both signs, from 1e-6 to 1e6, about a thousand a decade.
  static std::vector<T> wide_range() {
    std::vector<T> x{T(0)};
    for (double size = 1e-6; size < 1e6; size *= 1.0023) {
      x.push_back(static_cast<T>(size));
      x.push_back(static_cast<T>(-size));
    }
    return x;
  }
};

using VectorMathArithmetic = testing::Types<float, double>;
TYPED_TEST_SUITE(VectorMath, VectorMathArithmetic);

long double normal_cdf(long double x) {
  return erfcl(-x / sqrtl(2)) / 2;
}
long double logistic_of_tanh_form(long double x) {
  return 1 / (1 + expl(-2 * sqrtl(2 / std::numbers::pi_v<long double>) * (x + 0.044715L * x * x * x)));
}

// The vector erf, exp are good to 4 units in the last place; a half of it enters 0.5 (1 + erf), and two or
// three more roundings follow. Errors are relative to |x|, not to g, which itself vanishes for x -> -inf.
TYPED_TEST(VectorMath, gelu_erf_is_x_times_the_normal_distribution) {
  using T = TypeParam;
  const std::vector<T> x = this->wide_range();
  std::vector<T> value = x, slope(x.size());
  gelu_erf(value.data(), slope.data(), x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const long double at = x[i];
    const long double density = expl(-at * at / 2) / sqrtl(2 * std::numbers::pi_v<long double>);
    ASSERT_LE(fabsl(value[i] - at * normal_cdf(at)), 4 * this->eps * fabsl(at)) << "x = " << x[i];
    ASSERT_LE(fabsl(slope[i] - (normal_cdf(at) + at * density)), 6 * this->eps) << "x = " << x[i];
  }
}

TYPED_TEST(VectorMath, gelu_tanh_is_the_tanh_form) {
  using T = TypeParam;
  const std::vector<T> x = this->wide_range();
  std::vector<T> value = x, slope(x.size());
  gelu_tanh(value.data(), slope.data(), x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const long double at = x[i];
    const long double s = logistic_of_tanh_form(at);
    const long double inner = 2 * sqrtl(2 / std::numbers::pi_v<long double>) * (1 + 3 * 0.044715L * at * at);
    // s (1 - s) vanishes faster than `inner` grows.
    const long double expected = std::abs(x[i]) > 50 ? s : s + at * s * (1 - s) * inner;
    ASSERT_LE(fabsl(value[i] - at * s), 4 * this->eps * fabsl(at)) << "x = " << x[i];
    ASSERT_LE(fabsl(slope[i] - expected), 8 * this->eps) << "x = " << x[i];
  }
}

// The exponent rounds: x^2 / 2 units in the last place of phi, where it counts. Errors are relative to 1: the
// curvature has zeros.
TYPED_TEST(VectorMath, gelu_erf_curvature_is_the_second_derivative) {
  using T = TypeParam;
  const std::vector<T> x = this->wide_range();
  std::vector<T> value = x, slope(x.size()), curvature(x.size());
  gelu_erf_curvature(value.data(), slope.data(), curvature.data(), x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const long double at = x[i];
    const long double density = expl(-at * at / 2) / sqrtl(2 * std::numbers::pi_v<long double>);
    ASSERT_LE(fabsl(curvature[i] - density * (2 - at * at)), 4 * this->eps) << "x = " << x[i];
  }
}

TYPED_TEST(VectorMath, gelu_tanh_curvature_is_the_second_derivative) {
  using T = TypeParam;
  const std::vector<T> x = this->wide_range();
  std::vector<T> value = x, slope(x.size()), curvature(x.size());
  gelu_tanh_curvature(value.data(), slope.data(), curvature.data(), x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const long double at = x[i], factor = 2 * sqrtl(2 / std::numbers::pi_v<long double>);
    const long double s = logistic_of_tanh_form(at), h = s * logistic_of_tanh_form(-at);
    const long double rate = factor * (1 + 3 * 0.044715L * at * at), change = factor * 6 * 0.044715L * at;
    const long double expected =
        std::abs(x[i]) > 50 ? 0 : h * (2 * rate + at * ((1 - 2 * s) * rate * rate + change));
    ASSERT_LE(fabsl(curvature[i] - expected), 8 * this->eps) << "x = " << x[i];
  }
}

// The exponential is good to one unit in the last place, and three more roundings follow. Errors of the value are
// relative to itself, down to where e^x is taken for 0: x e^x is then at most some thousand times the least normal
// number. Errors of slope and curvature are relative to 1: they have zeros.
TYPED_TEST(VectorMath, silu_is_x_times_the_logistic_function_with_its_derivatives) {
  using T = TypeParam;
  const std::vector<T> x = this->wide_range();
  std::vector<T> value = x, slope(x.size()), curvature(x.size());
  silu_curvature(value.data(), slope.data(), curvature.data(), x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const long double at = x[i], s = 1 / (1 + expl(-at)), rest = 1 / (1 + expl(at));
    const long double expected = at * s;
    ASSERT_LE(fabsl(value[i] - expected),
              4 * this->eps * fabsl(expected) + 2000 * std::numeric_limits<T>::min())
        << "x = " << x[i];
    ASSERT_LE(fabsl(slope[i] - s * (1 + at * rest)), 4 * this->eps) << "x = " << x[i];
    const long double bent = std::abs(x[i]) > 500 ? 0 : s * rest * (2 + at * (rest - s));
    ASSERT_LE(fabsl(curvature[i] - bent), 4 * this->eps) << "x = " << x[i];
  }
}

TYPED_TEST(VectorMath, silu_of_x_less_that_of_minus_x_is_x) {
  using T = TypeParam;
  std::vector<T> x = this->wide_range(), minus(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) minus[i] = -x[i];
  const std::vector<T> start = x;
  silu<T>(x.data(), nullptr, x.size());
  silu<T>(minus.data(), nullptr, x.size());
  for (std::size_t i = 0; i < x.size(); ++i)
    ASSERT_LE(std::abs(x[i] - minus[i] - start[i]), 4 * this->eps * std::abs(start[i]));
}

// No overflow on the way: e^-x alone would be infinite below -89 or -710.
TYPED_TEST(VectorMath, silu_of_huge_numbers_is_the_number_or_zero) {
  using T = TypeParam;
  const T huge = std::numeric_limits<T>::max();
  T x[3] = {huge, -huge, T(-1000)}, slope[3], curvature[3];
  silu_curvature(x, slope, curvature, 3);
  EXPECT_EQ(x[0], huge);
  EXPECT_EQ(x[1], T(0));
  EXPECT_EQ(x[2], T(0));
  EXPECT_EQ(slope[0], T(1));
  EXPECT_EQ(slope[1], T(0));
  EXPECT_EQ(curvature[0], T(0));
  EXPECT_EQ(curvature[1], T(0));
}

TYPED_TEST(VectorMath, an_activation_with_curvature_gives_the_same_bits) {
  using T = TypeParam;
  const auto check = [&](auto&& activation, auto&& with_curvature) {
    std::vector<T> with = this->wide_range(), without = with, slope(with.size()), expected = slope,
                   curvature = slope;
    activation(without.data(), expected.data(), without.size(), nullptr);
    with_curvature(with.data(), slope.data(), curvature.data(), with.size(), nullptr);
    EXPECT_EQ(with, without);
    EXPECT_EQ(slope, expected);
  };
  check(gelu_erf<T>, gelu_erf_curvature<T>);
  check(gelu_tanh<T>, gelu_tanh_curvature<T>);
  check(silu<T>, silu_curvature<T>);
}

TYPED_TEST(VectorMath, an_activation_without_slope_gives_the_same_bits) {
  using T = TypeParam;
  for (const auto activation : {gelu_erf<T>, gelu_tanh<T>, silu<T>}) {
    std::vector<T> with = this->wide_range(), without = with, slope(with.size());
    activation(with.data(), slope.data(), with.size(), nullptr);
    activation(without.data(), nullptr, without.size(), nullptr);
    EXPECT_EQ(with, without);
  }
}

TYPED_TEST(VectorMath, gelu_of_huge_numbers_is_the_number_or_nothing) {
  using T = TypeParam;
  const T huge = std::numeric_limits<T>::max();
  for (const auto gelu : {gelu_erf<T>, gelu_tanh<T>}) {
    T x[3] = {huge, -huge, T(-1e10)}, slope[3];
    gelu(x, slope, 3, nullptr);
    EXPECT_EQ(x[0], huge);
    EXPECT_LE(std::abs(x[1] / huge), this->eps * this->eps);
    EXPECT_LE(std::abs(x[2]), T(1e10) * this->eps * this->eps);
    EXPECT_EQ(slope[0], T(1));
    EXPECT_LE(std::abs(slope[1]), this->eps * this->eps);
  }
}

TYPED_TEST(VectorMath, gelu_is_straight_at_huge_numbers) {
  using T = TypeParam;
  const T huge = std::numeric_limits<T>::max(), nan = std::numeric_limits<T>::quiet_NaN();
  for (const auto gelu : {gelu_erf_curvature<T>, gelu_tanh_curvature<T>}) {
    T x[4] = {huge, -huge, T(-1e10), nan}, slope[4], curvature[4];
    gelu(x, slope, curvature, 4, nullptr);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_LE(std::abs(curvature[i]), this->eps * this->eps);
    EXPECT_TRUE(std::isnan(curvature[3]));
  }
}

// What a bias adds is rounded once, before the function.
TYPED_TEST(VectorMath, an_activation_with_bias_is_that_of_the_sum) {
  using T = TypeParam;
  const std::vector<T> x = this->wide_range();
  std::vector<T> bias(x.size()), sum(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    bias[i] = std::sin(static_cast<T>(i));
    sum[i] = x[i] + bias[i];
  }
  const auto check = [&](auto&& activation, auto&& with_curvature) {
    std::vector<T> expected = sum, expected_slope(x.size()), value = x, slope(x.size()), curvature(x.size());
    activation(expected.data(), expected_slope.data(), x.size(), nullptr);
    activation(value.data(), slope.data(), x.size(), bias.data());
    EXPECT_EQ(value, expected);
    EXPECT_EQ(slope, expected_slope);
    value = x;
    with_curvature(value.data(), slope.data(), curvature.data(), x.size(), bias.data());
    EXPECT_EQ(value, expected);
  };
  check(gelu_erf<T>, gelu_erf_curvature<T>);
  check(gelu_tanh<T>, gelu_tanh_curvature<T>);
  check(silu<T>, silu_curvature<T>);
}

// One unit in the last place: half of one for the sum that ends the polynomial, less than half for what
// enters it.
TYPED_TEST(VectorMath, exponential_is_good_to_a_unit_in_the_last_place) {
  using T = TypeParam;
  using Of = simd::ExponentialOf<T>;
  double worst = 0;
  for (double x = Of::low; x < Of::high; x += 0.0173) {
    const auto at = simd::broadcast(static_cast<T>(x));
    const long double expected = expl(static_cast<long double>(at[0]));
    worst = std::max(worst, static_cast<double>(fabsl(simd::exponential<T>(at)[0] - expected) / expected));
  }
  EXPECT_LE(worst, this->eps);
  EXPECT_EQ(simd::exponential<T>(simd::broadcast(T(0)))[0], T(1));
  EXPECT_EQ(simd::exponential_or_zero<T>(simd::broadcast(2 * Of::low))[0], T(0));
}

TYPED_TEST(VectorMath, exp_shifted_is_the_exponential_of_the_difference) {
  using T = TypeParam;
  const T shift = T(2.25);
  std::vector<T> x;
  for (double value = 2.25; value > (sizeof(T) == 4 ? -80.0 : -700.0); value -= 0.37)
    x.push_back(static_cast<T>(value));
  std::vector<T> y = x;
  exp_shifted(y.data(), y.size(), shift);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const long double expected = expl(static_cast<long double>(x[i] - shift));
    ASSERT_LE(fabsl(y[i] - expected), 4 * this->eps * expected) << "x = " << x[i];
  }
}

TYPED_TEST(VectorMath, exp_shifted_of_a_masked_logit_is_exactly_zero) {
  using T = TypeParam;
  std::vector<T> x{-std::numeric_limits<T>::infinity(), std::numeric_limits<T>::lowest(), T(-1e4), T(1)};
  exp_shifted(x.data(), x.size(), T(1));
  EXPECT_EQ(x, (std::vector<T>{0, 0, 0, 1}));
}

TYPED_TEST(VectorMath, a_nan_stays_one) {
  using T = TypeParam;
  const T nan = std::numeric_limits<T>::quiet_NaN();
  for (const auto activation : {gelu_erf<T>, gelu_tanh<T>, silu<T>}) {
    T x[2] = {nan, T(1)}, slope[2];
    activation(x, slope, 2, nullptr);
    EXPECT_TRUE(std::isnan(x[0]) && std::isnan(slope[0]));
    EXPECT_FALSE(std::isnan(x[1]) || std::isnan(slope[1]));
  }
  T x[2] = {nan, T(1)};
  exp_shifted(x, 2, T(0));
  EXPECT_TRUE(std::isnan(x[0]));
}

// A tail of every length, at every offset from an aligned address, gives the bits of the element alone.
TYPED_TEST(VectorMath, a_result_does_not_depend_on_its_place) {
  using T = TypeParam;
  const auto shifted_by_3 = [](T* x, T*, std::size_t count, const T*) { exp_shifted(x, count, T(3)); };
  std::vector<T> slopes(40);
  const auto check = [&](auto&& function) {
    for (std::size_t count = 1; count < 40; ++count) {
      std::vector<T> x(count), slope(count, T(7));
      for (std::size_t i = 0; i < count; ++i) x[i] = T(3) * std::sin(T(1.7) * static_cast<T>(i + 40 * count));
      const std::vector<T> input = x;
      function(x.data(), slope.data(), count, nullptr);
      for (std::size_t i = 0; i < count; ++i) {
        T alone = input[i], slope_alone = T(7);
        function(&alone, &slope_alone, 1, nullptr);
        ASSERT_EQ(x[i], alone) << i << " of " << count;
        ASSERT_EQ(slope[i], slope_alone) << i << " of " << count;
      }
    }
  };
  check(gelu_erf<T>);
  check(gelu_tanh<T>);
  check(silu<T>);
  check(shifted_by_3);
  check([&](T* x, T* curvature, std::size_t count, const T*) {
    gelu_erf_curvature(x, slopes.data(), curvature, count);
  });
  check([&](T* x, T* curvature, std::size_t count, const T*) {
    gelu_tanh_curvature(x, slopes.data(), curvature, count);
  });
  check([&](T* x, T* curvature, std::size_t count, const T*) {
    silu_curvature(x, slopes.data(), curvature, count);
  });
}

TYPED_TEST(VectorMath, nothing_beyond_the_count_is_touched) {
  using T = TypeParam;
  for (std::size_t count = 0; count < 36; ++count) {
    std::vector<T> x(count + 1, T(0.5)), slope(count + 1, T(9)), curvature = slope;
    gelu_erf(x.data(), slope.data(), count);
    gelu_tanh(x.data(), slope.data(), count);
    gelu_erf_curvature(x.data(), slope.data(), curvature.data(), count);
    gelu_tanh_curvature(x.data(), slope.data(), curvature.data(), count);
    silu(x.data(), slope.data(), count);
    silu_curvature(x.data(), slope.data(), curvature.data(), count);
    exp_shifted(x.data(), count, T(0));
    EXPECT_EQ(x[count], T(0.5));
    EXPECT_EQ(slope[count], T(9));
    EXPECT_EQ(curvature[count], T(9));
  }
}

}  // namespace
}  // namespace fluxformer
