// The task of hidden Markov chains is the published one: draws, heads, kernels, accuracies.

#include "analysis/paths/markov_task.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>
#include <string>

#include "base/error.hpp"
#include "tests/unit/analysis/paths/plain_gp.hpp"

namespace fluxformer::paths {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

// Half a unit of the last printed digit, and round-off.
constexpr double six_digits = 6e-7, eight_digits = 6e-9, ten_digits = 6e-11;
// T of the published experiments.
constexpr double temperature = 0.01;

MarkovChains published_chains(int count, std::uint32_t seed) {
  return markov_chains(count, published_markov(MarkovVariant::four_paths).noise, seed);
}

const PathTask& published_task(MarkovVariant variant) {
  static const PathTask four = markov_task(published_markov(MarkovVariant::four_paths)),
                        two = markov_task(published_markov(MarkovVariant::two_paths));
  return variant == MarkovVariant::four_paths ? four : two;
}

std::string states_of(const MarkovChains& chains, int example) {
  std::string states;
  for (int t = 0; t < markov_states; ++t) states += chains.states(example, t) > 0 ? '+' : '-';
  return states;
}

const MatrixXd& weights_of(const FrozenAttention& attention, int layer, int head) {
  return std::get<BilinearHead>(attention.head(layer, head)).weights;
}

TEST(MarkovTask, has_the_published_draws) {
  const auto train = published_chains(100, 27), test = published_chains(1000, 59);
  // Sums of n numbers in any order: sqrt(n) round-offs, n = 6e6.
  const auto expect_sum = [](double sum, double expected) { EXPECT_NEAR(sum / expected, 1, 5e-13); };
  expect_sum(train.features.sum(), 424098.1085637878);
  expect_sum(train.features.squaredNorm(), 1201355.9948538991);
  expect_sum(test.features.sum(), 4239632.5288871601);
  expect_sum(test.features.squaredNorm(), 11995008.7588772085);
  EXPECT_EQ(states_of(train, 0), "+++++----------+-----++++----+");
  EXPECT_EQ(states_of(train, 50), "++-+++-+-+-+-+-+-+---+-+-+--++");
  const MatrixXd x = train.tokens(0);
  EXPECT_NEAR(x(0, 1), 1.6084414935, ten_digits);
  EXPECT_NEAR(x(0, 2), -0.1888019777, ten_digits);
  EXPECT_NEAR(x(0, 3), 0.8440280077, ten_digits);
  EXPECT_NEAR(x(0, 4), -0.3116721076, ten_digits);
}

TEST(MarkovTask, has_the_published_random_heads) {
  const auto attention = markov_attention(MarkovVariant::four_paths, MarkovSeeds{});
  const auto &first = weights_of(attention, 0, 1), &second = weights_of(attention, 1, 1);
  EXPECT_NEAR(first(0, 0), -0.1564807692, ten_digits);
  EXPECT_NEAR(first(200, 200), -2.0689460982, ten_digits);
  EXPECT_NEAR(first(0, 200), -0.4450411371, ten_digits);
  EXPECT_NEAR(first(200, 0), -0.0754414258, ten_digits);
  EXPECT_NEAR(second(0, 0), -0.0719631539, ten_digits);
}

TEST(MarkovTask, has_the_published_path_kernels) {
  const auto& task = published_task(MarkovVariant::four_paths);
  const double first[] = {.42406246, 1.77158094, .49531893, 1.64955439};
  const double trace[] = {.19287202, .77720736, .48468203, 1.48795304};
  double mean = 0;
  for (int path = 0; path < 4; ++path) {
    const auto xi = task.train.inputs.middleCols(path * markov_dimension, markov_dimension);
    EXPECT_NEAR(xi.row(0).squaredNorm() / markov_dimension, first[path], eight_digits) << path;
    const double here = xi.squaredNorm() / markov_dimension / 100;
    EXPECT_NEAR(here, trace[path], eight_digits) << path;
    mean += here / 4;
  }
  EXPECT_NEAR(mean, .735679, six_digits);
}

// Thousandths are single test examples: equality.
TEST(MarkovTask, has_the_published_accuracies_at_infinite_width) {
  const auto accuracy = [](MarkovVariant variant, const std::vector<std::vector<int>>& kept) {
    return test::plain_gp(with_heads(published_task(variant), kept), temperature).accuracy;
  };
  const auto expect = [](double found, double percent) { EXPECT_NEAR(100 * found, percent, 1e-9); };
  expect(accuracy(MarkovVariant::four_paths, {{0, 1}, {0, 1}}), 82.6);
  expect(accuracy(MarkovVariant::four_paths, {{0, 1}, {0}}), 95.5);
  expect(accuracy(MarkovVariant::four_paths, {{0}, {0}}), 94.0);
  expect(accuracy(MarkovVariant::four_paths, {{0}, {1}}), 56.6);
  expect(accuracy(MarkovVariant::four_paths, {{1}, {0}}), 50.1);
  expect(accuracy(MarkovVariant::four_paths, {{1}, {1}}), 50.8);
  expect(accuracy(MarkovVariant::two_paths, {{0, 1}, {0}}), 84.3);
  expect(accuracy(MarkovVariant::two_paths, {{0}, {0}}), 56.5);
}

TEST(MarkovTask, has_the_published_energy_at_infinite_width) {
  // Ten digits are printed. The condition of K + T I is below tr K / T = 7400, E is of the order of 100: some
  // 7400 eps 100 = 2e-10.
  const auto found = test::plain_gp(published_task(MarkovVariant::four_paths), temperature);
  EXPECT_NEAR(found.energy, 152.9735782226, 1e-9);
}

TEST(MarkovTask, has_named_paths_and_targets_in_order) {
  const auto &four = published_task(MarkovVariant::four_paths),
             &two = published_task(MarkovVariant::two_paths);
  EXPECT_EQ(four.heads, (std::vector<int>{2, 2}));
  EXPECT_EQ(four.path_names,
            (std::vector<std::string>{"good", "adversarial 1", "denoising", "adversarial 2"}));
  EXPECT_EQ(two.heads, (std::vector<int>{2, 1}));
  EXPECT_EQ(two.path_names, (std::vector<std::string>{"good", "denoising"}));
  for (const auto* task : {&four, &two})
    for (const auto* examples : {&task->train, &task->test}) {
      const Index count = examples->targets.size(), paths = path_count(task->heads);
      EXPECT_EQ(count, examples == &task->train ? 100 : 1000);
      EXPECT_EQ(examples->inputs.rows(), count);
      EXPECT_EQ(examples->inputs.cols(), paths * markov_dimension);
      EXPECT_EQ(examples->targets.head(count / 2), VectorXd::Ones(count / 2));
      EXPECT_EQ(examples->targets.tail(count / 2), -VectorXd::Ones(count / 2));
    }
}

TEST(MarkovTask, good_head_has_the_logits_of_its_rule) {
  const auto chains = markov_chains(2, {.difference = 0, .sum = 0, .perpendicular = 0}, 1);
  const MatrixXd w = weights_of(markov_attention(MarkovVariant::two_paths, MarkovSeeds{}), 0, 0);
  for (int k = 0; k < 2; ++k) {
    const MatrixXd x = chains.tokens(k), logits = x.transpose() * w * x;
    for (Index t = 0; t < markov_tokens; ++t)
      for (Index s = 0; s < markov_tokens; ++s) {
        double expected = 0;
        if (s == 0 && t > 0) expected = 15;
        if (s > 0 && t > 0)
          expected = 10 * chains.states(k, s - 1) * chains.states(k, t - 1) + (s == t - 1 ? 10 : 0);
        // Sums of 200 terms of 0.1: some hundred round-offs of 10.
        EXPECT_NEAR(logits(s, t), expected, 1e-12) << s << " " << t;
      }
  }
}

TEST(MarkovTask, good_head_attends_to_the_previous_token_of_its_state_else_to_the_first) {
  const auto chains = published_chains(100, 27);
  const auto attention = markov_attention(MarkovVariant::four_paths, MarkovSeeds{});
  double previous = 0, first = 0;
  int stays = 0, moves = 0;
  for (int k = 0; k < 100; ++k) {
    const MatrixXd x = chains.tokens(k), a = attention_columns(attention.head(0, 0), x, x);
    // The first state has no state before it.
    for (Index t = 2; t < markov_tokens; ++t) {
      const bool stayed = chains.states(k, t - 1) == chains.states(k, t - 2);
      (stayed ? previous : first) += a(stayed ? t - 1 : 0, t);
      ++(stayed ? stays : moves);
    }
  }
  // Two printed digits.
  EXPECT_NEAR(previous / stays, 0.98, 0.005);
  EXPECT_NEAR(first / moves, 0.81, 0.005);
}

TEST(MarkovTask, uniform_heads_attend_to_every_token_alike) {
  const MatrixXd x = published_chains(2, 27).tokens(1);
  const MatrixXd uniform = MatrixXd::Constant(markov_tokens, markov_tokens, 1.0 / markov_tokens);
  const auto four = markov_attention(MarkovVariant::four_paths, MarkovSeeds{}),
             two = markov_attention(MarkovVariant::two_paths, MarkovSeeds{});
  EXPECT_EQ(attention_columns(four.head(1, 0), x, x), uniform);
  EXPECT_EQ(attention_columns(two.head(1, 0), x, x), uniform);
  EXPECT_EQ(attention_columns(two.head(0, 1), x, x), uniform);
}

TEST(MarkovTask, denoising_path_of_two_is_the_mean_token) {
  auto settings = published_markov(MarkovVariant::two_paths);
  settings.examples = settings.test_examples = 2;
  const auto task = markov_task(settings);
  const auto chains = markov_chains(2, settings.noise, settings.seeds.train);
  for (int k = 0; k < 2; ++k) {
    const VectorXd mean = chains.tokens(k).rowwise().mean();
    // Means of 31 tokens of the order of 5, of means.
    EXPECT_LT((task.train.inputs.row(k).tail(markov_dimension).transpose() - mean).cwiseAbs().maxCoeff(),
              1e-14);
  }
}

TEST(MarkovTask, tokens_are_features_and_positions) {
  const auto chains = published_chains(4, 3);
  const MatrixXd x = chains.tokens(2);
  EXPECT_EQ(x.rows(), markov_dimension);
  EXPECT_EQ(x.bottomRows(markov_tokens), MatrixXd::Identity(markov_tokens, markov_tokens));
  EXPECT_EQ(x.col(0).head(markov_features), VectorXd::Zero(markov_features));
  for (int i : {0, 7, 199})
    for (int t : {0, 12, 29}) EXPECT_EQ(x(i, t + 1), chains.features(2, i * markov_states + t));
}

TEST(MarkovTask, noise_has_its_strength_in_each_direction) {
  const auto bare = markov_chains(4, {.difference = 0, .sum = 0, .perpendicular = 0}, 8);
  const auto unit = markov_chains(4, {}, 8);
  const auto strong = markov_chains(4, {.difference = 2, .sum = 3, .perpendicular = 5}, 8);
  EXPECT_EQ(bare.states, strong.states);
  MatrixXd planes = MatrixXd::Zero(markov_features, 2);
  planes.col(0).head(100).setConstant(std::sqrt(0.005));
  planes.col(0).tail(100).setConstant(-std::sqrt(0.005));
  planes.col(1).setConstant(std::sqrt(0.005));
  const auto features = [](const MarkovChains& chains, int k) -> MatrixXd {
    return chains.tokens(k).topRightCorner(markov_features, markov_states);
  };
  for (int k = 0; k < 4; ++k) {
    const MatrixXd mean = features(bare, k), g = features(unit, k) - mean, noise = features(strong, k) - mean;
    for (int t = 0; t < markov_states; ++t)
      for (int i : {0, 99, 100, 199})
        EXPECT_EQ(mean(i, t), (bare.states(k, t) > 0) == (i < 100) ? std::numbers::sqrt2 : 0);
    const MatrixXd in_plane = planes.transpose() * g, rest = g - planes * in_plane,
                   found = planes.transpose() * noise;
    // Sums of 200 numbers of the order of 5.
    EXPECT_LT((found.row(0) - 2 * in_plane.row(0)).cwiseAbs().maxCoeff(), 1e-12);
    EXPECT_LT((found.row(1) - 3 * in_plane.row(1)).cwiseAbs().maxCoeff(), 1e-12);
    EXPECT_LT((noise - planes * found - 5 * rest).cwiseAbs().maxCoeff(), 1e-12);
  }
}

TEST(MarkovTask, chains_stay_as_often_as_their_class_does) {
  const auto chains = published_chains(1000, 59);
  double stays[2] = {0, 0};
  for (int k = 0; k < 1000; ++k)
    for (int t = 1; t < markov_states; ++t)
      stays[chains.targets[k] > 0 ? 1 : 0] += chains.states(k, t) == chains.states(k, t - 1) ? 1 : 0;
  // 500 chains of 29 steps each; four standard deviations.
  const double steps = 500 * 29, four = 4 * std::sqrt(0.21 / steps);
  EXPECT_NEAR(stays[1] / steps, 0.7, four);
  EXPECT_NEAR(stays[0] / steps, 0.3, four);
}

TEST(MarkovTask, one_number_stands_for_all_seeds) {
  const auto seeds = markov_seeds(7);
  EXPECT_EQ(seeds.train, 7u);
  EXPECT_EQ(seeds.test, 107u);
  EXPECT_EQ(seeds.layer_1, 207u);
  EXPECT_EQ(seeds.layer_2, 307u);
  EXPECT_THROW(markov_seeds(-1), BadInput);
  EXPECT_THROW(markov_seeds(std::int64_t{1} << 32), BadInput);
}

TEST(MarkovTask, each_seed_has_its_part) {
  auto settings = published_markov(MarkovVariant::four_paths);
  settings.examples = settings.test_examples = 2;
  const auto task = markov_task(settings);
  const auto path = [](const PathExamples& examples, int which) -> MatrixXd {
    return examples.inputs.middleCols(which * markov_dimension, markov_dimension);
  };
  settings.seeds.train = 1;
  EXPECT_NE(markov_task(settings).train.inputs, task.train.inputs);
  EXPECT_EQ(markov_task(settings).test.inputs, task.test.inputs);
  settings.seeds = {};
  settings.seeds.layer_1 = 1;
  const auto first = markov_task(settings);
  settings.seeds = {};
  settings.seeds.layer_2 = 1;
  const auto second = markov_task(settings);
  const bool changes_with_first[] = {false, false, true, true},
             changes_with_second[] = {false, true, false, true};
  for (int which = 0; which < 4; ++which) {
    EXPECT_EQ(path(first.test, which) != path(task.test, which), changes_with_first[which]) << which;
    EXPECT_EQ(path(second.test, which) != path(task.test, which), changes_with_second[which]) << which;
  }
}

TEST(MarkovTask, refuses_bad_settings) {
  const auto refuses = [](auto change) {
    auto settings = published_markov(MarkovVariant::two_paths);
    settings.examples = settings.test_examples = 2;
    change(settings);
    EXPECT_THROW(markov_task(settings), BadInput);
  };
  refuses([](auto& s) { s.examples = 3; });
  refuses([](auto& s) { s.examples = 0; });
  refuses([](auto& s) { s.test_examples = -2; });
  refuses([](auto& s) { s.noise.perpendicular = -1; });
  refuses([](auto& s) { s.noise.sum = std::numeric_limits<double>::quiet_NaN(); });
  refuses([](auto& s) { s.noise.difference = std::numeric_limits<double>::infinity(); });
}

}  // namespace
}  // namespace fluxformer::paths
