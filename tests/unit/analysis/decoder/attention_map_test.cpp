// The moments of tokens far from the origin, of extreme scores, and by hand.

#include <gtest/gtest.h>

#include "tests/unit/analysis/decoder/layer_case.hpp"

namespace fluxformer::decoder {
namespace {

using namespace test;

TEST(AttentionMoments, of_two_tokens_are_those_of_a_coin) {
  // One coordinate, tokens 0 and 1, row 0 with weights 1 - p and p: mean p, variance p (1 - p), third central
  // moment p (1 - p) (1 - 2 p).
  Matrix x(2, 1), u(2, 1);
  x << 0, 1;
  u << std::log(0.3 / 0.7), 0;
  const AttentionMoments at(x, u, Scores::softmax, Mask::none);
  EXPECT_NEAR(at.first()(0, 0), 0.3, 1e-15);
  EXPECT_NEAR(at.second(0)(0, 0), 0.21, 1e-15);
  EXPECT_NEAR(at.third(0, Vector::Constant(1, 2))(0, 0), 2 * 0.21 * 0.4, 1e-15);
}

TEST(AttentionMoments, lose_no_digits_far_from_the_origin) {
  const double offset = 1e5;
  const Matrix x = fill(110, 6, 4), u = fill(17, 6, 4), h = fill(18, 6, 4);
  const Matrix shifted = x.array() + offset;
  const AttentionMoments near(x, u, Scores::softmax, Mask::causal),
      far(shifted, u, Scores::softmax, Mask::causal);
  // Rounding of the tokens themselves: 1e-16 offset. E[x x^T] - m m^T would lose its square, 1e-6.
  const double bound = 1e-10;
  const auto close = [&](const Matrix& a, const Matrix& b) {
    EXPECT_LT((a - b).norm(), bound * (b.norm() + 1e-3));
  };
  for (Index i = 0; i < 6; ++i) {
    close(far.second(i), near.second(i));
    close(far.third(i, h.row(i)), near.third(i, h.row(i)));
  }
  close(far.second_times(h), near.second_times(h));
  close(far.third_times(h, u), near.third_times(h, u));
}

TEST(AttentionMoments, stay_finite_for_extreme_scores) {
  const AttentionMoments at(fill(110, 6, 4), 1e5 * fill(17, 6, 4), Scores::softmax, Mask::causal);
  EXPECT_TRUE(at.first().allFinite());
  for (Index i = 0; i < 6; ++i) EXPECT_TRUE(at.second(i).allFinite());
  // All weight on one token: its neighbourhood has no spread.
  EXPECT_LT(at.second(5).norm(), 1e-12);
}

}  // namespace
}  // namespace fluxformer::decoder
