// Adversarial inputs: gradients against differences, and the effect of steps on the loss.

#include "analysis/perturbation/perturbations.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "model/loss.hpp"
#include "tests/unit/analysis/probe_case.hpp"

namespace fluxformer::perturbation {
namespace {

using test::ProbeCase;
using test::ProbeSpec;

constexpr InputSpace both[] = {InputSpace::embedded, InputSpace::features};

/// A Transformer, and a PDE model without normalisation on finer cells.
std::vector<ProbeSpec> models() {
  return {{}, {.norm = Norm::none, .kind = ModelKind::pde, .kappa = 0.2, .cells = 6}};
}

struct AttackCase {
  AttackCase(const ProbeSpec& spec, InputSpace space, const std::vector<long>& keys, int places,
             const InputRange& range = {})
      : model(spec, places), batch(model.batch(keys)), input(model.probe, space), adversary(input, range) {
    input.set(batch);
    adversary.begin();
  }
  /// Cross entropy of each sample at x, 0 for fillers.
  std::vector<double> losses(const std::vector<double>& x) {
    std::vector<double> u, out;
    input.embed(x, u);
    const auto& z = model.probe.forward(u);
    const auto classes = model.probe.spec().classes;
    for (std::size_t b = 0; b < batch.weight.size(); ++b)
      out.push_back(batch.weight[b] == 0 ? 0
                                         : loss_of({}, z.data() + b * static_cast<std::size_t>(classes),
                                                   classes, batch.label[b], 0, nullptr));
    return out;
  }
  double loss(const std::vector<double>& x) {
    double sum = 0;
    for (const double value : losses(x)) sum += value;
    return sum;
  }
  std::vector<double> attacked(const Attack& how) {
    std::vector<double> x;
    adversary.attack(how, x);
    return x;
  }

  ProbeCase model;
  Batch batch;
  ModelInput input;
  Adversary adversary;
};

TEST(Adversary, gradient_matches_central_differences) {
  for (const auto& spec : models())
    for (const auto space : both) {
      AttackCase c(spec, space, {0, 1, 2}, 4);
      auto x = c.input.clean();
      std::vector<double> differences(x.size());
      // Truncation h^2 / 6 times the third derivative, rounding 1e-16 / h: both below 1e-9.
      constexpr double h = 1e-5;
      for (std::size_t j = 0; j < x.size(); ++j) {
        const double centre = x[j];
        x[j] = centre + h;
        const double above = c.loss(x);
        x[j] = centre - h;
        differences[j] = (above - c.loss(x)) / (2 * h);
        x[j] = centre;
      }
      EXPECT_LT(test::relative_difference(c.adversary.clean_gradient(), differences), 1e-7);
    }
}

TEST(Adversary, fgsm_raises_the_loss_by_epsilon_times_the_1_norm_of_the_gradient) {
  for (const auto& spec : models())
    for (const auto space : both) {
      AttackCase c(spec, space, {0, 1, 2}, 4);
      double slope = 0;
      for (int b = 0; b < 3; ++b)
        slope += c.input.unit(b) * c.input.block(c.adversary.clean_gradient(), b).lpNorm<1>();
      const auto remainder = [&](double epsilon) {
        return c.loss(c.attacked(fgsm(epsilon))) - c.loss(c.input.clean()) - epsilon * slope;
      };
      // Second order, the next term being about epsilon times smaller.
      EXPECT_NEAR(std::log2(remainder(2e-3) / remainder(1e-3)), 2, 0.1);
    }
}

TEST(Adversary, stays_in_ball_and_range) {
  for (const auto space : both)
    for (const bool random : {false, true}) {
      InputRange range;
      if (space == InputSpace::features) range = {-0.6, 0.7};  // cuts some of the balls
      AttackCase c(models()[0], space, {0, 1, 2}, 4, range);
      for (double& value : c.batch.input) value = std::clamp(value, range.lower, range.upper);
      c.input.set(c.batch);
      c.adversary.begin();
      auto how = pgd(0.3, 6);
      how.random_start = random;
      const auto x = c.attacked(how);
      double farthest = 0;
      for (int b = 0; b < 3; ++b) {
        const RowMatrix step = c.input.block(x, b) - c.input.block(c.input.clean(), b);
        farthest = std::max(farthest, step.cwiseAbs().maxCoeff() / (0.3 * c.input.unit(b)));
        EXPECT_GE(c.input.block(x, b).minCoeff(), range.lower);
        EXPECT_LE(c.input.block(x, b).maxCoeff(), range.upper);
      }
      EXPECT_NEAR(farthest, 1, 1e-14);  // reached, except for the rounding of clean +- radius
    }
}

TEST(Adversary, pgd_is_not_weaker_than_fgsm) {
  for (const auto& spec : models())
    for (const auto space : both) {
      AttackCase c(spec, space, {0, 1, 2}, 3);
      // In a small ball the loss is nearly linear: more steps make no sample worse. In a large ball a single
      // sample may end at a lower maximum, but not their mean.
      const auto weak = c.losses(c.attacked(fgsm(0.03))), strong = c.losses(c.attacked(pgd(0.03, 20)));
      for (std::size_t b = 0; b < 3; ++b) EXPECT_GE(strong[b], weak[b] - 1e-12);
      EXPECT_GT(c.loss(c.attacked(pgd(0.3, 20))), c.loss(c.attacked(fgsm(0.3))));
    }
}

TEST(Adversary, one_step_is_the_best_where_the_loss_is_a_function_of_one_linear_one) {
  // Transport only, two classes: the loss falls with z_0 - z_1, which is linear in the input.
  AttackCase c({.norm = Norm::none, .alpha = 0, .rho = 0, .classes = 2}, InputSpace::features, {0, 1, 2}, 3);
  const auto one = c.attacked(fgsm(0.4));
  EXPECT_LT(test::relative_difference(c.attacked(pgd(0.4, 5)), one), 1e-15);
  const auto best = c.losses(one);
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const auto other = c.losses(c.attacked({.epsilon = 0.4, .steps = 0, .random_start = true, .seed = seed}));
    for (std::size_t b = 0; b < 3; ++b) EXPECT_LT(other[b], best[b]);
  }
}

TEST(Adversary, leaves_fillers_and_padding_alone) {
  for (const auto space : both) {
    AttackCase c(models()[1], space, {1, 2}, 4);
    auto how = pgd(0.3, 2);
    how.random_start = true;
    const auto x = c.attacked(how);
    std::size_t moved = 0, real = 0;
    for (std::size_t j = 0; j < x.size(); ++j) moved += x[j] != c.input.clean()[j] ? 1 : 0;
    for (int b = 0; b < 4; ++b) real += static_cast<std::size_t>(c.input.block(x, b).size());
    EXPECT_LE(moved, real);
    EXPECT_GT(moved, 0U);
    for (int b = 0; b < 2; ++b)
      EXPECT_GT((c.input.block(x, b) - c.input.block(c.input.clean(), b)).cwiseAbs().maxCoeff(), 0);
    // Values outside the blocks are unchanged.
    auto rest = x;
    for (int b = 0; b < 4; ++b) c.input.block(rest, b) = c.input.block(c.input.clean(), b);
    EXPECT_EQ(rest, c.input.clean());
  }
}

TEST(Adversary, starts_at_the_random_place_of_the_sample_in_any_batch) {
  const Attack start{.epsilon = 0.3, .steps = 0, .random_start = true, .seed = 5};
  AttackCase all({}, InputSpace::features, {0, 1, 2}, 3), one({}, InputSpace::features, {2}, 2);
  const RowMatrix there = all.input.block(all.attacked(start), 2);
  const auto x = one.attacked(start);
  EXPECT_EQ((one.input.block(x, 0) - there).norm(), 0);
}

TEST(ModelInput, of_a_model_that_reads_words_has_no_features) {
  ProbeCase words({.vocabulary = 9}, 2);
  EXPECT_THROW(ModelInput(words.probe, InputSpace::features), BadInput);
  EXPECT_NO_THROW(ModelInput(words.probe, InputSpace::embedded));
}

}  // namespace
}  // namespace fluxformer::perturbation
