// Shares of examples: each example is held once, and a task makes of its share what it makes of the whole.

#include <gtest/gtest.h>

#include "analysis/paths/markov_task.hpp"
#include "analysis/paths/one_shot_task.hpp"
#include "analysis/paths/path_examples.hpp"
#include "analysis/paths/path_learner.hpp"
#include "analysis/paths/surrogate_task.hpp"
#include "base/error.hpp"

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

// Paths and their heads, and networks that have some of the heads.

constexpr int path_examples_dimension = 3;

/// Numbers that say example, path and dimension.
PathExamples numbered(int count, int paths, double first) {
  PathExamples examples;
  examples.inputs.resize(count, Eigen::Index{paths} * path_examples_dimension);
  for (int k = 0; k < count; ++k)
    for (int c = 0; c < paths * path_examples_dimension; ++c) examples.inputs(k, c) = first + 1000 * k + c;
  examples.targets = Eigen::VectorXd::LinSpaced(count, -1, 1);
  return examples;
}

PathTask numbered_task(const std::vector<int>& heads) {
  PathTask task;
  task.heads = heads;
  task.dimension = path_examples_dimension;
  const int paths = path_count(heads);
  for (int path = 0; path < paths; ++path) task.path_names.push_back(std::to_string(path));
  task.train = numbered(2, paths, 0);
  task.test = numbered(5, paths, 1e6);
  return task;
}

TEST(Paths, are_counted_with_the_last_head_fastest) {
  EXPECT_EQ(path_count({3}), 3);
  EXPECT_EQ(path_count({2, 3, 4}), 24);
  const std::vector<int> heads{2, 3, 4};
  for (int path = 0; path < 24; ++path) {
    const auto h = heads_of_path(path, heads);
    ASSERT_EQ(h.size(), 3u);
    EXPECT_EQ((h[0] * 3 + h[1]) * 4 + h[2], path);
    for (std::size_t l = 0; l < 3; ++l) {
      EXPECT_GE(h[l], 0);
      EXPECT_LT(h[l], heads[l]);
    }
  }
}

TEST(Paths, refuse_what_is_no_network_or_no_path) {
  EXPECT_THROW(path_count({}), BadInput);
  EXPECT_THROW(path_count({2, 0}), BadInput);
  EXPECT_THROW(path_count({2, -1}), BadInput);
  EXPECT_THROW(path_count(std::vector<int>(40, 2)), BadInput);
  EXPECT_THROW(heads_of_path(-1, {2, 2}), BadInput);
  EXPECT_THROW(heads_of_path(4, {2, 2}), BadInput);
}

TEST(WithHeads, picks_the_columns_of_the_paths_that_are_left) {
  const auto task = numbered_task({2, 3, 2});
  const std::vector<std::vector<int>> kept{{1}, {2, 0}, {0, 1}};
  const auto smaller = with_heads(task, kept);
  EXPECT_EQ(smaller.heads, (std::vector<int>{1, 2, 2}));
  EXPECT_EQ(smaller.dimension, path_examples_dimension);
  ASSERT_EQ(smaller.path_names.size(), 4u);
  ASSERT_EQ(smaller.train.inputs.cols(), 4 * path_examples_dimension);
  ASSERT_EQ(smaller.test.inputs.rows(), 5);
  for (int path = 0; path < 4; ++path) {
    const auto h = heads_of_path(path, smaller.heads);
    const auto of = [&](std::size_t l) { return kept[l][h[l]]; };
    const int before = (of(0) * 3 + of(1)) * 2 + of(2);
    EXPECT_EQ(smaller.path_names[path], std::to_string(before));
    const auto columns = [&](const PathExamples& examples, int which) {
      return examples.inputs.middleCols(which * path_examples_dimension, path_examples_dimension);
    };
    EXPECT_EQ(columns(smaller.train, path), columns(task.train, before));
    EXPECT_EQ(columns(smaller.test, path), columns(task.test, before));
  }
  EXPECT_EQ(smaller.train.targets, task.train.targets);
  EXPECT_EQ(smaller.test.targets, task.test.targets);
}

TEST(WithHeads, of_all_heads_changes_nothing) {
  const auto task = numbered_task({2, 3});
  const auto same = with_heads(task, {{0, 1}, {0, 1, 2}});
  EXPECT_EQ(same.heads, task.heads);
  EXPECT_EQ(same.path_names, task.path_names);
  EXPECT_EQ(same.train.inputs, task.train.inputs);
  EXPECT_EQ(same.test.inputs, task.test.inputs);
}

TEST(WithHeads, may_double_a_head) {
  const auto task = numbered_task({2});
  const auto doubled = with_heads(task, {{1, 1}});
  EXPECT_EQ(doubled.heads, task.heads);
  EXPECT_EQ(doubled.train.inputs.leftCols(path_examples_dimension),
            task.train.inputs.rightCols(path_examples_dimension));
  EXPECT_EQ(doubled.train.inputs.rightCols(path_examples_dimension),
            task.train.inputs.rightCols(path_examples_dimension));
}

TEST(WithHeads, refuses_heads_that_there_are_not) {
  const auto task = numbered_task({2, 3});
  EXPECT_THROW(with_heads(task, {{0}}), BadInput);
  EXPECT_THROW(with_heads(task, {{0}, {0}, {0}}), BadInput);
  EXPECT_THROW(with_heads(task, {{0}, {}}), BadInput);
  EXPECT_THROW(with_heads(task, {{2}, {0}}), BadInput);
  EXPECT_THROW(with_heads(task, {{0}, {-1}}), BadInput);
}

TEST(WithHeads, refuses_inputs_that_are_not_those_of_the_paths) {
  auto task = numbered_task({2, 3});
  task.heads = {2, 2};
  EXPECT_THROW(with_heads(task, {{0}, {0}}), BadInput);
  task = numbered_task({2, 3});
  task.path_names.pop_back();
  EXPECT_THROW(with_heads(task, {{0}, {0}}), BadInput);
}

}  // namespace
}  // namespace fluxformer::paths
