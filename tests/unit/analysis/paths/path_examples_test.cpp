// Paths and their heads, and networks that have some of the heads.

#include "analysis/paths/path_examples.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"

namespace fluxformer::paths {
namespace {

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
    const auto of = [&](std::size_t l) { return kept[l][static_cast<std::size_t>(h[l])]; };
    const int before = (of(0) * 3 + of(1)) * 2 + of(2);
    EXPECT_EQ(smaller.path_names[static_cast<std::size_t>(path)], std::to_string(before));
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
