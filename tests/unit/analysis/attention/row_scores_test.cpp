// Scores of two attention rows: by hand and for unrelated rows.

#include "analysis/attention/attention_measures.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "base/random.hpp"

namespace fluxformer::attention {
namespace {

constexpr double row_scores_rounding = 1e-14;

RowScores scores_of(const std::vector<double>& p, const std::vector<double>& q) {
  AttentionRow x, y;
  x.assign(p.data(), static_cast<int>(p.size()));
  y.assign(q.data(), static_cast<int>(q.size()));
  return compare(x, y);
}

double value(const RowScores& scores, RowScore s) {
  return scores.value[static_cast<std::size_t>(s)];
}

TEST(RowScores, of_three_keys_by_hand) {
  const auto s = scores_of({.7, .2, .1}, {.1, .2, .7});
  EXPECT_NEAR(value(s, RowScore::cosine), .18 / .54, row_scores_rounding);
  EXPECT_NEAR(value(s, RowScore::kl), .6 * std::log(7), row_scores_rounding);
  // m = (.4, .2, .4)
  EXPECT_NEAR(value(s, RowScore::js), .7 * std::log(.7 / .4) + .1 * std::log(.1 / .4), row_scores_rounding);
  EXPECT_NEAR(value(s, RowScore::tv), .6, row_scores_rounding);
  EXPECT_NEAR(value(s, RowScore::centred), (.18 - 1. / 3) / (.54 - 1. / 3), row_scores_rounding);
  EXPECT_FALSE(s.flat);
}

TEST(RowScores, divergence_is_of_the_first_row_from_the_second) {
  const std::vector<double> p{.5, .5}, q{.25, .75};
  EXPECT_NEAR(value(scores_of(p, q), RowScore::kl), .5 * std::log(4. / 3), row_scores_rounding);
  EXPECT_NEAR(value(scores_of(q, p), RowScore::kl), .25 * std::log(.5) + .75 * std::log(1.5),
              row_scores_rounding);
}

TEST(RowScores, of_equal_rows_are_perfect) {
  const auto s = scores_of({.7, .2, .1}, {.7, .2, .1});
  EXPECT_NEAR(value(s, RowScore::cosine), 1, row_scores_rounding);
  EXPECT_NEAR(value(s, RowScore::centred), 1, row_scores_rounding);
  for (const auto score : {RowScore::kl, RowScore::js, RowScore::tv})
    EXPECT_NEAR(value(s, score), 0, row_scores_rounding);
}

TEST(RowScores, of_disjoint_rows_are_the_worst_and_finite) {
  const auto s = scores_of({1, 0, 0}, {0, .5, .5});
  EXPECT_EQ(value(s, RowScore::cosine), 0);
  EXPECT_NEAR(value(s, RowScore::js), std::numbers::ln2, row_scores_rounding);
  EXPECT_NEAR(value(s, RowScore::tv), 1, row_scores_rounding);
  EXPECT_NEAR(value(s, RowScore::kl), 1022 * std::numbers::ln2, 1e-9);
}

TEST(RowScores, a_uniform_row_scores_0_centred_and_is_told) {
  const float third = 1.0f / 3;  // uniform up to single precision
  const float above = std::nextafter(third, 1.0f);
  for (const auto& row : {std::vector<double>{third, third, third}, {third, above, third}}) {
    const auto s = scores_of({.7, .2, .1}, row);
    EXPECT_EQ(value(s, RowScore::centred), 0);
    EXPECT_TRUE(s.flat);
  }
  EXPECT_FALSE(scores_of({.7, .2, .1}, {.33334, .33333, .33333}).flat);
}

TEST(RowScores, do_not_depend_on_the_sum_of_a_row) {
  const auto s = scores_of({1.4, .4, .2}, {.05, .1, .35}), plain = scores_of({.7, .2, .1}, {.1, .2, .7});
  for (std::size_t i = 0; i < row_score_count; ++i)
    EXPECT_NEAR(s.value[i], plain.value[i], row_scores_rounding);
}

TEST(RowScores, entropy_is_log_n_for_a_uniform_row_and_0_for_one_key) {
  AttentionRow row;
  row.assign(std::vector<double>(100, 0.01).data(), 100);
  EXPECT_NEAR(row.entropy(), std::log(100), row_scores_rounding);
  row.assign(std::vector<double>{0, 1, 0}.data(), 3);
  EXPECT_EQ(row.entropy(), 0);
}

TEST(RowScores, of_unrelated_rows_are_those_of_the_theory) {
  // Rows softmax(s N(0, 1)) over 32 keys; the table is the mean over 10^6 pairs of unrelated rows. The more
  // the rows vary, the more pairs are needed: over seeds, these means have standard deviations of 4e-5, 1e-4,
  // 1.3e-4 and 1.7e-4, so that the tolerance is at least three of them.
  constexpr int n = 32;
  struct Case {
    double s, cosine, kl;
    int rows;
  };
  const RandomStream draw(1, "unrelated rows");
  for (const auto& c : {Case{.05, .9976, .0024, 500},
                        {.1146, .9874, .0127, 2000},
                        {.2, .9622, .0387, 10000},
                        {.4, .8597, .1542, 120000}}) {
    std::vector<AttentionRow> rows(3);
    double cosine = 0, kl = 0, count = 0;
    for (int i = 0; i < c.rows; ++i) {
      std::vector<double> p(n);
      for (int j = 0; j < n; ++j)
        p[static_cast<std::size_t>(j)] = std::exp(c.s * draw.normal(static_cast<std::uint64_t>(i * n + j)));
      auto& row = rows[static_cast<std::size_t>(i % 3)];
      row.assign(p.data(), n);
      for (int back = 1; back <= std::min(i, 2); ++back) {
        const auto s = compare(row, rows[static_cast<std::size_t>((i - back) % 3)]);
        cosine += value(s, RowScore::cosine), kl += value(s, RowScore::kl), count += 1;
      }
    }
    EXPECT_NEAR(cosine / count, c.cosine, 5e-4) << c.s;
    EXPECT_NEAR(kl / count, c.kl, 5e-4) << c.s;
  }
}

}  // namespace
}  // namespace fluxformer::attention
