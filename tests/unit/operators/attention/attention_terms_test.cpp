// Exact statements about groups of keys, widths of heads, absent arrays, norms of heads and rotary positions in
// attention.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/phases.hpp"
#include "tests/support/attention_problem.hpp"
#include "tests/support/attention_second_order_case.hpp"
#include "tests/support/reached.hpp"

namespace fluxformer {
namespace {

using namespace test;

constexpr Size size{23, 3, 24, 6};

AttentionProblem problem_of(const AttentionSettings& settings, const AttentionArrays& arrays = {},
                            Mask mask = Mask::both) {
  return {size, settings, mask, arrays};
}

/// Value, u_bar, gradients, and these along a direction.
struct Results {
  AttentionSweep value, along;
};

Results results_of(const AttentionProblem& problem, const AttentionPoint& at,
                   const AttentionPoint& direction) {
  SplitAttention<double> split(problem.line, problem.whole, problem.settings, problem.arrays);
  LinearisedAttention<double> linearised(split, at);
  return {linearised.value, linearised.along(direction)};
}
Results results_of(const AttentionProblem& problem) {
  return results_of(problem, random_attention_point(problem.whole, problem.p.layout, 5),
                    random_attention_point(problem.whole, problem.p.layout, 15));
}

void expect_same_bits(const AttentionSweep& found, const AttentionSweep& expected) {
  EXPECT_EQ(found.out, expected.out);
  EXPECT_EQ(found.u_bar, expected.u_bar);
  EXPECT_EQ(found.weights_bar, expected.weights_bar);
}

std::vector<double> matrix_of(const AttentionProblem& problem) {
  return SplitAttention<double>(problem.line, problem.whole, problem.settings, problem.arrays)
      .matrix(problem.p, problem.u, problem.size.heads);
}

TEST(AttentionGroups, of_one_head_each_are_attention_without_groups_to_the_bit) {
  AttentionSettings explicit_sizes;
  explicit_sizes.groups = size.heads;
  explicit_sizes.head_width = size.width / size.heads;
  const Results plain = results_of(problem_of({})), found = results_of(problem_of(explicit_sizes));
  expect_same_bits(found.value, plain.value);
  expect_same_bits(found.along, plain.along);
}

/// The weights of attention with G groups as those of one group for each head: rows of W_K, W_V, b_K and b_V
/// are repeated for the H/G heads of a group.
std::vector<double> repeated(const std::vector<double>& flat, const AttentionLayout& from,
                             const AttentionLayout& to) {
  std::vector<double> all(to.size);
  for (const AttentionLayout::Part& part : to.parts) {
    const std::size_t begin = from.part(part.name).begin, count = from.part(part.name).end - begin;
    const bool keys = part.name == "W_K" || part.name == "W_V" || part.name == "b_K" || part.name == "b_V";
    const std::size_t block = keys ? count / from.groups : count;  // numbers of one group
    for (std::size_t i = part.begin; i < part.end; ++i) {
      const std::size_t j = i - part.begin, head = j / std::max<std::size_t>(block, 1);
      all[i] = flat[begin + (keys ? head * from.groups / from.heads * block + j % block : j)];
    }
  }
  return all;
}

/// Gradients of `repeated` weights, summed over the heads of a group.
std::vector<double> summed(const std::vector<double>& flat, const AttentionLayout& from,
                           const AttentionLayout& to) {
  std::vector<double> places(from.size), all(from.size);
  std::iota(places.begin(), places.end(), 0.0);
  const std::vector<double> sources = repeated(places, from, to);  // the places that repeated() reads
  for (std::size_t i = 0; i < to.size; ++i) all[static_cast<std::size_t>(sources[i])] += flat[i];
  return all;
}

TEST(AttentionGroups, equal_repeated_keys_and_values_and_sum_the_adjoints_of_their_heads) {
  for (const int groups : {1, 2, 3})
    for (const bool with_all : {false, true}) {
      AttentionSettings few;
      few.groups = groups;
      few.qk_norm = with_all;
      if (with_all) few.rotary = {RotaryLayout::half, 4, 1.1};
      AttentionSettings many = few;
      many.groups = size.heads;
      const AttentionProblem grouped = problem_of(few), full = problem_of(many);
      const AttentionLayout &from = grouped.p.layout, &to = full.p.layout;
      AttentionPoint at = random_attention_point(grouped.whole, from, 5),
                     direction = random_attention_point(grouped.whole, from, 15);
      const Results found = results_of(grouped, at, direction);
      at.weights = repeated(at.weights, from, to), direction.weights = repeated(direction.weights, from, to);
      const Results expected = results_of(full, at, direction);
      const auto expect_close = [&](const AttentionSweep& a, const AttentionSweep& b) {
        for (const double error : {relative_difference(a.out, b.out), relative_difference(a.u_bar, b.u_bar),
                                   relative_difference(a.weights_bar, summed(b.weights_bar, from, to))})
          EXPECT_LT(reached("groups of keys: repeated keys", error), 1e-14) << groups;
      };
      expect_close(found.value, expected.value);
      expect_close(found.along, expected.along);
    }
}

TEST(AttentionArraysThatAreAbsent, are_zero_biases_and_the_identity) {
  const AttentionArrays bare{.norm_bias = false, .qkv_biases = false, .output_bias = false};
  const AttentionProblem without = problem_of({}, bare), with = problem_of({});
  AttentionPoint at = random_attention_point(without.whole, without.p.layout, 5), zeros = at;
  zeros.weights.assign(with.p.layout.size, 0.0);
  for (const AttentionLayout::Part& part : without.p.layout.parts)
    std::copy(at.weights.begin() + static_cast<std::ptrdiff_t>(part.begin),
              at.weights.begin() + static_cast<std::ptrdiff_t>(part.end),
              zeros.weights.begin() + static_cast<std::ptrdiff_t>(with.p.layout.part(part.name).begin));
  const Results found = results_of(without, at, at), expected = results_of(with, zeros, zeros);
  EXPECT_LT(relative_difference(found.value.out, expected.value.out), 1e-15);
  EXPECT_LT(relative_difference(found.value.u_bar, expected.value.u_bar), 1e-14);
  EXPECT_LT(relative_difference(found.along.u_bar, expected.along.u_bar), 1e-14);
}

// ModernBERT's first layer: other layers of the model have a norm, this one has none.
TEST(AttentionArraysThatAreAbsent, leave_a_layer_without_its_gain_without_a_norm) {
  AttentionSettings no_norm;
  no_norm.layer_norm = false;
  const AttentionArrays no_gain{.norm = false};
  const Results found = results_of(problem_of({}, no_gain)),
                expected = results_of(problem_of(no_norm, no_gain));
  expect_same_bits(found.value, expected.value);
  expect_same_bits(found.along, expected.along);
}

/// Attention with scores as its matrix: linear, without weights and mask.
AttentionProblem scores(AttentionSettings settings, const AttentionArrays& arrays = {}) {
  settings.normalisation = Normalisation::linear;
  return problem_of(settings, arrays, Mask::none);
}

// The bound is relative to |q| |k| / sqrt(c), the largest score that there could be.
TEST(AttentionWithRotaryPositions, of_equal_tokens_has_scores_that_depend_on_their_distance) {
  for (const RotaryLayout layout : {RotaryLayout::half, RotaryLayout::interleaved}) {
    AttentionSettings settings;
    settings.head_width = 8;
    settings.qk_norm = true;  // |q| and |k| are then known
    settings.rotary = {layout, 6};
    AttentionProblem problem = scores(settings, {.norm_settings = {.eps = 0}});
    const auto& layout_of = problem.p.layout;
    for (const char* gain : {"q_gain", "k_gain"})
      std::fill_n(problem.p.flat.begin() + static_cast<std::ptrdiff_t>(layout_of.part(gain).begin), 8, 1.0);
    const std::size_t row = problem.u.size() / 23;
    for (std::size_t i = row; i < problem.u.size(); ++i) problem.u[i] = problem.u[i - row];
    const auto k = matrix_of(problem);
    const double largest = 8 / std::sqrt(8.0);  // |q| = |k| = sqrt(c)
    double spread = 0;
    for (std::size_t block = 0; block < k.size(); block += 23 * 23)
      for (std::size_t x = 0; x + 1 < 23; ++x)
        for (std::size_t y = 0; y + 1 < 23; ++y) {
          const double one = k[block + x * 23 + y], next = k[block + (x + 1) * 23 + y + 1];
          EXPECT_LT(reached("rotary positions: equal tokens", std::abs(one - next) / largest), 1e-14);
          spread = std::max(spread, std::abs(one - k[block]));
        }
    EXPECT_GT(spread, 0.1 * largest);  // they do depend on the distance
  }
}

TEST(AttentionWithNormedHeads, does_not_see_factors_of_queries_and_keys) {
  AttentionSettings settings;
  settings.groups = 2;
  settings.qk_norm = true;
  settings.rotary = {RotaryLayout::interleaved, 2};
  AttentionProblem problem = problem_of(settings, {.norm_settings = {.eps = 0}});
  SplitAttention<double> split(problem.line, problem.whole, problem.settings, problem.arrays);
  const auto before = split.rhs(problem.p, problem.u);
  for (const auto& [name, factor] : {std::pair{"W_Q", 3.7}, {"b_Q", 3.7}, {"W_K", 0.3}, {"b_K", 0.3}})
    for (std::size_t i = problem.p.layout.part(name).begin; i < problem.p.layout.part(name).end; ++i)
      problem.p.flat[i] *= factor;
  const double error = relative_difference(split.rhs(problem.p, problem.u), before);
  EXPECT_LT(reached("norms of heads: factors of W_Q and W_K", error), 1e-12);
}

// |q| <= m sqrt(c) max |g_q|, since the normed channels have mean square 1 at most; |k| likewise.
TEST(AttentionWithNormedHeads, has_bounded_scores) {
  AttentionSettings settings;
  settings.head_width = 6;
  settings.qk_norm = true;
  settings.rotary = {RotaryLayout::half, 6, 1.2};
  const AttentionProblem problem = scores(settings);
  const auto largest = [&](const char* name) {
    double most = 0;
    for (std::size_t i = problem.p.layout.part(name).begin; i < problem.p.layout.part(name).end; ++i)
      most = std::max(most, std::abs(problem.p.flat[i]));
    return most;
  };
  double most = 0;
  for (const double score : matrix_of(problem)) most = std::max(most, std::abs(score));
  const double bound = 1.2 * 1.2 * std::sqrt(6.0) * largest("q_gain") * largest("k_gain");
  EXPECT_LE(most, bound);
  EXPECT_GT(most, 0.2 * bound);
}

TEST(AttentionFlops, are_those_of_its_heads_and_groups) {
  AttentionSettings settings;
  settings.groups = 2;
  settings.head_width = 5;
  const AttentionProblem problem = problem_of(settings, {}, Mask::none);
  SplitAttention<double> split(problem.line, problem.whole, problem.settings);
  const double before = work_counts().flops;
  split.rhs(problem.p, problem.u);
  const double rows = 23 * 3, d = 24, queries = 30, keys = 10;
  EXPECT_EQ(work_counts().flops - before, 4 * d * (queries + keys) * rows + 4 * queries * 23 * rows);
}

TEST(AttentionTape, holds_what_groups_and_norms_of_heads_need) {
  const TokenLine line = TokenLine::even(MPI_COMM_SELF, 49, 1);
  const SlabContext context{&line, 23, 32, {}};
  AttentionSettings settings;
  settings.heads = 4;
  settings.groups = 2;
  settings.head_width = 16;
  const double rows = 49 * 23, d = 32, queries = 64, keys = 32;
  const auto numbers = [&] {
    return static_cast<double>(Attention<double>(context, settings).make_tape(Order::first)->bytes()) / 8;
  };
  const double plain = numbers();
  EXPECT_GE(plain, rows * (d + 2 * queries + 2 * keys));
  // Beside beta: lanes have room for a vector behind the rows of each chunk.
  EXPECT_LE(plain, 1.1 * rows * (d + 2 * queries + 2 * keys + 4));
  settings.qk_norm = true;
  EXPECT_NEAR(numbers() - plain, rows * (queries + keys), 0.05 * plain);
}

TEST(AttentionTerms, that_make_no_sense_are_refused_by_name) {
  const TokenLine line = TokenLine::even(MPI_COMM_SELF, 5, 1);
  const SlabContext context{&line, 2, 8, {}};
  const auto refusal = [&](const AttentionSettings& settings) -> std::string {
    try {
      const Attention<double> attention(context, settings);
    } catch (const BadInput& error) {
      return error.what();
    }
    return "";
  };
  using testing::HasSubstr;
  EXPECT_THAT(refusal({.heads = 3}), HasSubstr("attention.heads = 3"));
  EXPECT_EQ(refusal({.heads = 3, .head_width = 4}), "");
  EXPECT_THAT(refusal({.heads = 4, .groups = 3}), HasSubstr("attention.groups = 3"));
  EXPECT_THAT(refusal({.heads = 4, .groups = 8}), HasSubstr("attention.groups = 8"));
  EXPECT_THAT(refusal({.heads = 4, .groups = -1}), HasSubstr("attention.groups = -1"));
  EXPECT_THAT(refusal({.heads = 4, .head_width = -2}), HasSubstr("attention.head_width = -2"));
  for (const int turned : {0, 3, 6})
    EXPECT_THAT(refusal({.heads = 2, .rotary = {RotaryLayout::half, turned}}), HasSubstr("attention.rotary"));
  EXPECT_EQ(refusal({.heads = 2, .rotary = {RotaryLayout::half, 4}}), "");
}

}  // namespace
}  // namespace fluxformer
