#include "operators/attention/attention.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "tests/support/attention_problem.hpp"

namespace fluxformer {
namespace {

using namespace test;

/// (kernel, Sinkhorn iterations or `softmax` or `linear`, layer norm, mask)
using AttentionSetting = std::tuple<Kernel, int, bool, Mask>;

class AttentionTerm : public testing::TestWithParam<std::tuple<Size, AttentionSetting>> {
 protected:
  static AttentionProblem make() {
    const auto& [size, setting] = GetParam();
    const auto& [kernel, iterations, layer_norm, mask] = setting;
    return {size, make_settings(kernel, iterations, layer_norm), mask};
  }
};

TEST_P(AttentionTerm, equals_the_plain_reference) {
  const AttentionProblem problem = make();
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
  const AttentionProblem problem = make();
  SplitAttention<float> split(problem.line, problem.whole, problem.settings);
  // 6e-8 per operation, over sums of products of up to 62 channels and logits of up to about 10.
  EXPECT_LT(relative_difference(split.rhs(problem.p, problem.u), problem.reference_rhs()), 2e-5);
}

TEST_P(AttentionTerm, matrix_equals_the_plain_reference) {
  const AttentionProblem problem = make();
  SplitAttention<double> split(problem.line, problem.whole, problem.settings);
  const auto k = split.matrix(problem.p, problem.u, problem.size.heads);
  EXPECT_LT(relative_difference(k, problem.reference_matrix()), 1e-13);
}

TEST_P(AttentionTerm, tangent_is_the_derivative) {
  const AttentionProblem problem = make();
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
  const AttentionProblem problem = make();
  SplitAttention<double> split(problem.line, problem.whole, problem.settings);
  std::vector<double> gradient;
  const auto tangent = split.tangent(problem.p, problem.u, problem.v, -0.37);
  const auto u_bar = split.adjoint(problem.p, problem.u, problem.w, gradient, -0.37);
  EXPECT_NEAR(dot(tangent, problem.w), dot(problem.v, u_bar),
              1e-12 * norm(tangent) * norm(problem.w) + 1e-300);
}

TEST_P(AttentionTerm, parameter_gradient_is_that_of_central_differences) {
  const AttentionProblem problem = make();
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
  const AttentionProblem problem = make();
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

INSTANTIATE_TEST_SUITE_P(
    Softmax, AttentionTerm,
    testing::Combine(testing::Values(tiny, odd, wide, vit, runs),
                     testing::Values(AttentionSetting{Kernel::dot, 0, true, Mask::none},
                                     AttentionSetting{Kernel::dot, 0, true, Mask::both},
                                     AttentionSetting{Kernel::l2, 0, false, Mask::weights},
                                     AttentionSetting{Kernel::l2, 0, true, Mask::causal},
                                     AttentionSetting{Kernel::dot, 0, false, Mask::weights_and_padding})));
INSTANTIATE_TEST_SUITE_P(
    Linear, AttentionTerm,
    testing::Combine(testing::Values(tiny, odd, wide, vit, runs),
                     testing::Values(AttentionSetting{Kernel::dot, linear, true, Mask::none},
                                     AttentionSetting{Kernel::dot, linear, true, Mask::both},
                                     AttentionSetting{Kernel::dot, linear, false, Mask::causal},
                                     AttentionSetting{Kernel::dot, linear, true,
                                                      Mask::weights_and_padding})));
INSTANTIATE_TEST_SUITE_P(
    Sinkhorn, AttentionTerm,
    testing::Combine(testing::Values(tiny, odd, vit),
                     testing::Values(AttentionSetting{Kernel::dot, 1, true, Mask::weights},
                                     AttentionSetting{Kernel::dot, 2, true, Mask::none},
                                     AttentionSetting{Kernel::dot, 3, true, Mask::weights_and_padding},
                                     AttentionSetting{Kernel::l2, 4, true, Mask::weights_and_padding},
                                     AttentionSetting{Kernel::l2, 5, false, Mask::padding})));

}  // namespace
}  // namespace fluxformer
