// Random perturbations of inputs: their size and invariances.

#include "analysis/perturbation/perturbations.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.hpp"
#include "tests/unit/analysis/probe_case.hpp"

namespace fluxformer::perturbation {
namespace {

using test::ProbeCase;

constexpr double rounding = 1e-13;
constexpr int unknown_word = 1;

/// What is added to x in each sample; for padding, what is added there.
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
