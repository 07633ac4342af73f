// Batches: an epoch contains every sample at most once, and replicas divide up the batches of a single one.

#include "training/batches.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>

#include "base/error.hpp"
#include "tests/support/small_training.hpp"

namespace fluxformer {
namespace {

using namespace test;

constexpr int count = 23, tokens = 2, features = 3;

const ListedSamples& data() {
  static const auto samples = random_samples(count, tokens, 1, features, 4, 7);
  return samples;
}

/// Every other sample, and the last.
std::vector<std::size_t> members() {
  return {0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22};
}

/// Checks that a slot holds exactly one sample of the data set and returns its index. All numbers are
/// different.
std::size_t sample_in(const Batch& batch, std::size_t slot) {
  constexpr std::size_t size = tokens * features;
  const std::vector<double> found(batch.input.begin() + static_cast<std::ptrdiff_t>(slot * size),
                                  batch.input.begin() + static_cast<std::ptrdiff_t>((slot + 1) * size));
  for (std::size_t index = 0; index < count; ++index) {
    std::vector<double> expected(size);
    data().tokens(index, expected.data());
    if (found != expected) continue;
    EXPECT_EQ(batch.length[slot], data().length(index));
    EXPECT_EQ(batch.label[slot], data().label(index));
    return index;
  }
  ADD_FAILURE() << "no such sample";
  return count;
}

/// The samples that count, with their keys in order.
std::vector<std::pair<std::size_t, long>> seen(int global, Replica replica, long step,
                                               std::uint64_t seed = 3) {
  Batches batches(data(), members(), global, replica, seed);
  const auto batch = batches.at(step);
  EXPECT_EQ(batch.label.size(), static_cast<std::size_t>(batches.capacity()));
  EXPECT_EQ(batch.input.size(), batch.label.size() * tokens * features);
  std::vector<std::pair<std::size_t, long>> all;
  for (std::size_t slot = 0; slot < batch.label.size(); ++slot) {
    const auto index = sample_in(batch, slot);  // fillers are real samples too: their loss is finite
    if (batch.weight[slot] == 0) continue;
    EXPECT_EQ(batch.weight[slot], 1.0 / global);
    all.emplace_back(index, batch.key[slot]);
  }
  return all;
}

TEST(Batches, show_every_sample_at_most_once_in_an_epoch) {
  Batches batches(data(), members(), 5, {}, 3);
  EXPECT_EQ(batches.per_epoch(), 2);
  const auto allowed = members();
  std::set<std::size_t> ever;
  for (long epoch = 0; epoch < 12; ++epoch) {
    std::set<std::size_t> once;
    for (long step = 2 * epoch; step < 2 * epoch + 2; ++step)
      for (const auto& [index, key] : seen(5, {}, step)) {
        EXPECT_TRUE(once.insert(index).second) << "twice in epoch " << epoch;
        EXPECT_NE(std::find(allowed.begin(), allowed.end(), index), allowed.end());
        ever.insert(index);
      }
    EXPECT_EQ(once.size(), 10u);
  }
  EXPECT_EQ(ever.size(), allowed.size()) << "some sample never has its turn";
}

TEST(Batches, are_the_same_for_any_number_of_replicas) {
  for (const int global : {6, 7, 12})
    for (const long step : {0, 1, 5, 40}) {
      const auto alone = seen(global, {0, 1}, step);
      EXPECT_EQ(alone.size(), static_cast<std::size_t>(global));
      for (const int replicas : {2, 3, 4, 6}) {
        std::vector<std::pair<std::size_t, long>> together;
        for (int r = 0; r < replicas; ++r)
          for (const auto& sample : seen(global, {r, replicas}, step)) together.push_back(sample);
        EXPECT_EQ(together, alone) << replicas << " replicas, batch " << global << ", step " << step;
      }
    }
}

TEST(Batches, have_keys_that_never_come_back) {
  std::set<long> keys;
  for (long step = 0; step < 20; ++step)
    for (const auto& [index, key] : seen(5, {}, step)) EXPECT_TRUE(keys.insert(key).second);
}

TEST(Batches, depend_on_seed_and_epoch_only) {
  EXPECT_NE(seen(12, {}, 0), seen(12, {}, 0, 4));
  Batches batches(data(), members(), 12, {}, 3);
  const auto first = batches.at(0).input;
  EXPECT_NE(batches.at(1).input, first);
  EXPECT_EQ(batches.at(0).input, first) << "going back is allowed";
}

TEST(Batches, fill_up_to_the_largest_share) {
  // 7 on 4 replicas: 2, 2, 2, 1.
  for (int r = 0; r < 4; ++r) {
    Batches batches(data(), members(), 7, {r, 4}, 3);
    EXPECT_EQ(batches.capacity(), 2);
    EXPECT_EQ(seen(7, {r, 4}, 1).size(), r == 3 ? 1u : 2u);
    EXPECT_EQ(batches.at(1).weight.back(), r == 3 ? 0 : 1.0 / 7);
  }
}

TEST(Batches, draw_a_new_variant_each_time_whoever_draws_it) {
  constexpr double strength = 0.1;
  Batches plain(data(), members(), 7, {}, 3), varied(data(), members(), 7, {}, 3, strength);
  const auto first = varied.at(0), original = plain.at(0);
  EXPECT_EQ(first.label, original.label);
  // Normal numbers of this deviation: 42 of them have a norm near its root 42, within a third.
  const double change = norm(plus(first.input, -1, original.input));
  EXPECT_NEAR(change, strength * std::sqrt(42), strength * std::sqrt(42) / 3);
  EXPECT_EQ(varied.at(0).input, first.input);
  // Different steps have different noise.
  const auto noise = plus(first.input, -1, original.input);
  EXPECT_GT(norm(plus(plus(varied.at(1).input, -1, plain.at(1).input), -1, noise)), change / 3);
  std::vector<double> together;
  for (int r = 0; r < 3; ++r) {
    Batches share(data(), members(), 7, {r, 3}, 3, strength);
    const auto batch = share.at(0);
    for (std::size_t slot = 0; slot < batch.label.size(); ++slot)
      for (std::size_t j = 0; j < tokens * features && batch.weight[slot] > 0; ++j)
        together.push_back(batch.input[slot * tokens * features + j]);
  }
  EXPECT_EQ(together, first.input);
}

std::string complaint(int global, Replica replica) {
  try {
    const Batches batches(data(), members(), global, replica, 1);
  } catch (const BadInput& error) {
    return error.what();
  }
  return "";
}

TEST(Batches, refuse_more_samples_than_there_are_and_fewer_than_replicas) {
  EXPECT_EQ(complaint(12, {0, 12}), "");
  EXPECT_THAT(complaint(13, {}),
              testing::AllOf(testing::HasSubstr("train.batch = 13"), testing::HasSubstr("12")));
  EXPECT_THAT(complaint(3, {0, 4}),
              testing::AllOf(testing::HasSubstr("train.batch = 3"), testing::HasSubstr("4")));
  EXPECT_THAT(complaint(0, {}), testing::HasSubstr("train.batch = 0"));
  EXPECT_THAT(complaint(-1, {}), testing::HasSubstr("train.batch = -1"));
}

TEST(Batches, add_noise_of_the_asked_deviation_that_replicas_share) {
  const auto noisy = [&](int global, Replica replica, double noise) {
    return Batches(data(), members(), global, replica, 3, 0, noise).at(0);
  };
  const auto clean = noisy(12, {0, 1}, 0), whole = noisy(12, {0, 1}, 0.5), half = noisy(12, {1, 2}, 0.5);
  double squares = 0, numbers = 0;
  for (std::size_t slot = 0; slot < 12; ++slot)
    for (std::size_t j = 0; j < tokens * features; ++j) {
      const double added =
          whole.input[slot * tokens * features + j] - clean.input[slot * tokens * features + j];
      if (j / features >= static_cast<std::size_t>(whole.length[slot])) {
        EXPECT_EQ(added, 0) << "padding";
        continue;
      }
      squares += added * added, numbers += 1;
    }
  // The mean square of N squares of normal numbers has the deviation sqrt(2 / N): five of them.
  EXPECT_NEAR(squares / numbers, 0.25, 0.25 * 5 * std::sqrt(2 / numbers));
  for (std::size_t j = 0; j < half.input.size(); ++j)
    EXPECT_EQ(half.input[j], whole.input[6 * tokens * features + j]);
  EXPECT_NE(Batches(data(), members(), 12, {0, 1}, 3, 0, 0.5).at(1).input, whole.input);
}

}  // namespace
}  // namespace fluxformer
