// How depth cells are shared by stages.

#include "training/stage_cells.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"
#include "tests/support/small_problem.hpp"

namespace fluxformer {
namespace {

std::vector<int> counts(int cells, int stages, EndWork ends = {}) {
  std::vector<int> all;
  int next = 1;
  for (const auto& range : balanced_stages(cells, stages, ends)) {
    EXPECT_EQ(range.first, next);
    next = range.last + 1;
    all.push_back(range.count());
  }
  EXPECT_EQ(next, cells + 1);
  return all;
}

TEST(StageCells, differ_by_one_and_the_first_has_fewest) {
  EXPECT_EQ(counts(6, 1), (std::vector{6}));
  EXPECT_EQ(counts(6, 3), (std::vector{2, 2, 2}));
  EXPECT_EQ(counts(7, 3), (std::vector{2, 2, 3}));
  EXPECT_EQ(counts(8, 3), (std::vector{2, 3, 3}));
  EXPECT_EQ(counts(4, 4), (std::vector{1, 1, 1, 1}));
}

TEST(StageCells, make_up_for_what_stands_at_the_ends) {
  EXPECT_EQ(counts(12, 3, {1.6, 0}), (std::vector{3, 4, 5}));
  EXPECT_EQ(counts(12, 3, {0, 3}), (std::vector{5, 5, 2}));
  EXPECT_EQ(counts(4, 2, {100, 0}), (std::vector{1, 3}));
}

TEST(StageCells, may_be_very_many) {
  EXPECT_EQ(counts(2147483646, 1), (std::vector{2147483646}));
  EXPECT_EQ(counts(2000000001, 2, {3.5, 0}), (std::vector{999999999, 1000000002}));
}

TEST(StageCells, cannot_be_shared_by_more_stages) {
  EXPECT_THROW(balanced_stages(3, 4), BadInput);
}

TEST(StageCells, count_the_work_at_the_ends_in_cells) {
  auto spec = test::small_model(4);
  spec.width = 8;
  spec.ffn = 16;
  // A cell of 10 tokens: 10 (8 64 + 4 128 + 40 8) = 13440.
  const auto numbers = end_work(spec, {.features = 5, .tokens = 10, .classes = 3}, 0);
  EXPECT_DOUBLE_EQ(numbers.first, 2.0 * 8 * 5 * 10 / 13440);
  EXPECT_DOUBLE_EQ(numbers.last, 2.0 * 8 * 3 / 13440);
  const auto words = end_work(spec, {.vocabulary = 1000, .tokens = 10, .word_head = true}, 0.2);
  EXPECT_EQ(words.first, 0);
  EXPECT_DOUBLE_EQ(words.last, 2.0 * 8 * 1000 * 2 / 13440);
}

}  // namespace
}  // namespace fluxformer
