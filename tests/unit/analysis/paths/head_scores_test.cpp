// Scores of heads and overlaps with the labels, on matrices small enough to see the answer.

#include "analysis/paths/head_scores.hpp"

#include <gtest/gtest.h>

#include "analysis/paths/task_overlaps.hpp"
#include "tests/unit/analysis/paths/random_paths.hpp"

namespace fluxformer::paths {
namespace {

using namespace test;
using Eigen::MatrixXd;

/// The order parameters printed in section 4.2 of the specification: four paths, N = 10.
MatrixXd published() {
  MatrixXd u(4, 4);
  u << 13.36534, -.00397, -5.39702, -.33955, -.00397, .54629, -.16442, .04432, -5.39702, -.16442, 6.74519,
      .01908, -.33955, .04432, .01908, .34342;
  return u;
}

TEST(HeadScores, are_those_of_the_published_order_parameters) {
  const auto scores = head_scores(published(), {2, 2});
  const std::vector<double> wanted = {25.81, 19.02, 31.96, 2.03};  // layer 1, layer 2
  ASSERT_EQ(scores.size(), wanted.size());
  for (std::size_t k = 0; k < wanted.size(); ++k) EXPECT_NEAR(scores[k], wanted[k], 0.005);  // printed digits
}

TEST(HeadScores, count_each_pair_of_paths_through_a_head_once) {
  const std::vector<int> heads = {2, 1, 3};
  const MatrixXd u = random_covariance(6, 3);
  const auto scores = head_scores(u, heads);
  ASSERT_EQ(scores.size(), 6U);
  std::size_t place = 0;
  for (std::size_t l = 0; l < 3; ++l)
    for (int h = 0; h < heads[l]; ++h, ++place) {
      double sum = 0;
      for (int p = 0; p < 6; ++p)
        for (int q = 0; q < 6; ++q)
          if (heads_of_path(p, heads)[l] == h || heads_of_path(q, heads)[l] == h) sum += std::abs(u(p, q));
      EXPECT_NEAR(scores[place], sum, 1e-13);
    }
  EXPECT_NEAR(scores[2], u.cwiseAbs().sum(), 1e-13);  // every path goes through a layer's only head
}

TEST(HeadScores, sort_heads_from_the_least) {
  const auto rising = in_rising_order({25.81, 19.02, 31.96, 2.03}, {2, 2});
  const std::vector<std::pair<int, int>> wanted = {{1, 1}, {0, 1}, {0, 0}, {1, 0}};
  for (std::size_t k = 0; k < wanted.size(); ++k) {
    EXPECT_EQ(rising[k].layer, wanted[k].first);
    EXPECT_EQ(rising[k].head, wanted[k].second);
  }
}

TEST(HeadScores, of_a_silenced_head_are_zero) {
  const auto u = without_head(published(), {0, 1}, {2, 2});  // paths 2 and 3
  EXPECT_EQ(u.topLeftCorner(2, 2), published().topLeftCorner(2, 2));
  EXPECT_EQ(u.bottomRows(2).cwiseAbs().sum(), 0);
  EXPECT_EQ(u.rightCols(2).cwiseAbs().sum(), 0);
  EXPECT_EQ(head_scores(u, {2, 2})[1], 0);
}

TEST(TaskOverlaps, are_1_where_the_labels_are_a_component) {
  const Eigen::Vector4d y(1, -1, -1, 1), other(1, 1, -1, -1);
  const MatrixXd k = 2 * y * y.transpose() + 5 * other * other.transpose();
  const auto overlaps = task_overlaps(k, y);
  EXPECT_NEAR(overlaps[0], 0, 1e-14);  // the other one has the largest eigenvalue
  EXPECT_NEAR(overlaps[1], 1, 1e-14);
  EXPECT_NEAR(task_overlaps(random_covariance(4, 1), y).squaredNorm(), 1, 1e-14);
}

}  // namespace
}  // namespace fluxformer::paths
