// Exact statements about rotary positions.

#include "operators/attention/rotary.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "tests/support/reached.hpp"
#include "tests/support/test_vectors.hpp"

namespace fluxformer {
namespace {

using namespace test;

constexpr int channels = 64, tokens = 50;

std::vector<double> angles(int turned, double base = 1e4) {
  std::vector<double> theta;
  for (int j = 0; 2 * j < turned; ++j) theta.push_back(std::pow(base, -2.0 * j / turned));
  return theta;
}

std::vector<int> tokens_from(int first) {
  std::vector<int> all(tokens);
  std::iota(all.begin(), all.end(), first);
  return all;
}

/// R_x u for one head of the tokens x = first, first + 1, ...
template <class T>
std::vector<T> turned(const Rotary& rotary, std::vector<T> u, int first = 0) {
  RotaryTurn<T> turn(rotary, channels, tokens_from(first));
  turn.set(angles(rotary.channels).data());
  turn.turn(u.data(), tokens, 1);
  return u;
}

double dot_of(const std::vector<double>& x, int i, const std::vector<double>& y, int j) {
  double sum = 0;
  for (int c = 0; c < channels; ++c)
    sum += x[static_cast<std::size_t>(i * channels + c)] * y[static_cast<std::size_t>(j * channels + c)];
  return sum;
}

const std::vector<double> q = random_vector(tokens * channels, 1), k = random_vector(tokens * channels, 2);

/// One head, the same for all tokens.
std::vector<double> everywhere(const std::vector<double>& head) {
  std::vector<double> all;
  for (int x = 0; x < tokens; ++x) all.insert(all.end(), head.begin(), head.begin() + channels);
  return all;
}

class RotaryTurns : public testing::TestWithParam<RotaryLayout> {};
INSTANTIATE_TEST_SUITE_P(Layouts, RotaryTurns,
                         testing::Values(RotaryLayout::half, RotaryLayout::interleaved));

// cos^2 + sin^2 = 1 to 2e-16, and sums of 64 squares.
TEST_P(RotaryTurns, keep_norms) {
  const auto all = turned({GetParam(), channels}, q);
  for (int x = 0; x < tokens; ++x) {
    const double before = std::sqrt(dot_of(q, x, q, x)), after = std::sqrt(dot_of(all, x, all, x));
    EXPECT_LT(reached("rotary positions: norm", std::abs(after - before) / before), 4e-15);
  }
}

TEST_P(RotaryTurns, turn_pairs_by_their_angles_and_multiply_them) {
  const Rotary rotary{GetParam(), 40, 1.3};
  const auto all = turned(rotary, q);
  const auto theta = angles(40);
  for (std::size_t x = 0; x < tokens; ++x)
    for (std::size_t j = 0; j < 20; ++j) {
      const bool half = GetParam() == RotaryLayout::half;
      const std::size_t a = x * channels + (half ? j : 2 * j), b = x * channels + (half ? j + 20 : 2 * j + 1);
      const double angle = static_cast<double>(x) * theta[j];
      EXPECT_NEAR(all[a], 1.3 * (q[a] * std::cos(angle) - q[b] * std::sin(angle)), 1e-14);
      EXPECT_NEAR(all[b], 1.3 * (q[b] * std::cos(angle) + q[a] * std::sin(angle)), 1e-14);
    }
}

TEST_P(RotaryTurns, leave_the_other_channels_as_they_are) {
  const auto all = turned({GetParam(), 40, 1.3}, q);
  for (std::size_t i = 0; i < q.size(); ++i)
    if (i % channels >= 40) {
      EXPECT_EQ(all[i], q[i]);
    }
}

// (R_x q) . (R_y k) = q . (R_{y - x} k), where R_{y - x} is that of token y - x, or of x - y turned back.
TEST_P(RotaryTurns, make_scores_that_depend_on_the_distance) {
  const Rotary rotary{GetParam(), channels};
  const auto one = everywhere(q), other = everywhere(k);
  const auto all_q = turned(rotary, one), all_k = turned(rotary, other);
  const double size = std::sqrt(dot_of(one, 0, one, 0) * dot_of(other, 0, other, 0));
  for (int x = 0; x < tokens; ++x)
    for (int y = 0; y < tokens; ++y) {
      const double expected = y >= x ? dot_of(one, 0, all_k, y - x) : dot_of(all_q, x - y, other, 0);
      EXPECT_LT(reached("rotary positions: scores", std::abs(dot_of(all_q, x, all_k, y) - expected) / size),
                1e-14);
    }
}

// An angle (x + a) theta is rounded to (x + a) 2^-53.
TEST_P(RotaryTurns, may_be_counted_from_any_token) {
  const Rotary rotary{GetParam(), channels};
  const auto all_q = turned(rotary, q), all_k = turned(rotary, k);
  for (const auto& [shift, bound] : {std::pair{100, 1e-14}, {1000, 1e-13}, {100000, 1e-11}}) {
    const auto far_q = turned(rotary, q, shift), far_k = turned(rotary, k, shift);
    double error = 0;
    for (int x = 0; x < tokens; ++x)
      for (int y = 0; y < tokens; ++y)
        error = std::max(error, std::abs(dot_of(far_q, x, far_k, y) - dot_of(all_q, x, all_k, y)) /
                                    std::sqrt(dot_of(q, x, q, x) * dot_of(k, y, k, y)));
    EXPECT_LT(reached("rotary positions: shifted tokens", error), bound) << shift;
    EXPECT_GT(relative_difference(far_q, all_q), 0.1);
  }
}

TEST_P(RotaryTurns, turn_back_by_the_transpose) {
  for (const double scale : {1.0, 1.3}) {
    // Two heads of 32 channels, of which 30 are turned.
    RotaryTurn<double> turn({GetParam(), 30, scale}, channels / 2, tokens_from(3));
    turn.set(angles(30).data());
    auto there = q, back = k;
    turn.turn(there.data(), tokens, 2);
    turn.turn_back(back.data(), tokens, 2);
    EXPECT_NEAR(dot(there, k), dot(q, back), 1e-14 * norm(q) * norm(k));
    EXPECT_GT(relative_difference(there, q), 0.1);
  }
}

TEST(RotaryLayouts, are_the_same_after_ordering_the_channels) {
  const auto place = [](std::size_t c) { return c % 2 == 0 ? c / 2 : channels / 2 + c / 2; };
  const auto ordered = [&](const std::vector<double>& x) {
    std::vector<double> y(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) y[i] = x[i / channels * channels + place(i % channels)];
    return y;
  };
  const double error = relative_difference(turned({RotaryLayout::interleaved, channels}, ordered(q)),
                                           ordered(turned({RotaryLayout::half, channels}, q)));
  EXPECT_LT(reached("rotary positions: layouts", error), 4e-15);
}

// The angle of token 100,000 in single precision would be wrong by 0.004.
TEST(RotaryPositions, of_single_precision_have_the_angles_of_double) {
  const Rotary rotary{RotaryLayout::half, channels};
  const auto single = turned(rotary, rounded_to<float>(q), 100000);
  const auto exact = turned(rotary, q, 100000);
  EXPECT_LT(relative_difference({single.begin(), single.end()}, exact), 3e-7);
}

TEST(RotaryPositions, of_layers_with_different_angles_are_kept_apart) {
  const Rotary rotary{RotaryLayout::half, channels};
  RotaryTurn<double> turn(rotary, channels, tokens_from(0));
  const auto slow = angles(channels, 1e6);
  auto quick = angles(channels);
  const auto with = [&](const std::vector<double>& theta) {
    turn.set(theta.data());
    auto u = q;
    turn.turn(u.data(), tokens, 1);
    return u;
  };
  const auto first = with(quick), second = with(slow);
  EXPECT_NE(first, second);
  EXPECT_EQ(with(quick), first);
  EXPECT_EQ(with(slow), second);
  quick[3] *= 2;  // in the same memory
  EXPECT_NE(with(quick), first);
}

}  // namespace
}  // namespace fluxformer
