// Scores of two attention rows: by hand and for unrelated rows.

#include "analysis/attention/attention_measures.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <numbers>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "base/error.hpp"
#include "base/random.hpp"
#include "tests/support/test_vectors.hpp"

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
      for (int j = 0; j < n; ++j) p[j] = std::exp(c.s * draw.normal(static_cast<std::uint64_t>(i * n + j)));
      auto& row = rows[i % 3];
      row.assign(p.data(), n);
      for (int back = 1; back <= std::min(i, 2); ++back) {
        const auto s = compare(row, rows[(i - back) % 3]);
        cosine += value(s, RowScore::cosine), kl += value(s, RowScore::kl), count += 1;
      }
    }
    EXPECT_NEAR(cosine / count, c.cosine, 5e-4) << c.s;
    EXPECT_NEAR(kl / count, c.kl, 5e-4) << c.s;
  }
}

}  // namespace
}  // namespace fluxformer::attention

// Optimal assignment against exhaustive search.

namespace fluxformer::attention {
namespace {

using Columns = std::vector<int>;

double total(const std::vector<double>& cost, int columns, const Columns& column_of) {
  double sum = 0;
  for (std::size_t i = 0; i < column_of.size(); ++i)
    if (column_of[i] >= 0)
      sum += cost[i * static_cast<std::size_t>(columns) + static_cast<std::size_t>(column_of[i])];
  return sum;
}

/// The smallest total over all ways to give as many rows as possible their own column.
double least_total(const std::vector<double>& cost, int rows, int columns) {
  // Slots beyond the columns mean "none", so that every permutation of the slots is an assignment.
  Columns slots(static_cast<std::size_t>(std::max(rows, columns)));
  std::iota(slots.begin(), slots.end(), 0);
  double least = INFINITY;
  do {
    Columns column_of(slots.begin(), slots.begin() + rows);
    for (int& column : column_of)
      if (column >= columns) column = -1;
    least = std::min(least, total(cost, columns, column_of));
  } while (std::next_permutation(slots.begin(), slots.end()));
  return least;
}

TEST(Assignment, is_the_cheapest_of_all) {
  for (const auto& [rows, columns] :
       {std::pair{1, 1}, {2, 2}, {3, 3}, {6, 6}, {4, 6}, {6, 4}, {1, 5}, {5, 1}})
    for (unsigned seed = 0; seed < 10; ++seed) {
      auto cost = test::random_vector(static_cast<std::size_t>(rows * columns), seed);
      // Integers every other time, so that many costs are equal.
      if (seed % 2 == 1)
        for (double& x : cost) x = std::round(2 * x);
      const auto found = optimal_assignment(cost, rows, columns);
      EXPECT_NEAR(total(cost, columns, found), least_total(cost, rows, columns), 1e-13)
          << rows << " x " << columns;
      Columns taken;
      for (const int column : found)
        if (column >= 0) taken.push_back(column);
      std::sort(taken.begin(), taken.end());
      EXPECT_EQ(std::adjacent_find(taken.begin(), taken.end()), taken.end());
      EXPECT_EQ(taken.size(), static_cast<std::size_t>(std::min(rows, columns)));
    }
}

TEST(Assignment, is_not_greedy) {
  // The cheapest entry first, (0, 0), would cost 1 + 100.
  EXPECT_EQ(optimal_assignment({1, 2, 2, 100}, 2, 2), (Columns{1, 0}));
}

TEST(Assignment, recovers_a_permutation_of_many) {
  constexpr std::size_t n = 40;
  std::vector<double> cost(n * n, 1.0);
  for (std::size_t i = 0; i < n; ++i) cost[i * n + (7 * i + 3) % n] = 0.5;
  const auto found = optimal_assignment(cost, n, n);
  for (std::size_t i = 0; i < n; ++i) EXPECT_EQ(found[i], static_cast<int>((7 * i + 3) % n));
}

TEST(Assignment, avoids_costs_that_are_not_finite) {
  EXPECT_EQ(optimal_assignment({NAN, 5, 1, INFINITY}, 2, 2), (Columns{1, 0}));
  // A row without finite costs takes what the others leave.
  EXPECT_EQ(optimal_assignment({NAN, NAN, NAN, 3, 1, 9, 1, 2, 9}, 3, 3), (Columns{2, 1, 0}));
}

TEST(Assignment, of_nothing_is_nothing_and_wrong_sizes_are_refused) {
  EXPECT_EQ(optimal_assignment({}, 0, 3), Columns{});
  EXPECT_EQ(optimal_assignment({}, 2, 0), (Columns{-1, -1}));
  EXPECT_THROW(optimal_assignment({1, 2, 3}, 2, 2), std::invalid_argument);
}

}  // namespace
}  // namespace fluxformer::attention

// Attention of two models side by side: means, null controls, matched heads.

namespace fluxformer::attention {
namespace {

constexpr double rounding = 1e-12;
constexpr RowScore every_score[] = {RowScore::cosine, RowScore::kl, RowScore::js, RowScore::tv,
                                    RowScore::centred};

/// Attention of random logits: [head][query][key]; NaN beyond `length`.
std::vector<double> attention(int heads, int tokens, int length, unsigned seed, double deviation = 1) {
  std::vector<double> k(static_cast<std::size_t>(heads * tokens * tokens), NAN);
  const auto logits = test::random_vector(static_cast<std::size_t>(heads * length * length), seed, deviation);
  for (int row = 0; row < heads * length; ++row) {
    double* const to = k.data() + (row / length * tokens + row % length) * tokens;
    const double* const from = logits.data() + row * length;
    double sum = 0;
    for (int key = 0; key < length; ++key) sum += std::exp(from[key]);
    for (int key = 0; key < length; ++key) to[key] = std::exp(from[key]) / sum;
  }
  return k;
}

std::size_t index(RowScore s) {
  return static_cast<std::size_t>(s);
}

/// A subset of five samples of 3 to 7 tokens at two layers, on lines with `padding` extra tokens.
AttentionAccumulator meter_of(const std::vector<long>& which, int padding) {
  AttentionAccumulator meter({2, 3, 2}, 1);
  for (const long sample : which)
    for (int layer = 0; layer < 2; ++layer) {
      const int length = 3 + static_cast<int>(sample);
      const auto seed = static_cast<unsigned>(10 * sample + layer);
      meter.add(sample, layer, {length + padding, length},
                attention(3, length + padding, length, seed).data(),
                attention(2, length + padding, length, 100 + seed).data());
    }
  meter.reduce(MPI_COMM_SELF);
  return meter;
}

/// All means of such an accumulator.
std::vector<double> means_of(const AttentionAccumulator& meter) {
  std::vector<double> all;
  for (int layer = 0; layer < 2; ++layer)
    for (int t = 0; t < 3; ++t) {
      for (const auto s : every_score) {
        for (int p = 0; p < 2; ++p) all.push_back(meter.score(s, layer, t, p));
        all.push_back(meter.uniform_score(s, layer, t));
        all.push_back(meter.permuted_score(s, layer, t));
      }
    }
  return all;
}

TEST(AttentionMeasures, are_means_over_queries_and_then_samples) {
  constexpr int layers = 2, heads_t = 3, heads_p = 2;
  const auto meter = meter_of({0, 1, 2, 3, 4}, 1);
  for (int layer = 0; layer < layers; ++layer)
    for (int t = 0; t < heads_t; ++t)
      for (int p = 0; p < heads_p; ++p)
        for (const auto s : every_score) {
          double expected = 0;
          for (int sample = 0; sample < 5; ++sample) {
            const int n = 3 + sample;
            const auto seed = static_cast<unsigned>(10 * sample + layer);
            const auto a = attention(heads_t, n, n, seed), b = attention(heads_p, n, n, 100 + seed);
            for (int query = 0; query < n; ++query) {
              AttentionRow x, y;
              x.assign(a.data() + (t * n + query) * n, n);
              y.assign(b.data() + (p * n + query) * n, n);
              expected += compare(x, y).value[index(s)] / n / 5;
            }
          }
          EXPECT_NEAR(meter.score(s, layer, t, p), expected, rounding);
        }
  EXPECT_EQ(meter.samples(0), 5);
  EXPECT_EQ(meter.flat_rows(0, 0, 0), 0);
}

TEST(AttentionMeasures, padding_does_not_matter) {
  const auto plain = meter_of({0, 1, 2, 3, 4}, 0), padded = meter_of({0, 1, 2, 3, 4}, 9);
  EXPECT_LT(test::relative_difference(means_of(padded), means_of(plain)), rounding);
}

TEST(AttentionMeasures, halves_merge_to_the_whole) {
  auto merged = means_of(meter_of({4, 1}, 0));
  for (double& mean : merged) mean *= 2.0 / 5;
  merged = test::plus(merged, 3.0 / 5, means_of(meter_of({0, 3, 2}, 0)));
  EXPECT_LT(test::relative_difference(merged, means_of(meter_of({0, 1, 2, 3, 4}, 0))), rounding);
}

TEST(AttentionMeasures, entropy_is_the_divergence_from_uniform_rows) {
  constexpr int n = 6;
  AttentionAccumulator meter({1, 2, 1}, 1);
  const auto t = attention(2, n, n, 1), p = attention(1, n, n, 2);
  meter.add(0, 0, {n, n}, t.data(), p.data());
  meter.reduce(MPI_COMM_SELF);
  HeadAccumulator heads({1, 2, n});
  heads.add(0, {n, n}, t.data());
  heads.reduce(MPI_COMM_SELF);
  for (int head = 0; head < 2; ++head) {
    // KL(T || 1/n) = log n - H(T)
    EXPECT_NEAR(meter.uniform_score(RowScore::kl, 0, head), std::log(n) * (1 - heads.entropy(0, head)),
                rounding);
    EXPECT_EQ(meter.uniform_score(RowScore::centred, 0, head), 0);
  }
}

TEST(AttentionMeasures, uniform_attention_scores_0_centred_and_is_counted) {
  constexpr int n = 5;
  AttentionAccumulator meter({1, 1, 2}, 1);
  auto p = attention(2, n, n, 2);
  std::fill_n(p.begin() + n * n, n * n, 1.0 / n);
  for (const long sample : {0, 1}) meter.add(sample, 0, {n, n}, attention(1, n, n, 1).data(), p.data());
  meter.reduce(MPI_COMM_SELF);
  EXPECT_EQ(meter.flat_rows(0, 0, 0), 0);
  EXPECT_EQ(meter.flat_rows(0, 0, 1), 2 * n);
  EXPECT_EQ(meter.score(RowScore::centred, 0, 0, 1), 0);
  EXPECT_NEAR(meter.score(RowScore::cosine, 0, 0, 1), meter.uniform_score(RowScore::cosine, 0, 0), rounding);
}

TEST(AttentionMeasures, permuted_keys_are_all_orders_equally) {
  // The same row for all queries: the null control samples its n! permutations.
  constexpr int n = 4, samples = 2000;
  const std::vector<double> row{.5, .3, .15, .05};
  std::vector<double> k;
  for (int query = 0; query < n; ++query) k.insert(k.end(), row.begin(), row.end());
  AttentionAccumulator meter({1, 1, 1}, 7);
  for (long sample = 0; sample < samples; ++sample) meter.add(sample, 0, {n, n}, k.data(), k.data());
  meter.reduce(MPI_COMM_SELF);

  AttentionRow given, other;
  given.assign(row.data(), n);
  auto order = row;
  std::sort(order.begin(), order.end());
  std::array<double, row_score_count> mean{}, square{};
  do {
    other.assign(order.data(), n);
    const auto s = compare(given, other).value;
    for (std::size_t i = 0; i < s.size(); ++i) mean[i] += s[i] / 24, square[i] += s[i] * s[i] / 24;
  } while (std::next_permutation(order.begin(), order.end()));
  // (cosine: 1 / (n |p|^2); kl: sum p log p - mean log p)
  EXPECT_NEAR(mean[0], 1 / (n * test::dot(row, row)), rounding);
  for (const auto s : every_score) {
    const auto i = index(s);
    const double error = std::sqrt((square[i] - mean[i] * mean[i]) / (n * samples));
    EXPECT_NEAR(meter.permuted_score(s, 0, 0), mean[i], 4 * error) << i;
  }
}

TEST(AttentionMeasures, each_row_has_keys_in_an_order_of_its_own) {
  const auto order = [](std::uint64_t seed, long sample, int layer, int head, int query) {
    std::vector<double> row(20);
    for (std::size_t i = 0; i < row.size(); ++i) row[i] = static_cast<double>(i);
    KeyShuffle(seed).permute(sample, layer, head, query, row);
    return row;
  };
  const auto first = order(1, 0, 0, 0, 0);
  EXPECT_EQ(order(1, 0, 0, 0, 0), first);
  for (const auto& other : {order(2, 0, 0, 0, 0), order(1, 1, 0, 0, 0), order(1, 0, 1, 0, 0),
                            order(1, 0, 0, 1, 0), order(1, 0, 0, 0, 1)})
    EXPECT_NE(other, first);
}

TEST(AttentionMeasures, samples_in_which_no_token_sees_another_are_refused) {
  AttentionAccumulator meter({1, 1, 1}, 1);
  const std::vector<double> k(16, 1.0);
  EXPECT_THROW(meter.add(0, 0, {4, 1}, k.data(), k.data()), BadInput);
  EXPECT_THROW(meter.add(0, 0, {1, 1}, k.data(), k.data()), BadInput);
  EXPECT_THROW(meter.add(0, 0, {4, 3, reach_of(true, 1)}, k.data(), k.data()), BadInput);
  EXPECT_NO_THROW(meter.add(0, 0, {4, 2}, k.data(), k.data()));
  meter.reduce(MPI_COMM_SELF);
  EXPECT_EQ(meter.samples(0), 1);
}

/// P holds the heads of T in the order `of` (head p of P is head of[p] of T), and others where that is -1.
AttentionAccumulator with_heads_in_order(const std::vector<int>& of, int heads_t) {
  constexpr int n = 6;
  const auto heads_p = static_cast<int>(of.size());
  AttentionAccumulator meter({1, heads_t, heads_p}, 1);
  for (unsigned sample = 0; sample < 4; ++sample) {
    const auto t = attention(heads_t, n, n, sample);
    auto p = attention(heads_p, n, n, 50 + sample);
    for (int head = 0; head < heads_p; ++head)
      if (const int from = of[head]; from >= 0)
        std::copy_n(t.begin() + from * n * n, n * n, p.begin() + head * n * n);
    meter.add(sample, 0, {n, n}, t.data(), p.data());
  }
  meter.reduce(MPI_COMM_SELF);
  return meter;
}

TEST(MatchedHeads, find_their_copies) {
  for (const auto by : every_score) {
    const auto same = with_heads_in_order({2, 0, 3, 1}, 4);
    EXPECT_EQ(match_heads(same, 0, by), (std::vector<int>{1, 3, 0, 2}));
    EXPECT_NEAR(matched_score(same, 0, match_heads(same, 0, by), RowScore::tv), 0, rounding);
    const auto more = with_heads_in_order({-1, 1, -1, 0}, 2);
    EXPECT_EQ(match_heads(more, 0, by), (std::vector<int>{3, 1}));
    const auto fewer = with_heads_in_order({2, 0}, 3);
    const auto match = match_heads(fewer, 0, by);
    EXPECT_EQ(match, (std::vector<int>{1, -1, 0}));
    EXPECT_NEAR(matched_score(fewer, 0, match, RowScore::centred), 1, rounding);
  }
}

TEST(MatchedHeads, are_scored_by_the_mean_over_them) {
  const auto meter = with_heads_in_order({-1, -1, -1}, 3);
  EXPECT_NEAR(matched_score(meter, 0, {2, -1, 0}, RowScore::kl),
              (meter.score(RowScore::kl, 0, 0, 2) + meter.score(RowScore::kl, 0, 2, 0)) / 2, rounding);
}

/// Five samples of 3 to 7 tokens as in meter_of, each kept in the row 4 - sample.
AttentionAccumulator keeping_samples(const HeadMatch& pairs) {
  AttentionAccumulator meter({2, 3, 2}, 1, MatchedScores(6, pairs));
  meter.leave_out(5);
  for (const long sample : {2, 0, 4, 1, 3})
    for (int layer = 0; layer < 2; ++layer) {
      const int length = 3 + static_cast<int>(sample);
      const auto seed = static_cast<unsigned>(10 * sample + layer);
      meter.add(sample, layer, {length + 1, length}, attention(3, length + 1, length, seed).data(),
                attention(2, length + 1, length, 100 + seed).data(), 4 - static_cast<std::size_t>(sample));
    }
  meter.reduce(MPI_COMM_SELF);
  return meter;
}

/// Over the numbers of five samples; the sixth has none.
double mean_of_five(const std::vector<double>& each) {
  EXPECT_EQ(each.size(), 6u);
  EXPECT_TRUE(std::isnan(each[5]));
  double sum = 0;
  for (std::size_t i = 0; i < 5; ++i) sum += each[i];
  return sum / 5;
}

TEST(MatchedScores, are_means_over_the_layers_matched_heads_and_queries_of_a_sample) {
  const HeadMatch pairs{{1, -1, 0}, {0, 1, -1}};
  const auto meter = keeping_samples(pairs);
  for (const auto s : every_score) {
    const auto each = meter.by_sample().of(s, Against::match);
    for (int sample = 0; sample < 5; ++sample) {
      const int n = 3 + sample;
      double expected = 0;
      for (int layer = 0; layer < 2; ++layer)
        for (int t = 0; t < 3; ++t) {
          const int p = pairs[layer][t];
          if (p < 0) continue;
          const auto seed = static_cast<unsigned>(10 * sample + layer);
          const auto a = attention(3, n, n, seed), b = attention(2, n, n, 100 + seed);
          for (int query = 0; query < n; ++query) {
            AttentionRow x, y;
            x.assign(a.data() + (t * n + query) * n, n);
            y.assign(b.data() + (p * n + query) * n, n);
            expected += compare(x, y).value[index(s)] / n / 4;  // two heads in each of two layers
          }
        }
      EXPECT_NEAR(each[4 - sample], expected, rounding);
    }
  }
}

TEST(MatchedScores, have_the_stored_scores_as_their_mean_over_samples) {
  const HeadMatch pairs{{1, -1, 0}, {0, 1, -1}};
  const auto meter = keeping_samples(pairs);
  for (const auto s : every_score) {
    double matched = 0, uniform = 0, permuted = 0;
    for (int layer = 0; layer < 2; ++layer) {
      matched += matched_score(meter, layer, pairs[layer], s) / 2;
      for (int t = 0; t < 3; ++t) {
        uniform += meter.uniform_score(s, layer, t) / 6;
        permuted += meter.permuted_score(s, layer, t) / 6;
      }
    }
    EXPECT_NEAR(mean_of_five(meter.by_sample().of(s, Against::match)), matched, rounding);
    EXPECT_NEAR(mean_of_five(meter.by_sample().of(s, Against::uniform)), uniform, rounding);
    EXPECT_NEAR(mean_of_five(meter.by_sample().of(s, Against::permuted)), permuted, rounding);
  }
}

TEST(MatchedScores, change_no_number_of_the_meter_that_keeps_them) {
  const auto keeps = keeping_samples({{1, -1, 0}, {0, 1, -1}}), plain = meter_of({2, 0, 4, 1, 3}, 1);
  EXPECT_EQ(means_of(keeps), means_of(plain));
}

// Rows of causal order and windows, against sums over lists of visible keys.

/// The sight of a layer: causal order, a window (0: none), real tokens of a line with padding.
struct Seen {
  bool causal;
  int window, tokens, length;

  VisibleKeys keys() const { return {tokens, length, reach_of(causal, window)}; }
  bool sees(int x, int y) const {
    if (y >= length || (causal && y > x)) return false;
    return window == 0 || (causal ? x - y < window : std::abs(x - y) <= window);
  }
  /// Random attention: [head][query][key], 0 where a key is not seen, and NaN for rows of padding.
  std::vector<double> attention(int heads, unsigned seed) const {
    auto k = test::random_vector(static_cast<std::size_t>(heads * tokens * tokens), seed);
    for (int row = 0; row < heads * tokens; ++row) {
      double sum = 0;
      for (int y = 0; y < tokens; ++y) {
        double& weight = k[static_cast<std::size_t>(row * tokens + y)];
        const int x = row % tokens;
        weight = x >= length ? NAN : sees(x, y) ? std::exp(weight) : 0;
        sum += weight;
      }
      for (int y = 0; y < tokens; ++y) k[static_cast<std::size_t>(row * tokens + y)] /= sum;
    }
    return k;
  }
  /// The same weight for all keys that a query sees.
  std::vector<double> uniform() const {
    auto k = attention(1, 1);
    for (int x = 0; x < length; ++x) {
      const auto row = k.begin() + x * tokens;
      const auto seen = std::count_if(row, row + tokens, [](double p) { return p > 0; });
      for (int y = 0; y < tokens; ++y)
        if (row[y] > 0) row[y] = 1.0 / static_cast<double>(seen);
    }
    return k;
  }
  /// The weights of the keys that each query sees in a head, for queries that see at least `least` of them.
  std::vector<std::vector<double>> rows(const std::vector<double>& k, int head, std::size_t least) const {
    std::vector<std::vector<double>> all;
    for (int x = 0; x < length; ++x) {
      std::vector<double> row;
      for (int y = 0; y < tokens; ++y)
        if (sees(x, y)) row.push_back(k[static_cast<std::size_t>((head * tokens + x) * tokens + y)]);
      if (row.size() >= least) all.push_back(row);
    }
    return all;
  }
};

const Seen seen_cases[] = {{true, 0, 8, 6},  {true, 3, 8, 8},  {true, 2, 7, 5},  {true, 20, 6, 6},
                           {false, 2, 9, 7}, {false, 1, 5, 5}, {false, 0, 8, 6}, {true, 0, 5, 2}};

TEST(VisibleKeys, are_counted_by_the_rule_of_the_operator) {
  for (const auto& seen : seen_cases) {
    int queries = 0;
    for (int x = 0; x < seen.length; ++x) {
      const auto range = seen.keys().of(x);
      for (int y = 0; y < seen.tokens; ++y) EXPECT_EQ(range.first <= y && y < range.end, seen.sees(x, y));
      queries += range.count() > 1 ? 1 : 0;
    }
    EXPECT_EQ(seen.keys().compared_queries(), queries);
  }
  EXPECT_EQ((VisibleKeys{4, 3, reach_of(true, 1)}.compared_queries()), 0);
  EXPECT_EQ((VisibleKeys{4, 3, reach_of(true, 0)}.compared_queries()), 2);
}

TEST(AttentionMeasures, of_causal_rows_and_windows_are_those_over_visible_keys) {
  for (const auto& seen : seen_cases) {
    const auto t = seen.attention(2, 3), p = seen.attention(3, 4);
    AttentionAccumulator meter({1, 2, 3}, 9);
    meter.add(5, 0, seen.keys(), t.data(), p.data());
    meter.reduce(MPI_COMM_SELF);
    for (int i = 0; i < 2; ++i) {
      const auto of_t = seen.rows(t, i, 2);
      const auto queries = static_cast<double>(of_t.size());
      const auto mean_over_rows = [&](const auto& other) {
        std::array<double, row_score_count> mean{};
        for (std::size_t x = 0; x < of_t.size(); ++x) {
          const auto scores = scores_of(of_t[x], other(x));
          for (std::size_t s = 0; s < mean.size(); ++s) mean[s] += scores.value[s] / queries;
        }
        return mean;
      };
      for (int j = 0; j < 3; ++j) {
        const auto of_p = seen.rows(p, j, 2);
        const auto expected = mean_over_rows([&](std::size_t x) { return of_p[x]; });
        for (const auto s : every_score) EXPECT_NEAR(meter.score(s, 0, i, j), expected[index(s)], rounding);
      }
      const auto uniform = mean_over_rows(
          [&](std::size_t x) { return std::vector<double>(of_t[x].size(), 1.0 / of_t[x].size()); });
      // The first query that sees two keys is the second one of a causal line.
      const int first = seen.causal ? 1 : 0;
      const auto permuted = mean_over_rows([&](std::size_t x) {
        auto row = of_t[x];
        KeyShuffle(9).permute(5, 0, i, first + static_cast<int>(x), row);
        return row;
      });
      for (const auto s : every_score) {
        EXPECT_NEAR(meter.uniform_score(s, 0, i), uniform[index(s)], rounding);
        EXPECT_NEAR(meter.permuted_score(s, 0, i), permuted[index(s)], rounding);
      }
    }
  }
}

TEST(AttentionMeasures, of_uniform_causal_rows_are_flat) {
  for (const auto& seen : seen_cases) {
    const auto k = seen.uniform(), other = seen.attention(1, 2);
    AttentionAccumulator meter({1, 1, 1}, 1);
    meter.add(0, 0, seen.keys(), other.data(), k.data());
    meter.reduce(MPI_COMM_SELF);
    EXPECT_EQ(meter.score(RowScore::centred, 0, 0, 0), 0);
    EXPECT_EQ(meter.flat_rows(0, 0, 0), seen.keys().compared_queries());
    for (const auto s : every_score)
      EXPECT_NEAR(meter.score(s, 0, 0, 0), meter.uniform_score(s, 0, 0), rounding);
  }
}

}  // namespace
}  // namespace fluxformer::attention

// What heads do by themselves: entropies and distances.

namespace fluxformer::attention {
namespace {

HeadAccumulator heads_of(const Seen& seen, int heads, const std::vector<double>& k) {
  HeadAccumulator found({1, heads, seen.tokens});
  found.add(0, seen.keys(), k.data());
  found.reduce(MPI_COMM_SELF);
  return found;
}

TEST(HeadMeasures, entropy_is_that_of_visible_keys_over_the_logarithm_of_their_number) {
  for (const auto& seen : seen_cases) {
    const auto k = seen.attention(2, 3);
    const auto found = heads_of(seen, 2, k);
    for (int head = 0; head < 2; ++head) {
      const auto rows = seen.rows(k, head, 2);
      double mean = 0;
      for (const auto& row : rows)
        for (const double p : row)
          mean -=
              p * std::log(p) / std::log(static_cast<double>(row.size())) / static_cast<double>(rows.size());
      EXPECT_NEAR(found.entropy(0, head), mean, rounding);
    }
    EXPECT_NEAR(heads_of(seen, 1, seen.uniform()).entropy(0, 0), 1, rounding);
  }
}

TEST(HeadMeasures, entropy_is_a_mean_over_samples_that_say_something) {
  const Seen one{true, 0, 8, 6}, other{true, 0, 8, 3}, alone{true, 0, 8, 1};
  HeadAccumulator all({1, 1, 8}), nothing({1, 1, 8});
  unsigned seed = 1;
  double mean = 0;
  for (const auto& seen : {one, alone, other}) {
    const auto k = seen.attention(1, seed++);
    all.add(0, seen.keys(), k.data());
    if (seen.length > 1) mean += heads_of(seen, 1, k).entropy(0, 0) / 2;
  }
  nothing.add(0, alone.keys(), alone.attention(1, 1).data());
  all.reduce(MPI_COMM_SELF), nothing.reduce(MPI_COMM_SELF);
  EXPECT_NEAR(all.entropy(0, 0), mean, rounding);
  EXPECT_TRUE(std::isnan(nothing.entropy(0, 0)));
}

TEST(HeadMeasures, weights_by_distance_are_means_over_the_pairs_of_all_samples) {
  for (const bool causal : {true, false})
    for (const int window : {0, 3}) {
      constexpr int tokens = 9, heads = 2;
      HeadAccumulator found({1, heads, tokens});
      std::vector<double> sum(heads * tokens), flat(tokens), pairs(tokens), far(heads);
      double queries = 0, flat_far = 0;
      for (const int length : {7, 1, 4}) {
        const Seen seen{causal, window, tokens, length};
        const auto k = seen.attention(heads, static_cast<unsigned>(length));
        found.add(0, seen.keys(), k.data());
        for (int x = 0; x < length; ++x) {
          int visible = 0;
          for (int y = 0; y < tokens; ++y) visible += seen.sees(x, y) ? 1 : 0;
          for (int y = 0; y < tokens; ++y) {
            if (!seen.sees(x, y)) continue;
            const auto distance = static_cast<std::size_t>(std::abs(x - y));
            pairs[distance] += 1, flat[distance] += 1.0 / visible;
            flat_far += static_cast<double>(distance) / visible;
            for (std::size_t h = 0; h < heads; ++h) {
              const double weight =
                  k[(h * tokens + static_cast<std::size_t>(x)) * tokens + static_cast<std::size_t>(y)];
              sum[h * tokens + distance] += weight, far[h] += static_cast<double>(distance) * weight;
            }
          }
          queries += 1;
        }
      }
      found.reduce(MPI_COMM_SELF);
      for (int h = 0; h < heads; ++h) {
        double weight_of_all = 0;
        for (int distance = 0; distance < tokens; ++distance) {
          const auto d = static_cast<std::size_t>(distance);
          EXPECT_EQ(found.pairs(0, distance), static_cast<long>(pairs[d]));
          if (pairs[d] == 0) {
            EXPECT_TRUE(std::isnan(found.weight(0, h, distance)));
            EXPECT_TRUE(std::isnan(found.uniform_weight(0, distance)));
            continue;
          }
          EXPECT_NEAR(found.weight(0, h, distance), sum[static_cast<std::size_t>(h * tokens) + d] / pairs[d],
                      rounding);
          EXPECT_NEAR(found.uniform_weight(0, distance), flat[d] / pairs[d], rounding);
          weight_of_all += found.weight(0, h, distance) * pairs[d];
        }
        // The weights of a query sum to 1.
        EXPECT_NEAR(weight_of_all, queries, rounding * queries);
        EXPECT_NEAR(found.mean_distance(0, h), far[static_cast<std::size_t>(h)] / queries, rounding);
      }
      EXPECT_NEAR(found.uniform_distance(0), flat_far / queries, rounding);
    }
}

TEST(HeadMeasures, of_a_head_that_looks_a_number_of_tokens_back_are_at_that_distance) {
  // Queries that cannot look so far look at themselves: they are k of n.
  constexpr int n = 7, back = 2;
  std::vector<double> k(n * n, 0.0);
  for (int x = 0; x < n; ++x) k[static_cast<std::size_t>(x * n + (x < back ? x : x - back))] = 1;
  const auto found = heads_of({true, 0, n, n}, 1, k);
  for (int distance = 0; distance < n; ++distance)
    EXPECT_EQ(found.weight(0, 0, distance), distance == back ? 1 : distance == 0 ? double{back} / n : 0);
  EXPECT_NEAR(found.mean_distance(0, 0), double{back} * (n - back) / n, rounding);
  EXPECT_EQ(found.entropy(0, 0), 0);
}

TEST(HeadMeasures, of_uniform_causal_rows_are_those_of_the_null_and_known) {
  constexpr int n = 6;
  const Seen seen{true, 0, n + 2, n};
  const auto found = heads_of(seen, 1, seen.uniform());
  for (int distance = 0; distance < n; ++distance) {
    // Queries x >= D see the key at D with the weight 1 / (x + 1).
    double mean = 0;
    for (int x = distance; x < n; ++x) mean += 1.0 / (x + 1) / (n - distance);
    EXPECT_NEAR(found.weight(0, 0, distance), mean, rounding);
    EXPECT_NEAR(found.uniform_weight(0, distance), mean, rounding);
    EXPECT_EQ(found.pairs(0, distance), n - distance);
  }
  // The mean of x / 2 over x = 0 .. n - 1
  EXPECT_NEAR(found.mean_distance(0, 0), (n - 1) / 4.0, rounding);
  EXPECT_NEAR(found.uniform_distance(0), (n - 1) / 4.0, rounding);
}

}  // namespace
}  // namespace fluxformer::attention

namespace fluxformer::attention {
namespace {

TEST(MarginOver, is_positive_when_better_than_every_null) {
  EXPECT_NEAR(margin_over(RowScore::cosine, .99, {.98, .9}), .01, rounding);
  EXPECT_NEAR(margin_over(RowScore::kl, .01, {.03, .012}), .002, rounding);
  EXPECT_NEAR(margin_over(RowScore::centred, 0, {.1, -.1}), -.1, rounding);
  EXPECT_TRUE(std::isnan(margin_over(RowScore::tv, NAN, {.1})));
}

}  // namespace
}  // namespace fluxformer::attention
