// Shares of examples: each example is held once, and a task makes of its share what it makes of the whole.

#include "analysis/paths/example_share.hpp"

#include <gtest/gtest.h>

#include "analysis/paths/learner_weights.hpp"
#include "analysis/paths/markov_task.hpp"
#include "analysis/paths/one_shot_examples.hpp"
#include "analysis/paths/one_shot_images.hpp"
#include "analysis/paths/one_shot_task.hpp"
#include "analysis/paths/surrogate_task.hpp"

namespace fluxformer::paths {
namespace {

TEST(ExampleShare, holds_each_example_once) {
  for (const int ranks : {1, 2, 3, 5})
    for (const int block : {1, 3, 64})
      for (const int all : {1, 2, 37, 64, 200}) {
        std::vector<int> holders(static_cast<std::size_t>(all));
        for (int rank = 0; rank < ranks; ++rank) {
          const ExampleShare share{rank, ranks, block};
          const auto held = share.examples(all);
          ASSERT_EQ(static_cast<int>(held.size()), share.count(all));
          for (std::size_t row = 0; row < held.size(); ++row) {
            EXPECT_TRUE(share.holds(held[row]));
            EXPECT_EQ(share.count(held[row]), static_cast<int>(row));
            ++holders.at(static_cast<std::size_t>(held[row]));
          }
        }
        EXPECT_EQ(holders, std::vector<int>(static_cast<std::size_t>(all), 1));
      }
}

TEST(ExampleShare, gives_every_rank_something_where_there_is_enough) {
  // What `share_of` chooses on one rank, and its rule.
  EXPECT_EQ(share_of(MPI_COMM_SELF, 4000).count(4000), 4000);
  EXPECT_EQ(share_of(MPI_COMM_SELF, 5).block, 5);
  EXPECT_EQ(share_of(MPI_COMM_SELF, 4000).block, 64);
}

/// make(share): a task. The rows of its training and test inputs must be those of the whole task, bit by bit.
template <class Make>
void expect_rows_of_the_whole(Make&& make) {
  const PathTask whole = make(ExampleShare{});
  for (int rank = 0; rank < 3; ++rank) {
    const ExampleShare share{rank, 3, 4};
    const PathTask part = make(share);
    EXPECT_EQ(part.share.rank, rank);
    const auto compare = [&](const PathExamples& some, const PathExamples& all) {
      EXPECT_EQ(some.targets, all.targets);
      const auto held = share.examples(static_cast<int>(all.targets.size()));
      ASSERT_EQ(some.inputs.rows(), static_cast<Eigen::Index>(held.size()));
      for (std::size_t row = 0; row < held.size(); ++row)
        EXPECT_EQ(some.inputs.row(static_cast<Eigen::Index>(row)), all.inputs.row(held[row])) << held[row];
    };
    compare(part.train, whole.train);
    compare(part.test, whole.test);
    ASSERT_EQ(part.further.size(), whole.further.size());
    for (std::size_t k = 0; k < whole.further.size(); ++k)
      compare(part.further[k].examples, whole.further[k].examples);
  }
}

TEST(ExampleShare, of_markov_chains_is_part_of_the_whole) {
  expect_rows_of_the_whole([](const ExampleShare& share) {
    auto settings = published_markov(MarkovVariant::two_paths);
    settings.examples = 22;
    settings.test_examples = 10;
    settings.share = share;
    return markov_task(settings);
  });
}

TEST(ExampleShare, of_surrogate_examples_is_part_of_the_whole) {
  for (const int features : {16, 3})  // 5 x 3 x 4 numbers of an example are no multiple of 16
    expect_rows_of_the_whole([&](const ExampleShare& share) {
      SurrogateSettings settings;
      settings.features = features;
      settings.heads = 2;
      settings.examples = 21;
      settings.test_examples = 9;
      settings.share = share;
      return surrogate_task(settings);
    });
}

TEST(ExampleShare, of_one_shot_images_is_part_of_the_whole) {
  const auto pools = one_shot_pools("digits", "digits", "", 3);
  const LearnerWeights weights({.dimension = one_shot_dimension,
                                .tokens = one_shot_tokens,
                                .width = 1,
                                .layers = 2,
                                .heads = 2,
                                .key = 4});
  const auto attention = weights.attention(weights.initial(1));
  expect_rows_of_the_whole([&](const ExampleShare& share) {
    return one_shot_task(pools, attention, {.examples = 14, .test_examples = 6, .seed = 5, .share = share});
  });
}

}  // namespace
}  // namespace fluxformer::paths
