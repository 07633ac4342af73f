#include "operators/attention.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include "base/error.hpp"
#include "tests/support/attention_case.hpp"

namespace fluxformer {
namespace {

using namespace test;
using reference::WholeLine;

enum class Mask { none, padding, causal, both, weights, weights_and_padding };

TokenMask make_mask(Mask kind, int tokens, int samples) {
  TokenMask mask;
  mask.causal = kind == Mask::causal || kind == Mask::both;
  if (kind == Mask::padding || kind == Mask::both || kind == Mask::weights_and_padding)
    for (int s = 0; s < samples; ++s) mask.length.push_back(std::max(1, tokens - 2 * s));
  if (kind == Mask::weights || kind == Mask::weights_and_padding)
    for (int t = 0; t < tokens; ++t) mask.weight.push_back(0.5 + 0.3 * (t % 4));
  return mask;
}

struct Size {
  int tokens, samples, width, heads;
};

// Sizes beside, at and beyond the vector widths (4 to 16 lanes), the channel blocks (16, 8, 4, 2, 1) and the
// runs of 128 items.
const Size tiny{1, 1, 1, 1}, odd{7, 3, 15, 3}, wide{19, 2, 62, 2}, vit{49, 3, 32, 2}, runs{139, 1, 6, 2};

struct Problem {
  Problem(const Size& s, const AttentionSettings& base, Mask mask)
      : size(s), settings(base), line(TokenLine::even(MPI_COMM_SELF, s.tokens, 1)), p(s.width, 5) {
    settings.heads = s.heads;
    whole = {s.tokens, s.samples, s.width, make_mask(mask, s.tokens, s.samples)};
    const auto count = static_cast<std::size_t>(s.tokens * s.samples * s.width);
    u = random_vector(count, 1, 1.2, 0.3);
    v = random_vector(count, 2);
    w = random_vector(count, 3);
  }
  std::vector<double> reference_rhs() const {
    return reference::attention(whole, settings,
                                p.view<const double>(p.flat.data(), &p.flat.back()).attention, u);
  }
  std::vector<double> reference_matrix() const {
    return reference::attention_matrix(whole, settings,
                                       p.view<const double>(p.flat.data(), &p.flat.back()).attention, u);
  }

  Size size;
  AttentionSettings settings;
  TokenLine line;
  WholeLine whole;
  AttentionParameters p;
  std::vector<double> u, v, w;
};

AttentionSettings make_settings(Kernel kernel, int iterations, bool layer_norm) {
  AttentionSettings settings;
  settings.kernel = kernel;
  settings.normalisation = iterations == 0 ? Normalisation::softmax : Normalisation::sinkhorn;
  settings.sinkhorn_iterations = std::max(1, iterations);
  settings.layer_norm = layer_norm;
  return settings;
}

/// (kernel, sinkhorn iterations or 0 for softmax, layer norm, mask)
using Setting = std::tuple<Kernel, int, bool, Mask>;

class AttentionTerm : public testing::TestWithParam<std::tuple<Size, Setting>> {
 protected:
  static Problem make() {
    const auto& [size, setting] = GetParam();
    const auto& [kernel, iterations, layer_norm, mask] = setting;
    return {size, make_settings(kernel, iterations, layer_norm), mask};
  }
};

TEST_P(AttentionTerm, equals_the_plain_reference) {
  const Problem problem = make();
  SplitAttention<double> split(problem.line, problem.whole, problem.settings);
  const auto expected = problem.reference_rhs();
  // Sums of up to 139 terms and exponentials of round-off-perturbed logits of a few units: some 1e-14.
  EXPECT_LT(relative_difference(split.rhs(problem.p, problem.u), expected), 1e-13);
  // out += scale * term
  auto scaled = split.rhs(problem.p, problem.u, -0.37, 2.5);
  for (double& value : scaled) value = (value - 2.5) / -0.37;
  EXPECT_LT(relative_difference(scaled, expected), 1e-12);
}

TEST_P(AttentionTerm, in_single_precision_differs_by_single_round_off) {
  const Problem problem = make();
  SplitAttention<float> split(problem.line, problem.whole, problem.settings);
  // 6e-8 per operation, over sums of products of up to 62 channels and logits of up to about 10.
  EXPECT_LT(relative_difference(split.rhs(problem.p, problem.u), problem.reference_rhs()), 2e-5);
}

TEST_P(AttentionTerm, matrix_equals_the_plain_reference) {
  const Problem problem = make();
  SplitAttention<double> split(problem.line, problem.whole, problem.settings);
  const auto k = split.matrix(problem.p, problem.u, problem.size.heads);
  EXPECT_LT(relative_difference(k, problem.reference_matrix()), 1e-13);
}

TEST_P(AttentionTerm, tangent_is_the_derivative) {
  const Problem problem = make();
  SplitAttention<double> split(problem.line, problem.whole, problem.settings);
  const auto base = split.rhs(problem.p, problem.u);
  const auto tangent = split.tangent(problem.p, problem.u, problem.v);
  const auto remainder = [&](double h) {
    const auto there = split.rhs(problem.p, plus(problem.u, h, problem.v));
    return norm(plus(plus(there, -1, base), -h, tangent));
  };
  // Taylor: the remainder falls by 4 when the step halves; 1e-13 |base| is round-off (a linear case has no
  // remainder).
  const double coarse = remainder(2e-4), fine = remainder(1e-4);
  if (fine > 1e-12 * norm(base)) {
    EXPECT_NEAR(std::log2(coarse / fine), 2.0, 0.1);
  }
  const auto central = plus(split.rhs(problem.p, plus(problem.u, 1e-5, problem.v)), -1,
                            split.rhs(problem.p, plus(problem.u, -1e-5, problem.v)));
  // Central differences: 1e-10 from the step squared, 1e-16 / 1e-5 from round-off.
  auto twice = tangent;
  for (double& value : twice) value *= 2e-5;
  EXPECT_LT(norm(plus(central, -1, twice)), 1e-7 * norm(twice) + 1e-13 * norm(base));
}

TEST_P(AttentionTerm, adjoint_is_the_transpose_of_the_tangent) {
  const Problem problem = make();
  SplitAttention<double> split(problem.line, problem.whole, problem.settings);
  std::vector<double> gradient;
  const auto tangent = split.tangent(problem.p, problem.u, problem.v, -0.37);
  const auto u_bar = split.adjoint(problem.p, problem.u, problem.w, gradient, -0.37);
  EXPECT_NEAR(dot(tangent, problem.w), dot(problem.v, u_bar),
              1e-12 * norm(tangent) * norm(problem.w) + 1e-300);
}

TEST_P(AttentionTerm, parameter_gradient_is_that_of_central_differences) {
  const Problem problem = make();
  SplitAttention<double> split(problem.line, problem.whole, problem.settings);
  std::vector<double> gradient;
  const double scale = 1.7;
  split.adjoint(problem.p, problem.u, problem.w, gradient, scale);
  const auto offsets = problem.p.offsets();
  for (std::size_t part = 0; part + 1 < offsets.size(); ++part) {
    // One random direction of length about 1 within each part.
    const auto size_of_part = static_cast<double>(offsets[part + 1] - offsets[part]);
    auto direction = random_vector(problem.p.flat.size(), 77, 1 / std::sqrt(size_of_part));
    for (std::size_t i = 0; i < direction.size(); ++i)
      if (i < offsets[part] || i >= offsets[part + 1]) direction[i] = 0;
    const double h = 1e-5;
    AttentionParameters above = problem.p, below = problem.p;
    above.flat = plus(above.flat, h, direction);
    below.flat = plus(below.flat, -h, direction);
    const double difference = (dot(split.rhs(above, problem.u, scale), problem.w) -
                               dot(split.rhs(below, problem.u, scale), problem.w)) /
                              (2 * h);
    // Step squared 1e-10 and round-off 1e-16 / 1e-5, both relative to the size of what is summed.
    const double size = norm(split.rhs(problem.p, problem.u, scale)) * norm(problem.w);
    EXPECT_NEAR(dot(gradient, direction), difference, 1e-9 * size + 1e-7 * std::abs(difference))
        << AttentionParameters::names()[part];
  }
}

TEST_P(AttentionTerm, adjoint_in_single_precision_differs_by_single_round_off) {
  const Problem problem = make();
  SplitAttention<double> exact(problem.line, problem.whole, problem.settings);
  SplitAttention<float> single(problem.line, problem.whole, problem.settings);
  std::vector<double> expected, found;
  const auto u_bar = exact.adjoint(problem.p, problem.u, problem.w, expected);
  const auto tangent = exact.tangent(problem.p, problem.u, problem.v);
  EXPECT_LT(norm(plus(single.adjoint(problem.p, problem.u, problem.w, found), -1, u_bar)),
            1e-4 * norm(u_bar) + 1e-5);
  EXPECT_LT(norm(plus(found, -1, expected)), 1e-4 * norm(expected));
  EXPECT_LT(norm(plus(single.tangent(problem.p, problem.u, problem.v), -1, tangent)),
            1e-4 * norm(tangent) + 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Softmax, AttentionTerm,
                         testing::Combine(testing::Values(tiny, odd, wide, vit, runs),
                                          testing::Values(Setting{Kernel::dot, 0, true, Mask::none},
                                                          Setting{Kernel::dot, 0, true, Mask::both},
                                                          Setting{Kernel::l2, 0, false, Mask::weights},
                                                          Setting{Kernel::l2, 0, true, Mask::causal},
                                                          Setting{Kernel::dot, 0, false,
                                                                  Mask::weights_and_padding})));
INSTANTIATE_TEST_SUITE_P(
    Sinkhorn, AttentionTerm,
    testing::Combine(testing::Values(tiny, odd, vit),
                     testing::Values(Setting{Kernel::dot, 1, true, Mask::weights},
                                     Setting{Kernel::dot, 2, true, Mask::none},
                                     Setting{Kernel::dot, 3, true, Mask::weights_and_padding},
                                     Setting{Kernel::l2, 4, true, Mask::weights_and_padding},
                                     Setting{Kernel::l2, 5, false, Mask::padding})));

// T5: identities that need no reference.

Problem plain(const Size& size, Mask mask = Mask::none) {
  return {size, make_settings(Kernel::dot, 0, true), mask};
}

TEST(Attention, rows_of_the_kernel_sum_to_one) {
  for (const Mask mask : {Mask::none, Mask::both, Mask::weights_and_padding}) {
    const Problem problem = plain(vit, mask);
    SplitAttention<double> split(problem.line, problem.whole, problem.settings);
    const auto k = split.matrix(problem.p, problem.u, problem.size.heads);
    for (std::size_t row = 0; row < k.size(); row += 49) {
      double sum = 0;
      for (std::size_t y = 0; y < 49; ++y) sum += k[row + y];
      EXPECT_NEAR(sum, 1, 49 * std::numeric_limits<double>::epsilon());
    }
  }
}

TEST(Attention, many_sinkhorn_steps_make_the_kernel_doubly_stochastic) {
  const Problem problem(odd, make_settings(Kernel::l2, 400, true), Mask::none);
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

TEST(Attention, identical_tokens_are_a_fixed_point_of_the_mixing) {
  Problem problem = plain(vit);
  const std::size_t row = problem.u.size() / 49;
  for (std::size_t i = row; i < problem.u.size(); ++i) problem.u[i] = problem.u[i - row];
  SplitAttention<double> split(problem.line, problem.whole, problem.settings);
  const auto all = split.rhs(problem.p, problem.u);
  // One token alone: k = 1, A = W_O (W_V N(u) + b_V) + b_O.
  Problem one = plain({1, vit.samples, vit.width, vit.heads});
  one.u.assign(problem.u.begin(), problem.u.begin() + static_cast<std::ptrdiff_t>(row));
  const auto alone = SplitAttention<double>(one.line, one.whole, one.settings).rhs(one.p, one.u);
  for (std::size_t t = 0; t < 49; ++t) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(t * row);
    EXPECT_LT(relative_difference({begin, begin + static_cast<std::ptrdiff_t>(row)}, alone), 1e-13);
  }
}

TEST(Attention, is_equivariant_under_permutations_of_the_tokens) {
  const Problem problem = plain(vit);
  const std::size_t row = problem.u.size() / 49;
  const auto shuffled = [&](const std::vector<double>& x) {
    std::vector<double> y(x.size());
    for (std::size_t t = 0; t < 49; ++t)
      std::copy_n(x.begin() + static_cast<std::ptrdiff_t>(t * 10 % 49 * row), row,
                  y.begin() + static_cast<std::ptrdiff_t>(t * row));
    return y;
  };
  SplitAttention<double> split(problem.line, problem.whole, problem.settings);
  EXPECT_LT(relative_difference(split.rhs(problem.p, shuffled(problem.u)),
                                shuffled(split.rhs(problem.p, problem.u))),
            1e-13);
}

TEST(Attention, of_a_causal_mask_sees_exactly_nothing_of_later_tokens) {
  for (const Size& size : {vit, runs}) {
    const Problem problem = plain(size, Mask::causal);
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
  for (const int iterations : {0, 3, 4}) {
    Problem padded({vit.tokens, 1, vit.width, vit.heads}, make_settings(Kernel::l2, iterations, true),
                   Mask::none);
    Problem bare({31, 1, vit.width, vit.heads}, make_settings(Kernel::l2, iterations, true), Mask::none);
    padded.whole.mask.length = {31};
    std::copy(bare.u.begin(), bare.u.end(), padded.u.begin());
    auto with = SplitAttention<double>(padded.line, padded.whole, padded.settings).rhs(padded.p, padded.u);
    const auto without = SplitAttention<double>(bare.line, bare.whole, bare.settings).rhs(bare.p, bare.u);
    EXPECT_TRUE(std::all_of(with.begin(), with.end(), [](double x) { return std::isfinite(x); }));
    with.resize(without.size());
    EXPECT_LT(relative_difference(with, without), 1e-13);
  }
}

TEST(Attention, survives_logits_far_beyond_the_range_of_exp) {
  Problem problem = plain(vit);
  problem.settings.layer_norm = false;
  for (double& value : problem.u) value *= 100;  // logits of some 1e4
  SplitAttention<double> split(problem.line, problem.whole, problem.settings);
  SplitAttention<float> single(problem.line, problem.whole, problem.settings);
  for (const auto& out : {split.rhs(problem.p, problem.u), single.rhs(problem.p, problem.u)})
    EXPECT_TRUE(std::all_of(out.begin(), out.end(), [](double x) { return std::isfinite(x); }));
}

TEST(Attention, does_not_hide_a_state_that_is_not_a_number) {
  for (const Mask mask : {Mask::none, Mask::causal}) {
    Problem problem = plain(odd, mask);
    problem.u[4] = NAN;  // token 0 of sample 0, which all tokens see
    const auto out =
        SplitAttention<double>(problem.line, problem.whole, problem.settings).rhs(problem.p, problem.u);
    for (std::size_t t = 0; t < 7; ++t) EXPECT_TRUE(std::isnan(out[t * 45]));
    EXPECT_FALSE(std::isnan(out[15]));  // another sample
  }
}

TEST(Attention, gives_the_same_bits_twice) {
  const Problem problem = plain(vit, Mask::padding);
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
  for (const TokenMask& mask : {empty_sample, too_long, one_length, zero_weight, nan_weight, two_weights})
    refuses(mask, AttentionSettings{});
}

}  // namespace
}  // namespace fluxformer
