#include "operators/attention/attention.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "base/error.hpp"
#include "tests/support/attention_problem.hpp"
#include "tests/support/attention_second_order_case.hpp"
#include "tests/support/reached.hpp"

namespace fluxformer {
namespace {

using namespace test;

/// Settings, arrays and mask of a case.
struct Setting {
  AttentionSettings settings;
  Mask mask = Mask::none;
  AttentionArrays arrays = {};
};
Setting plain(Kernel kernel, int iterations, bool layer_norm, Mask mask, int window = 0) {
  return {make_settings(kernel, iterations, layer_norm), mask, {.window = window}};
}

/// Groups, widths of heads, absent arrays, norms of heads, rotary positions, and all of them with a window.
std::vector<Setting> terms_of_language_models() {
  constexpr auto linear_form = Normalisation::linear;
  const AttentionArrays bare{.norm_bias = false,
                             .qkv_biases = false,
                             .output_bias = false,
                             .norm_settings = {.map = NormMap::rms, .eps = 1e-6}};
  AttentionArrays windowed = bare;
  windowed.window = 5;
  return {{{.groups = 2}, Mask::both},
          {{.groups = 1, .head_width = 5, .normalisation = linear_form}, Mask::weights_and_padding},
          {{}, Mask::none, bare},
          {{}, Mask::causal, {.norm = false, .output_bias = false}},
          {{.head_width = 7, .qk_norm = true}, Mask::both},
          {{.head_width = 6, .rotary = {RotaryLayout::half, 6}}, Mask::causal},
          {{.head_width = 7, .rotary = {RotaryLayout::interleaved, 4, 1.3}}, Mask::padding},
          {{.groups = 2, .head_width = 16, .qk_norm = true, .rotary = {RotaryLayout::half, 12, 1.1}},
           Mask::both,
           windowed}};
}
const std::vector<Size> sizes_of_language_models = {{13, 3, 12, 4}, {49, 23, 32, 4}, {139, 1, 6, 2}};

class AttentionTerm : public testing::TestWithParam<std::tuple<Size, Setting>> {
 protected:
  static AttentionProblem make() {
    const auto& [size, setting] = GetParam();
    return {size, setting.settings, setting.mask, setting.arrays};
  }
};

TEST_P(AttentionTerm, equals_the_plain_reference) {
  const AttentionProblem problem = make();
  SplitAttention<double> split(problem.line, problem.whole, problem.settings, problem.arrays);
  const auto expected = problem.reference_rhs();
  // Sums of up to 139 terms and exponentials of round-off-perturbed logits of a few units: some 1e-14.
  EXPECT_LT(relative_difference(split.rhs(problem.p, problem.u), expected), 1e-13);
  // out += scale * term
  auto scaled = split.rhs(problem.p, problem.u, -0.37, 2.5);
  for (double& value : scaled) value = (value - 2.5) / -0.37;
  EXPECT_LT(relative_difference(scaled, expected), 1e-12);
}

TEST_P(AttentionTerm, in_single_precision_differs_by_single_round_off) {
  const AttentionProblem problem = make();
  SplitAttention<float> split(problem.line, problem.whole, problem.settings, problem.arrays);
  // 6e-8 per operation, over sums of products of up to 62 channels and logits of up to about 10.
  EXPECT_LT(relative_difference(split.rhs(problem.p, problem.u), problem.reference_rhs()), 2e-5);
}

TEST_P(AttentionTerm, matrix_equals_the_plain_reference) {
  const AttentionProblem problem = make();
  SplitAttention<double> split(problem.line, problem.whole, problem.settings, problem.arrays);
  const auto k = split.matrix(problem.p, problem.u, problem.size.heads);
  EXPECT_LT(relative_difference(k, problem.reference_matrix()), 1e-13);
}

TEST_P(AttentionTerm, tangent_is_the_derivative) {
  const AttentionProblem problem = make();
  SplitAttention<double> split(problem.line, problem.whole, problem.settings, problem.arrays);
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
  const AttentionProblem problem = make();
  SplitAttention<double> split(problem.line, problem.whole, problem.settings, problem.arrays);
  std::vector<double> gradient;
  const auto tangent = split.tangent(problem.p, problem.u, problem.v, -0.37);
  const auto u_bar = split.adjoint(problem.p, problem.u, problem.w, gradient, -0.37);
  EXPECT_NEAR(dot(tangent, problem.w), dot(problem.v, u_bar),
              1e-12 * norm(tangent) * norm(problem.w) + 1e-300);
}

TEST_P(AttentionTerm, parameter_gradient_is_that_of_central_differences) {
  const AttentionProblem problem = make();
  SplitAttention<double> split(problem.line, problem.whole, problem.settings, problem.arrays);
  std::vector<double> gradient;
  const double scale = 1.7;
  split.adjoint(problem.p, problem.u, problem.w, gradient, scale);
  for (const AttentionLayout::Part& part : problem.p.layout.parts) {
    if (part.end == part.begin) continue;
    // One random direction of length about 1 within each part.
    const auto size_of_part = static_cast<double>(part.end - part.begin);
    auto direction = random_vector(problem.p.flat.size(), 77, 1 / std::sqrt(size_of_part));
    for (std::size_t i = 0; i < direction.size(); ++i)
      if (i < part.begin || i >= part.end) direction[i] = 0;
    const double h = 1e-5;
    AttentionParameters above = problem.p, below = problem.p;
    above.flat = plus(above.flat, h, direction);
    below.flat = plus(below.flat, -h, direction);
    const double difference = (dot(split.rhs(above, problem.u, scale), problem.w) -
                               dot(split.rhs(below, problem.u, scale), problem.w)) /
                              (2 * h);
    // Step squared 1e-10 and round-off 1e-16 / 1e-5, both relative to the size of what is summed.
    const double size = norm(split.rhs(problem.p, problem.u, scale)) * norm(problem.w);
    EXPECT_NEAR(dot(gradient, direction), difference, 1e-9 * size + 1e-7 * std::abs(difference)) << part.name;
  }
}

TEST_P(AttentionTerm, adjoint_in_single_precision_differs_by_single_round_off) {
  const AttentionProblem problem = make();
  SplitAttention<double> exact(problem.line, problem.whole, problem.settings, problem.arrays);
  SplitAttention<float> single(problem.line, problem.whole, problem.settings, problem.arrays);
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
                                          testing::Values(plain(Kernel::dot, 0, true, Mask::none),
                                                          plain(Kernel::dot, 0, true, Mask::both),
                                                          plain(Kernel::l2, 0, false, Mask::weights),
                                                          plain(Kernel::l2, 0, true, Mask::causal),
                                                          plain(Kernel::dot, 0, false,
                                                                Mask::weights_and_padding))));
INSTANTIATE_TEST_SUITE_P(Linear, AttentionTerm,
                         testing::Combine(testing::Values(tiny, odd, wide, vit, runs),
                                          testing::Values(plain(Kernel::dot, linear, true, Mask::none),
                                                          plain(Kernel::dot, linear, true, Mask::both),
                                                          plain(Kernel::dot, linear, false, Mask::causal),
                                                          plain(Kernel::dot, linear, true,
                                                                Mask::weights_and_padding))));
// Windows around registers, below and above tiles and runs; padding that sees nothing.
INSTANTIATE_TEST_SUITE_P(
    Window, AttentionTerm,
    testing::Combine(testing::Values(tiny, odd, wide, vit, runs, long_padded),
                     testing::Values(plain(Kernel::dot, softmax, true, Mask::causal, 1),
                                     plain(Kernel::dot, softmax, true, Mask::both, 3),
                                     plain(Kernel::dot, softmax, false, Mask::weights_and_padding, 2),
                                     plain(Kernel::l2, softmax, true, Mask::both, 40),
                                     plain(Kernel::l2, softmax, false, Mask::none, 33),
                                     plain(Kernel::dot, linear, true, Mask::both, 3),
                                     plain(Kernel::dot, linear, false, Mask::weights_and_padding, 17))));
INSTANTIATE_TEST_SUITE_P(
    Sinkhorn, AttentionTerm,
    testing::Combine(testing::Values(tiny, odd, vit),
                     testing::Values(plain(Kernel::dot, 1, true, Mask::weights),
                                     plain(Kernel::dot, 2, true, Mask::none),
                                     plain(Kernel::dot, 3, true, Mask::weights_and_padding),
                                     plain(Kernel::l2, 4, true, Mask::weights_and_padding),
                                     plain(Kernel::l2, 5, false, Mask::padding))));

INSTANTIATE_TEST_SUITE_P(LanguageModels, AttentionTerm,
                         testing::Combine(testing::ValuesIn(sizes_of_language_models),
                                          testing::ValuesIn(terms_of_language_models())));

// Attention's part in products with the Hessian: tangents of its value and of its adjoint, in weights, state
// and the adjoint's vector together.

std::vector<double> cut(const std::vector<double>& x, const AttentionLayout::Part& part) {
  return {x.begin() + static_cast<std::ptrdiff_t>(part.begin),
          x.begin() + static_cast<std::ptrdiff_t>(part.end)};
}

/// Errors relative to each array; where cancellation leaves round-off only (no weight of the soft-max moves
/// with b_K, and none at all with a single token), relative to all of them.
void expect_close(const AttentionSweep& found, const AttentionSweep& expected, const AttentionLayout& layout,
                  double tolerance, double round_off) {
  EXPECT_LE(norm(plus(found.out, -1, expected.out)), tolerance * norm(expected.out)) << "the value";
  EXPECT_LE(norm(plus(found.u_bar, -1, expected.u_bar)),
            tolerance * norm(expected.u_bar) + round_off * norm(expected.weights_bar))
      << "u_bar";
  for (const AttentionLayout::Part& part : layout.parts)
    EXPECT_LE(norm(plus(cut(found.weights_bar, part), -1, cut(expected.weights_bar, part))),
              tolerance * norm(cut(expected.weights_bar, part)) + round_off * norm(expected.weights_bar))
        << part.name;
}

AttentionPoint moved(AttentionPoint at, double step, const AttentionPoint& direction) {
  return {plus(at.weights, step, direction.weights), plus(at.u, step, direction.u),
          plus(at.w, step, direction.w)};
}

/// The plain value and adjoint, with nothing kept.
AttentionSweep plain_sweep(SplitAttention<double>& split, const AttentionPoint& at, double scale = 1) {
  AttentionParameters p(split.layout(), 1);
  p.flat = at.weights;
  AttentionSweep sweep;
  sweep.out = split.rhs(p, at.u, scale);
  sweep.u_bar = split.adjoint(p, at.u, at.w, sweep.weights_bar, scale);
  return sweep;
}

/// Central differences of order 6 of all numbers of the sweep.
AttentionSweep differences(SplitAttention<double>& split, const AttentionPoint& at,
                           const AttentionPoint& direction, double h) {
  constexpr double factors[] = {45.0 / 60, -9.0 / 60, 1.0 / 60};
  AttentionSweep sum;
  const auto add = [](std::vector<double>& to, double factor, const std::vector<double>& x) {
    to.resize(x.size());
    to = plus(to, factor, x);
  };
  for (int steps = 1; steps <= 3; ++steps)
    for (const int sign : {1, -1}) {
      const AttentionSweep there = plain_sweep(split, moved(at, sign * steps * h, direction));
      const double factor = sign * factors[steps - 1] / h;
      add(sum.out, factor, there.out);
      add(sum.u_bar, factor, there.u_bar);
      add(sum.weights_bar, factor, there.weights_bar);
    }
  return sum;
}

class AttentionSecondOrder : public testing::TestWithParam<std::tuple<Size, Setting>> {
 protected:
  static AttentionProblem make() {
    const auto& [size, setting] = GetParam();
    return {size, setting.settings, setting.mask, setting.arrays};
  }
  const AttentionProblem problem = make();
  const AttentionPoint at = random_attention_point(problem.whole, problem.p.layout, 5),
                       one = random_attention_point(problem.whole, problem.p.layout, 15),
                       other = random_attention_point(problem.whole, problem.p.layout, 25);
};

TEST_P(AttentionSecondOrder, linearises_without_changing_a_bit_of_value_and_adjoint) {
  SplitAttention<double> split(problem.line, problem.whole, problem.settings, problem.arrays);
  LinearisedAttention<double> linearised(split, at, -0.37);
  const AttentionSweep plain = plain_sweep(split, at, -0.37);
  EXPECT_EQ(linearised.value.out, plain.out);
  EXPECT_EQ(linearised.value.u_bar, plain.u_bar);
  EXPECT_EQ(linearised.value.weights_bar, plain.weights_bar);
  const AttentionSweep other_vector = plain_sweep(split, {at.weights, at.u, one.w}, -0.37);
  const AttentionSweep product = linearised.gauss_newton(one);
  EXPECT_EQ(product.u_bar, other_vector.u_bar);
  EXPECT_EQ(product.weights_bar, other_vector.weights_bar);
}

// Sums of up to 139 terms of about 1e-16, and the cancellations of the soft-max's derivatives.
TEST_P(AttentionSecondOrder, equals_dual_numbers_in_plain_loops) {
  SplitAttention<double> split(problem.line, problem.whole, problem.settings, problem.arrays);
  LinearisedAttention<double> linearised(split, at);
  for (const AttentionPoint* direction : {&one, &other, &one})
    expect_close(linearised.along(*direction),
                 reference::attention_along(problem.whole, problem.settings, problem.p.layout, at, *direction)
                     .variation,
                 problem.p.layout, 1e-12, 1e-14);
}

// h^6 = 1e-18 times a seventh derivative, which rows of small variance make large, and 1e-15 / h of
// round-off.
TEST_P(AttentionSecondOrder, equals_differences_of_value_and_adjoint) {
  SplitAttention<double> split(problem.line, problem.whole, problem.settings, problem.arrays);
  const double h = 1e-3;
  expect_close(LinearisedAttention<double>(split, at).along(one), differences(split, at, one, h),
               problem.p.layout, 1e-9, 1e-11);
}

TEST_P(AttentionSecondOrder, along_a_state_gives_the_plain_tangent) {
  SplitAttention<double> split(problem.line, problem.whole, problem.settings, problem.arrays);
  AttentionParameters p = problem.p;
  p.flat = at.weights;
  AttentionPoint state = one;
  std::fill(state.weights.begin(), state.weights.end(), 0.0);
  const auto found = LinearisedAttention<double>(split, at, 1.3).along(state).out;
  EXPECT_LE(relative_difference(found, split.tangent(p, at.u, one.u, 1.3)), 1e-13);
}

// <u', u_bar'> + <theta', theta_bar'> at fixed w is the second derivative of <w, value>.
TEST_P(AttentionSecondOrder, is_a_symmetric_form_at_a_fixed_vector) {
  SplitAttention<double> split(problem.line, problem.whole, problem.settings, problem.arrays);
  LinearisedAttention<double> linearised(split, at);
  const auto with_fixed_vector = [](AttentionPoint direction) {
    std::fill(direction.w.begin(), direction.w.end(), 0.0);
    return direction;
  };
  const AttentionSweep along_one = linearised.along(with_fixed_vector(one)),
                       along_other = linearised.along(with_fixed_vector(other));
  const double there = dot(along_one.u_bar, other.u) + dot(along_one.weights_bar, other.weights),
               back = dot(along_other.u_bar, one.u) + dot(along_other.weights_bar, one.weights);
  const double size =
      norm(along_one.u_bar) * norm(other.u) + norm(along_one.weights_bar) * norm(other.weights);
  EXPECT_LE(reached("attention: symmetry of the Hessian", std::abs(there - back) / size), 1e-14);
}

TEST_P(AttentionSecondOrder, in_single_precision_differs_by_single_round_off) {
  SplitAttention<double> split(problem.line, problem.whole, problem.settings, problem.arrays);
  SplitAttention<float> single(problem.line, problem.whole, problem.settings, problem.arrays);
  expect_close(LinearisedAttention<float>(single, at).along(one),
               LinearisedAttention<double>(split, at).along(one), problem.p.layout, 1e-4, 1e-5);
}

// Sizes around vectors, blocks and runs; one channel per head; several chunks of samples, the last smaller.
INSTANTIATE_TEST_SUITE_P(
    Sizes, AttentionSecondOrder,
    testing::Combine(testing::Values(tiny, odd, wide, vit, runs, Size{13, 2, 6, 6}, Size{49, 23, 32, 2}),
                     testing::Values(plain(Kernel::dot, softmax, true, Mask::none),
                                     plain(Kernel::dot, softmax, true, Mask::both),
                                     plain(Kernel::dot, softmax, false, Mask::causal),
                                     plain(Kernel::dot, softmax, false, Mask::weights_and_padding),
                                     plain(Kernel::dot, linear, true, Mask::both),
                                     plain(Kernel::dot, linear, false, Mask::weights_and_padding))));

INSTANTIATE_TEST_SUITE_P(
    Windows, AttentionSecondOrder,
    testing::Combine(testing::Values(odd, wide, vit, runs, long_padded),
                     testing::Values(plain(Kernel::dot, softmax, true, Mask::causal, 1),
                                     plain(Kernel::dot, softmax, true, Mask::both, 3),
                                     plain(Kernel::dot, softmax, false, Mask::weights_and_padding, 2),
                                     plain(Kernel::dot, softmax, true, Mask::none, 33),
                                     plain(Kernel::dot, linear, true, Mask::both, 3),
                                     plain(Kernel::dot, linear, false, Mask::weights_and_padding, 17))));

INSTANTIATE_TEST_SUITE_P(LanguageModels, AttentionSecondOrder,
                         testing::Combine(testing::ValuesIn(sizes_of_language_models),
                                          testing::ValuesIn(terms_of_language_models())));

/// All results of one linearisation, with every base the same numbers elsewhere, the result, or the vector.
enum class Base { apart, result, vector };

std::vector<std::vector<double>> results_over(Base base) {
  const AttentionProblem problem(odd, make_settings(Kernel::dot, 0, true), Mask::both);
  const AttentionPoint at = random_attention_point(problem.whole, problem.p.layout, 5),
                       direction = random_attention_point(problem.whole, problem.p.layout, 15);
  const SlabContext context{&problem.line, odd.samples, odd.width, problem.whole.mask};
  Attention<double> term(context, problem.settings);
  const auto& p = problem.p;
  const auto weights = p.view<const double>(at.weights.data(), &at.weights.back()),
             weights_dot = p.view<const double>(direction.weights.data(), &direction.weights.back());
  std::vector<double> sums(at.weights.size(), 0.0);
  const auto bars = p.view<double>(sums.data(), &sums.back());
  const auto kept = term.make_tape(Order::second);
  std::vector<std::vector<double>> results;
  /// call(base, result), where the base holds the numbers of `vector`
  const auto over = [&](const std::vector<double>& vector, const auto& call) {
    const auto copy = vector;
    auto result = base == Base::result ? vector : std::vector<double>(vector.size(), 7.0);
    call(base == Base::result   ? result.data()
         : base == Base::vector ? vector.data()
                                : copy.data(),
         result.data());
    results.push_back(result);
  };
  over(at.u, [&](const double* from, double* to) {
    term.apply(weights, at.u.data(), {0.7, from, to}, kept.get());
  });
  over(at.w, [&](const double* from, double* to) {
    term.pull(weights, at.u.data(), at.w.data(), {0.7, from, to}, nullptr, kept.get());
  });
  over(direction.u, [&](const double* from, double* to) {
    term.push(weights, &weights_dot, {at.u.data(), direction.u.data()}, {0.7, from, to}, kept.get());
  });
  over(direction.w, [&](const double* from, double* to) {
    term.pull_along(weights, weights_dot, {at.u.data(), direction.u.data()},
                    {at.w.data(), direction.w.data()}, {0.7, from, to}, bars, kept.get());
  });
  over(direction.w, [&](const double* from, double* to) {
    term.pull(weights, at.u.data(), direction.w.data(), {0.7, from, to}, &bars, &kept->value());
  });
  // Each is its base plus something.
  const std::vector<const std::vector<double>*> bases = {&at.u, &at.w, &direction.u, &direction.w,
                                                         &direction.w};
  for (std::size_t i = 0; i < results.size(); ++i)
    EXPECT_GT(norm(plus(results[i], -1, *bases[i])), 0.1 * norm(*bases[i])) << i;
  return results;
}

TEST(AttentionSecondOrderCalls, add_to_a_base_that_may_be_result_or_vector) {
  const auto apart = results_over(Base::apart);
  EXPECT_EQ(results_over(Base::result), apart);
  EXPECT_EQ(results_over(Base::vector), apart);
}

TEST(AttentionSecondOrderCalls, vary_with_alpha_where_alpha_is_zero) {
  const AttentionProblem problem(odd, make_settings(Kernel::dot, 0, true), Mask::none);
  AttentionPoint at = random_attention_point(problem.whole, problem.p.layout, 5);
  at.weights.back() = 0;
  const AttentionPoint direction = random_attention_point(problem.whole, problem.p.layout, 15);
  SplitAttention<double> split(problem.line, problem.whole, problem.settings, problem.arrays);
  expect_close(
      LinearisedAttention<double>(split, at).along(direction),
      reference::attention_along(problem.whole, problem.settings, problem.p.layout, at, direction).variation,
      problem.p.layout, 1e-12, 1e-14);
}

TEST(AttentionSecondOrderCalls, use_the_adjoint_of_the_last_vector) {
  const AttentionProblem problem(odd, make_settings(Kernel::dot, 0, true), Mask::none);
  const AttentionPoint at = random_attention_point(problem.whole, problem.p.layout, 5),
                       direction = random_attention_point(problem.whole, problem.p.layout, 15);
  const SlabContext context{&problem.line, odd.samples, odd.width, {}};
  Attention<double> term(context, problem.settings);
  const auto weights = problem.p.view<const double>(at.weights.data(), &at.weights.back()),
             weights_dot = problem.p.view<const double>(direction.weights.data(), &direction.weights.back());
  const std::vector<double> nothing(at.u.size(), 0.0);
  const auto reused = term.make_tape(Order::second), fresh = term.make_tape(Order::second);
  const auto product = [&](TermTape* kept) {
    std::vector<double> out(at.u.size()), sums(at.weights.size(), 0.0);
    const auto bars = problem.p.view<double>(sums.data(), &sums.back());
    const Sum to{1, nothing.data(), out.data()};
    const fluxformer::Point point{at.u.data(), direction.u.data()};
    term.apply(weights, at.u.data(), to, kept);
    term.pull(weights, at.u.data(), at.w.data(), to, &bars, kept);
    std::fill(sums.begin(), sums.end(), 0.0);
    term.push(weights, &weights_dot, point, to, kept);
    term.pull_along(weights, weights_dot, point, {at.w.data(), direction.w.data()}, to, bars, kept);
    return sums;
  };
  const auto first = product(reused.get());
  EXPECT_EQ(product(reused.get()), first);
  EXPECT_EQ(product(fresh.get()), first);
}

TEST(AttentionSecondOrderCalls, at_one_state_leave_those_at_another_alone) {
  const AttentionProblem problem({49, 23, 32, 2}, make_settings(Kernel::dot, 0, true), Mask::padding);
  const AttentionPoint at = random_attention_point(problem.whole, problem.p.layout, 5),
                       elsewhere = random_attention_point(problem.whole, problem.p.layout, 35),
                       direction = random_attention_point(problem.whole, problem.p.layout, 15);
  SplitAttention<double> split(problem.line, problem.whole, problem.settings, problem.arrays);
  const AttentionSweep alone = LinearisedAttention<double>(split, at).along(direction);
  LinearisedAttention<double> first(split, at), second(split, elsewhere);
  second.along(at);
  first.gauss_newton(elsewhere);
  const AttentionSweep found = first.along(direction);
  EXPECT_EQ(found.out, alone.out);
  EXPECT_EQ(found.u_bar, alone.u_bar);
  EXPECT_EQ(found.weights_bar, alone.weights_bar);
}

TEST(AttentionSecondOrderCalls, refuse_by_the_name_of_the_key_what_has_no_second_derivative) {
  const TokenLine line = TokenLine::even(MPI_COMM_SELF, 5, 1);
  const SlabContext context{&line, 2, 8, {}};
  const auto refusal = [&](Kernel kernel, int iterations) -> std::string {
    try {
      Attention<double>(context, make_settings(kernel, iterations, true)).make_tape(Order::second);
    } catch (const BadInput& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal(Kernel::dot, softmax), "");
  EXPECT_EQ(refusal(Kernel::dot, linear), "");
  EXPECT_THAT(refusal(Kernel::l2, 0), testing::HasSubstr("attention.kernel = dot"));
  EXPECT_THAT(refusal(Kernel::dot, 3), testing::HasSubstr("attention.normalisation = softmax"));
}

TEST(AttentionSecondOrderCalls, report_the_memory_they_hold) {
  const TokenLine line = TokenLine::even(MPI_COMM_SELF, 49, 1);
  const SlabContext context{&line, 23, 32, {}};
  const std::size_t rows = 49 * 23, d = 32;
  const auto bytes =
      Attention<double>(context, make_settings(Kernel::dot, 0, true)).make_tape(Order::second)->bytes();
  // Three times 5 d a row and some numbers per head, and one matrix; never n numbers a row.
  EXPECT_GE(bytes, rows * 15 * d * sizeof(double));
  EXPECT_LE(bytes, (rows * 17 * d + d * d + d) * sizeof(double));
}

}  // namespace
}  // namespace fluxformer
