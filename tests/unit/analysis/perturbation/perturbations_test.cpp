// Random perturbations of inputs: their size and invariances.

#include "analysis/perturbation/perturbations.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "model/tasks/task.hpp"
#include "tests/unit/analysis/probe_case.hpp"

namespace fluxformer::perturbation {
namespace {

using test::ProbeCase;

constexpr double rounding = 1e-13;
constexpr int unknown_word = 1;

/// Noise that is added to x in each sample, and to its padding.
struct Noise {
  Noise(const std::vector<long>& keys, int places, InputSpace space, double level, std::uint64_t seed = 1)
      : model({}, places), batch(model.batch(keys)), input(model.probe, space) {
    input.set(batch);
    added = input.clean();
    add_noise(input, seed, level, added);
    added = test::plus(added, -1, input.clean());
  }
  std::vector<double> of(int sample) const {
    const RowMatrix block = input.block(added, sample);
    return {block.data(), block.data() + block.size()};
  }
  ProbeCase model;
  Batch batch;
  ModelInput input;
  std::vector<double> added;
};

constexpr InputSpace perturbations_both[] = {InputSpace::embedded, InputSpace::features};

TEST(InputNoise, is_that_of_the_sample_in_any_batch) {
  for (const auto space : perturbations_both) {
    const Noise all({0, 1, 2, 3, 4}, 5, space, 0.1), some({3, 1}, 3, space, 0.1);
    // (x + noise) - x is rounded, and x itself by the products of its batch.
    EXPECT_LT(test::relative_difference(some.of(0), all.of(3)), rounding);
    EXPECT_LT(test::relative_difference(some.of(1), all.of(1)), rounding);
    auto other = all.of(1);  // of more tokens
    other.resize(some.of(0).size());
    EXPECT_GT(test::relative_difference(some.of(0), other), 0.1);
  }
}

TEST(InputNoise, is_normal_with_the_deviation_its_level_says) {
  std::vector<long> keys(60);
  for (std::size_t b = 0; b < keys.size(); ++b) keys[b] = static_cast<long>(b);
  for (const auto space : perturbations_both) {
    const Noise noise(keys, 60, space, 0.2);
    double sum = 0, squares = 0, fourth = 0, n = 0;
    for (int b = 0; b < 60; ++b) {
      const RowMatrix u = noise.input.slab_block(noise.input.clean_embedded(), b);
      const double unit = space == InputSpace::features ? 1 : std::sqrt(u.array().square().mean());
      for (const double value : noise.of(b)) {
        const double z = value / (0.2 * unit);
        sum += z, squares += z * z, fourth += z * z * z * z, n += 1;
      }
    }
    // Standard errors of the moments of n normal numbers: 1, sqrt 2 and sqrt 96 over sqrt n.
    EXPECT_NEAR(sum / n, 0, 4 / std::sqrt(n));
    EXPECT_NEAR(squares / n, 1, 4 * std::sqrt(2 / n));
    EXPECT_NEAR(fourth / n, 3, 4 * std::sqrt(96 / n));
  }
}

TEST(InputNoise, of_another_level_is_the_same_draw) {
  for (const auto space : perturbations_both) {
    const Noise one({0, 1, 2}, 3, space, 0.1), two({0, 1, 2}, 3, space, 0.2);
    EXPECT_LT(test::relative_difference(two.added, test::plus(one.added, 1, one.added)), 10 * rounding);
    const Noise other({0, 1, 2}, 3, space, 0.1, 2);
    EXPECT_GT(test::relative_difference(other.added, one.added), 0.1);
  }
}

TEST(InputNoise, leaves_fillers_and_padding_alone) {
  for (const auto space : perturbations_both) {
    const Noise noise({1, 2}, 4, space, 0.3);
    EXPECT_EQ(noise.of(2).size() + noise.of(3).size(), 0U);
    std::size_t moved = 0, real = 0;
    for (const double value : noise.added) moved += value != 0 ? 1 : 0;
    for (int b = 0; b < 2; ++b) real += noise.of(b).size();
    EXPECT_EQ(moved, real);  // a normal number is never 0
  }
}

TEST(DroppedTokens, are_the_share_of_the_real_ones) {
  const ProbeCase model({}, 6);
  const auto batch = model.batch({0, 1, 2, 3, 5});
  for (const double share : {0.0, 0.1, 0.4, 0.75, 1.0}) {
    const auto dropped = drop_tokens(model.probe.spec(), batch, 1, share, unknown_word);
    for (std::size_t b = 0; b < 6; ++b) {
      int empty = 0;
      for (int t = 0; t < model.tokens; ++t) {
        const std::size_t at = (b * static_cast<std::size_t>(model.tokens) + static_cast<std::size_t>(t)) * 3;
        const bool same = std::equal(dropped.input.begin() + static_cast<long>(at),
                                     dropped.input.begin() + static_cast<long>(at) + 3,
                                     batch.input.begin() + static_cast<long>(at));
        if (same) continue;
        EXPECT_LT(t, batch.length[b]);
        for (std::size_t j = at; j < at + 3; ++j) EXPECT_EQ(dropped.input[j], 0);
        ++empty;
      }
      EXPECT_EQ(empty, b == 5 ? 0 : std::lround(share * batch.length[b]));  // 5: a filler
    }
  }
}

TEST(DroppedTokens, are_those_of_the_sample_in_any_batch_and_model) {
  const ProbeCase images({}, 4), texts({.vocabulary = 9}, 2);
  const auto batch = images.batch({0, 1, 4, 2}), words = texts.batch({4, 0});
  const auto dropped = drop_tokens(images.probe.spec(), batch, 1, 0.5, unknown_word);
  const auto unknown = drop_tokens(texts.probe.spec(), words, 1, 0.5, unknown_word);
  int count = 0;
  for (std::size_t t = 0; t < 12; ++t)
    for (const auto& [place, other] : {std::pair<std::size_t, std::size_t>{0, 1}, {2, 0}}) {
      const bool gone = unknown.input[other * 12 + t] == 1;
      EXPECT_EQ(dropped.input[(place * 12 + t) * 3] == 0, gone);
      EXPECT_EQ(unknown.input[other * 12 + t], gone ? 1 : words.input[other * 12 + t]);
      count += gone ? 1 : 0;
    }
  EXPECT_EQ(count, 6 + 6);
}

TEST(DroppedTokens, of_a_larger_share_are_more) {
  const ProbeCase texts({.vocabulary = 9}, 3);
  const auto batch = texts.batch({0, 1, 2});
  const auto few = drop_tokens(texts.probe.spec(), batch, 1, 0.3, unknown_word);
  const auto many = drop_tokens(texts.probe.spec(), batch, 1, 0.6, unknown_word);
  for (std::size_t j = 0; j < few.input.size(); ++j) EXPECT_TRUE(few.input[j] != 1 || many.input[j] == 1);
  EXPECT_NE(few.input, drop_tokens(texts.probe.spec(), batch, 2, 0.3, unknown_word).input);
}

TEST(DroppedTokens, are_a_share_between_0_and_1) {
  const ProbeCase model({}, 1);
  for (const double share : {-0.1, 1.1, std::nan("")})
    EXPECT_THROW(drop_tokens(model.probe.spec(), model.batch({0}), 1, share, unknown_word), BadInput);
}

}  // namespace
}  // namespace fluxformer::perturbation

// Adversarial inputs: gradients against differences, and the effect of steps on the loss.

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
