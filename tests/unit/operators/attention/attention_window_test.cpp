// Windows of attention, exactly: what a token hears through one, and what it does not.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/phases.hpp"
#include "tests/support/attention_problem.hpp"
#include "tests/support/attention_second_order_case.hpp"

namespace fluxformer {
namespace {

using namespace test;

AttentionProblem windowed(const Size& size, Mask mask, int window, int normalisation = softmax) {
  return {size, make_settings(Kernel::dot, normalisation, true), mask, {.window = window}};
}

template <class T>
void expect_same_bits(const AttentionProblem& a, const AttentionProblem& b) {
  SplitAttention<T> one(a.line, a.whole, a.settings, a.arrays), other(b.line, b.whole, b.settings, b.arrays);
  EXPECT_EQ(one.matrix(a.p, a.u, a.size.heads), other.matrix(b.p, a.u, a.size.heads));
  EXPECT_EQ(one.tangent(a.p, a.u, a.v), other.tangent(b.p, a.u, a.v));
  const AttentionPoint at = random_attention_point(a.whole, 5), along = random_attention_point(a.whole, 15);
  LinearisedAttention<T> here(one, at), there(other, at);
  const AttentionSweep product = here.along(along), same = there.along(along);
  for (const auto part : {&AttentionSweep::out, &AttentionSweep::u_bar, &AttentionSweep::weights_bar}) {
    EXPECT_EQ(here.value.*part, there.value.*part);
    EXPECT_EQ(product.*part, same.*part);
  }
}

TEST(AttentionWindow, of_the_whole_line_changes_no_bit) {
  for (const Size& size : {tiny, odd, wide, runs, long_padded})
    for (const int normalisation : {softmax, linear})
      for (const bool causal : {false, true}) {
        const Mask mask = causal ? Mask::both : Mask::padding;
        const auto full = windowed(size, mask, 0, normalisation);
        // Of two sides, 0 is no window: a line of one token has none that is as long as the line.
        const int whole = causal ? size.tokens : std::max(1, size.tokens - 1);
        for (const int window : {whole, whole + 5}) {
          const auto other = windowed(size, mask, window, normalisation);
          expect_same_bits<double>(full, other);
          expect_same_bits<float>(full, other);
        }
      }
}

TEST(AttentionWindow, gives_a_weight_to_the_pairs_inside_and_exactly_none_to_others) {
  for (const bool causal : {false, true})
    for (const int normalisation : {softmax, linear})
      for (const int w : {1, 3, 33, 90}) {
        const int n = runs.tokens;
        const auto problem = windowed(runs, causal ? Mask::causal : Mask::none, w, normalisation);
        SplitAttention<double> split(problem.line, problem.whole, problem.settings, problem.arrays);
        const auto k = split.matrix(problem.p, problem.u, runs.heads);
        long inside = 0;
        for (int i = 0; i < n * n; ++i) {
          const bool weight = k[static_cast<std::size_t>(i)] != 0;
          EXPECT_EQ(weight, problem.whole.sees(0, i / n, i % n, w)) << i;
          inside += weight ? 1 : 0;
        }
        EXPECT_EQ(inside, causal ? n * w - w * (w - 1) / 2 : n * (2 * w + 1) - w * (w + 1));
        // They are what is counted: 4 d flops each, beside 8 d^2 for a row.
        reset_work_counts();
        split.rhs(problem.p, problem.u);
        const double d = runs.width, rows = n;
        EXPECT_DOUBLE_EQ(work_counts().flops, 8 * d * d * rows + 4 * d * static_cast<double>(inside));
      }
}

TEST(AttentionWindow, lets_no_token_outside_change_a_bit) {
  for (const bool causal : {false, true})
    for (const int w : {1, 5, 40}) {
      const auto problem = windowed(runs, causal ? Mask::causal : Mask::none, w);
      SplitAttention<double> split(problem.line, problem.whole, problem.settings, problem.arrays);
      const std::size_t row = problem.u.size() / static_cast<std::size_t>(runs.tokens);
      const auto before = split.rhs(problem.p, problem.u),
                 tangent = split.tangent(problem.p, problem.u, problem.v);
      for (const int x : {0, 31, 32, 100, 138}) {
        auto u = problem.u, v = problem.v;
        auto w_at_x = problem.w;
        for (std::size_t i = 0; i < u.size(); ++i) {
          const int y = static_cast<int>(i / row);
          if (!problem.whole.sees(0, x, y, w)) u[i] = 40 * std::sin(static_cast<double>(i)), v[i] = -3;
          if (y != x) w_at_x[i] = 0;
        }
        const auto first = static_cast<std::ptrdiff_t>(x * static_cast<int>(row)),
                   count = static_cast<std::ptrdiff_t>(row);
        const auto row_of_x = [&](const std::vector<double>& all) {
          return std::vector<double>(all.begin() + first, all.begin() + first + count);
        };
        EXPECT_EQ(row_of_x(split.rhs(problem.p, u)), row_of_x(before));
        EXPECT_EQ(row_of_x(split.tangent(problem.p, u, v)), row_of_x(tangent));
        // Nor has the value at x a derivative by them.
        std::vector<double> gradient;
        const auto bar = split.adjoint(problem.p, problem.u, w_at_x, gradient);
        for (std::size_t i = 0; i < bar.size(); ++i)
          EXPECT_TRUE(bar[i] == 0 || problem.whole.sees(0, x, static_cast<int>(i / row), w)) << i / row;
      }
    }
}

/// The rows of padding that see no token: beyond the window behind the last real one.
bool sees_nothing(const AttentionProblem& problem, int sample, int x) {
  for (int y = 0; y < problem.size.tokens; ++y)
    if (problem.whole.sees(sample, x, y, problem.arrays.window)) return false;
  return true;
}

TEST(AttentionWindow, leaves_rows_that_see_no_token_zero_in_every_derivative) {
  for (const Size& size : {odd, long_padded})
    for (const Mask mask : {Mask::both, Mask::padding})
      for (const int normalisation : {softmax, linear}) {
        const auto problem = windowed(size, mask, 1, normalisation);
        SplitAttention<double> split(problem.line, problem.whole, problem.settings, problem.arrays);
        const AttentionPoint at = random_attention_point(problem.whole, 5),
                             along = random_attention_point(problem.whole, 15);
        LinearisedAttention<double> linearised(split, at);
        const AttentionSweep product = linearised.along(along);
        const auto k = split.matrix(problem.p, problem.u, size.heads);
        // Of a row without a mix there is alpha b_O, and its variation.
        const std::size_t d = static_cast<std::size_t>(size.width), b_o = at.weights.size() - 1 - d;
        const double alpha = at.weights.back(), alpha_dot = along.weights.back();
        int seen = 0;
        for (int s = 0; s < size.samples; ++s)
          for (int x = 0; x < size.tokens; ++x) {
            if (!sees_nothing(problem, s, x)) continue;
            ++seen;
            for (std::size_t c = 0; c < d; ++c) {
              const std::size_t i = static_cast<std::size_t>(x * size.samples + s) * d + c;
              EXPECT_DOUBLE_EQ(linearised.value.out[i], alpha * at.weights[b_o + c]);
              // Two products below 1, which may cancel.
              EXPECT_NEAR(product.out[i], alpha * along.weights[b_o + c] + alpha_dot * at.weights[b_o + c],
                          1e-15);
              EXPECT_EQ(linearised.value.u_bar[i], 0);
              EXPECT_EQ(product.u_bar[i], 0);
            }
            for (int h = 0; h < size.heads; ++h)
              for (int y = 0; y < size.tokens; ++y)
                EXPECT_EQ(
                    k[static_cast<std::size_t>(((s * size.heads + h) * size.tokens + x) * size.tokens + y)],
                    0);
          }
        EXPECT_GT(seen, 0);
      }
}

TEST(AttentionWindow, may_differ_from_call_to_call) {
  const auto narrow = windowed(runs, Mask::causal, 3), none = windowed(runs, Mask::causal, 0);
  const SlabContext context{&narrow.line, 1, runs.width, narrow.whole.mask};
  Attention<double> term(context, narrow.settings);
  auto weights = narrow.p.view<const double>(narrow.p.flat.data(), &narrow.p.flat.back());
  const auto value = [&](int window) {
    weights.attention.window = window;
    std::vector<double> out(narrow.u.size(), 0.0);
    term.apply(weights, narrow.u.data(), add_to(out.data(), 1), nullptr);
    return out;
  };
  for (const AttentionProblem* problem : {&narrow, &none, &narrow}) {
    SplitAttention<double> split(problem->line, problem->whole, problem->settings, problem->arrays);
    EXPECT_EQ(value(problem->arrays.window), split.rhs(problem->p, problem->u));
  }
}

TEST(AttentionWindow, is_refused_with_sinkhorn) {
  const auto problem = windowed(odd, Mask::none, 2, 3);
  SplitAttention<double> split(problem.line, problem.whole, problem.settings, problem.arrays);
  try {
    split.rhs(problem.p, problem.u);
    ADD_FAILURE();
  } catch (const BadInput& error) {
    EXPECT_NE(std::string(error.what()).find("attention.window"), std::string::npos);
  }
}

}  // namespace
}  // namespace fluxformer
