// Identities of attention that need no reference (T5), and invalid input.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/error.hpp"
#include "tests/support/attention_problem.hpp"
#include "tests/support/reached.hpp"

namespace fluxformer {
namespace {

using namespace test;

AttentionProblem plain(const Size& size, Mask mask = Mask::none) {
  return {size, make_settings(Kernel::dot, 0, true), mask};
}

TEST(Attention, rows_of_the_kernel_sum_to_one) {
  for (const Mask mask : {Mask::none, Mask::both, Mask::weights_and_padding}) {
    const AttentionProblem problem = plain(vit, mask);
    SplitAttention<double> split(problem.line, problem.whole, problem.settings);
    const auto k = split.matrix(problem.p, problem.u, problem.size.heads);
    for (std::size_t row = 0; row < k.size(); row += 49) {
      double sum = 0;
      for (std::size_t y = 0; y < 49; ++y) sum += k[row + y];
      EXPECT_LE(reached("attention: sum of a row - 1", std::abs(sum - 1)),
                49 * std::numeric_limits<double>::epsilon());
    }
  }
}

TEST(Attention, many_sinkhorn_steps_make_the_kernel_doubly_stochastic) {
  const AttentionProblem problem(odd, make_settings(Kernel::l2, 400, true), Mask::none);
  SplitAttention<double> split(problem.line, problem.whole, problem.settings);
  const auto k = split.matrix(problem.p, problem.u, problem.size.heads);
  for (std::size_t block = 0; block < k.size(); block += 49)
    for (std::size_t a = 0; a < 7; ++a) {
      double row = 0, column = 0;
      for (std::size_t b = 0; b < 7; ++b) {
        row += k[block + a * 7 + b];
        column += k[block + b * 7 + a];
      }
      EXPECT_NEAR(row, 1, 1e-10);
      EXPECT_NEAR(column, 1, 1e-13);  // the last half-step
    }
}

// sum_y w_y (q_x . k_y) v_y = q_x (sum_y w_y k_y^T v_y): doubling the query's weights doubles the mixing.
TEST(Attention, linear_is_a_product_of_queries_with_one_matrix) {
  AttentionProblem problem(vit, make_settings(Kernel::dot, linear, true), Mask::weights_and_padding);
  SplitAttention<double> split(problem.line, problem.whole, problem.settings);
  const auto before = split.matrix(problem.p, problem.u, problem.size.heads);
  const std::size_t d = static_cast<std::size_t>(problem.size.width), queries = 2 * d;
  for (std::size_t i = queries; i < queries + d * d; ++i) problem.p.flat[i] *= 2;
  for (std::size_t i = queries + 3 * d * d; i < queries + 3 * d * d + d; ++i) problem.p.flat[i] *= 2;
  const auto after = split.matrix(problem.p, problem.u, problem.size.heads);
  for (std::size_t i = 0; i < before.size(); ++i) ASSERT_EQ(after[i], 2 * before[i]);  // exact in binary
  EXPECT_TRUE(std::ranges::any_of(before, [](double k) { return k < 0; }));
}

TEST(Attention, linear_weights_of_hidden_tokens_are_exactly_zero) {
  const AttentionProblem problem(vit, make_settings(Kernel::dot, linear, true), Mask::both);
  SplitAttention<double> split(problem.line, problem.whole, problem.settings);
  const auto k = split.matrix(problem.p, problem.u, problem.size.heads);
  for (std::size_t i = 0; i < k.size(); ++i) {
    const std::size_t y = i % 49, x = i / 49 % 49, sample = i / (49 * 49 * 2);
    const bool hidden = y > x || y >= static_cast<std::size_t>(problem.whole.mask.length[sample]);
    EXPECT_EQ(k[i] == 0, hidden) << "sample " << sample << ", query " << x << ", key " << y;
  }
}

TEST(Attention, identical_tokens_are_a_fixed_point_of_the_mixing) {
  AttentionProblem problem = plain(vit);
  const std::size_t row = problem.u.size() / 49;
  for (std::size_t i = row; i < problem.u.size(); ++i) problem.u[i] = problem.u[i - row];
  SplitAttention<double> split(problem.line, problem.whole, problem.settings);
  const auto all = split.rhs(problem.p, problem.u);
  // A single token: k = 1, A = W_O (W_V N(u) + b_V) + b_O.
  AttentionProblem one = plain({1, vit.samples, vit.width, vit.heads});
  one.u.assign(problem.u.begin(), problem.u.begin() + static_cast<std::ptrdiff_t>(row));
  const auto alone = SplitAttention<double>(one.line, one.whole, one.settings).rhs(one.p, one.u);
  for (std::size_t t = 0; t < 49; ++t) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(t * row);
    const double error = relative_difference({begin, begin + static_cast<std::ptrdiff_t>(row)}, alone);
    EXPECT_LT(reached("attention: equal tokens", error), 1e-13);
  }
}

TEST(Attention, is_equivariant_under_permutations_of_the_tokens) {
  const AttentionProblem problem = plain(vit);
  const std::size_t row = problem.u.size() / 49;
  const auto shuffled = [&](const std::vector<double>& x) {
    std::vector<double> y(x.size());
    for (std::size_t t = 0; t < 49; ++t)
      std::copy_n(x.begin() + static_cast<std::ptrdiff_t>(t * 10 % 49 * row), row,
                  y.begin() + static_cast<std::ptrdiff_t>(t * row));
    return y;
  };
  SplitAttention<double> split(problem.line, problem.whole, problem.settings);
  const double error = relative_difference(split.rhs(problem.p, shuffled(problem.u)),
                                           shuffled(split.rhs(problem.p, problem.u)));
  EXPECT_LT(reached("attention: permuted tokens", error), 1e-13);
}

TEST(Attention, of_a_causal_mask_sees_exactly_nothing_of_later_tokens) {
  for (const Size& size : {vit, runs}) {
    const AttentionProblem problem = plain(size, Mask::causal);
    SplitAttention<double> split(problem.line, problem.whole, problem.settings);
    const auto before = split.rhs(problem.p, problem.u);
    const std::size_t row = problem.u.size() / static_cast<std::size_t>(size.tokens);
    for (const int x : {0, 6, 15, 16, size.tokens - 2}) {
      auto changed = problem.u;
      const std::size_t first_changed = static_cast<std::size_t>(x + 1) * row;
      for (std::size_t i = first_changed; i < changed.size(); ++i)
        changed[i] = 40 * std::sin(static_cast<double>(i));
      const auto after = split.rhs(problem.p, changed);
      EXPECT_TRUE(std::equal(before.begin(), before.begin() + static_cast<std::ptrdiff_t>(first_changed),
                             after.begin()));
      EXPECT_NE(before.back(), after.back());
    }
  }
}

TEST(Attention, is_not_changed_by_padding) {
  for (const int iterations : {softmax, linear, 3, 4}) {
    const auto settings = make_settings(iterations == linear ? Kernel::dot : Kernel::l2, iterations, true);
    AttentionProblem padded({vit.tokens, 1, vit.width, vit.heads}, settings, Mask::none);
    AttentionProblem bare({31, 1, vit.width, vit.heads}, settings, Mask::none);
    padded.whole.mask.length = {31};
    std::copy(bare.u.begin(), bare.u.end(), padded.u.begin());
    auto with = SplitAttention<double>(padded.line, padded.whole, padded.settings).rhs(padded.p, padded.u);
    const auto without = SplitAttention<double>(bare.line, bare.whole, bare.settings).rhs(bare.p, bare.u);
    EXPECT_TRUE(std::all_of(with.begin(), with.end(), [](double x) { return std::isfinite(x); }));
    with.resize(without.size());
    EXPECT_LT(reached("attention: padding", relative_difference(with, without)), 1e-13);
  }
}

TEST(Attention, survives_logits_far_beyond_the_range_of_exp) {
  AttentionProblem problem = plain(vit);
  problem.settings.layer_norm = false;
  for (double& value : problem.u) value *= 100;  // logits of some 1e4
  SplitAttention<double> split(problem.line, problem.whole, problem.settings);
  SplitAttention<float> single(problem.line, problem.whole, problem.settings);
  for (const auto& out : {split.rhs(problem.p, problem.u), single.rhs(problem.p, problem.u)})
    EXPECT_TRUE(std::all_of(out.begin(), out.end(), [](double x) { return std::isfinite(x); }));
}

TEST(Attention, does_not_hide_a_state_that_is_not_a_number) {
  for (const Mask mask : {Mask::none, Mask::causal}) {
    AttentionProblem problem = plain(odd, mask);
    problem.u[4] = NAN;  // token 0 of sample 0, which all tokens see
    const auto out =
        SplitAttention<double>(problem.line, problem.whole, problem.settings).rhs(problem.p, problem.u);
    for (std::size_t t = 0; t < 7; ++t) EXPECT_TRUE(std::isnan(out[t * 45]));
    EXPECT_FALSE(std::isnan(out[15]));  // another sample
  }
}

TEST(Attention, gives_the_same_bits_twice) {
  const AttentionProblem problem = plain(vit, Mask::padding);
  SplitAttention<double> first(problem.line, problem.whole, problem.settings);
  SplitAttention<double> second(problem.line, problem.whole, problem.settings);
  std::vector<double> a, b;
  const auto once = first.rhs(problem.p, problem.u);
  EXPECT_EQ(first.adjoint(problem.p, problem.u, problem.w, a),
            second.adjoint(problem.p, problem.u, problem.w, b));
  EXPECT_EQ(a, b);
  EXPECT_EQ(once, first.rhs(problem.p, problem.u));
}

TEST(Attention, refuses_what_it_cannot_do) {
  const TokenLine line = TokenLine::even(MPI_COMM_SELF, 5, 1);
  const auto refuses = [&](const TokenMask& mask, const AttentionSettings& settings) {
    const SlabContext context{&line, 2, 8, mask};
    EXPECT_THROW((Attention<double>{context, settings}), BadInput);
  };
  AttentionSettings three_heads, no_steps, sinkhorn;
  const AttentionSettings linear_distances = make_settings(Kernel::l2, linear, true);
  three_heads.heads = 3;
  no_steps.sinkhorn_iterations = 0;
  sinkhorn.normalisation = Normalisation::sinkhorn;
  TokenMask empty_sample, too_long, one_length, causal, zero_weight, nan_weight, two_weights;
  empty_sample.length = {5, 0};
  too_long.length = {5, 6};
  one_length.length = {5};
  causal.causal = true;
  zero_weight.weight = {1, 1, 0, 1, 1};
  nan_weight.weight = {1, 1, NAN, 1, 1};
  two_weights.weight = {1, 1};
  refuses({}, three_heads);
  refuses({}, no_steps);
  refuses(causal, sinkhorn);
  refuses({}, linear_distances);
  for (const TokenMask& mask : {empty_sample, too_long, one_length, zero_weight, nan_weight, two_weights})
    refuses(mask, AttentionSettings{});
}

}  // namespace
}  // namespace fluxformer
