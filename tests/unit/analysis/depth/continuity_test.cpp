// Measures of the course of the states, on courses that are known.

#include "analysis/depth/continuity.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/unit/analysis/probe_case.hpp"

namespace fluxformer::depth {
namespace {

using namespace test;
using Course = std::vector<std::vector<double>>;

TEST(Continuity, of_a_line_is_0_1_1_on_any_cells) {
  const std::vector<double> lengths{0.5, 0.25, 2, 1};
  Course line{{1, -2}};
  for (const double h : lengths) line.push_back({line.back()[0] + 3 * h, line.back()[1] - 4 * h});
  const auto found = continuity_of(line, lengths);
  EXPECT_NEAR(found.curvature, 0, 1e-14);
  EXPECT_NEAR(found.cosine, 1, 1e-14);
  EXPECT_NEAR(found.straightness, 1, 1e-14);
}

TEST(Continuity, of_equal_orthogonal_steps_is_known) {
  Course corners{std::vector<double>(5, 0.0)};
  for (std::size_t k = 0; k < 5; ++k) {
    corners.push_back(corners.back());
    corners.back()[k] = 2;
  }
  const auto found = continuity_of(corners, std::vector<double>(5, 1.0));
  EXPECT_NEAR(found.curvature, 1 / std::sqrt(2), 1e-14);
  EXPECT_NEAR(found.cosine, 0, 1e-14);
  EXPECT_NEAR(found.straightness, 1 / std::sqrt(5), 1e-14);
}

TEST(Continuity, of_steps_back_and_forth_is_1_minus_1_and_0) {
  const auto found = continuity_of(Course{{0}, {1}, {0}, {1}, {0}}, std::vector<double>(4, 0.5));
  EXPECT_NEAR(found.curvature, 1, 1e-14);
  EXPECT_NEAR(found.cosine, -1, 1e-14);
  EXPECT_NEAR(found.straightness, 0, 1e-14);
}

TEST(Continuity, of_states_that_rest_has_no_direction) {
  const auto rest = continuity_of(Course{{1, 2}, {1, 2}, {1, 2}}, std::vector<double>(2, 1.0));
  EXPECT_EQ(rest.curvature, 0);
  EXPECT_EQ(rest.cosine, 0);
  EXPECT_EQ(rest.straightness, 1);
  const auto single = continuity_of(Course{{1}, {2}}, std::vector<double>(1, 1.0));
  EXPECT_TRUE(std::isnan(single.curvature));
  EXPECT_TRUE(std::isnan(single.cosine));
  EXPECT_EQ(single.straightness, 1);
}

TEST(StateContinuity, is_the_weighted_mean_over_samples_without_padding) {
  ProbeCase one({.kind = ModelKind::pde, .layers = 2, .cells = 4}, 3);
  auto batch = one.batch({0, 1});
  batch.weight[0] = 0.25;
  batch.weight[1] = 0.75;
  StateContinuity measured(one.probe);
  measured.show(batch);
  measured.reduce(MPI_COMM_SELF);
  std::vector<double> u;
  std::vector<Course> courses(2);
  one.probe.embed(batch, u);
  const auto width = static_cast<std::size_t>(one.probe.spec().width);
  one.probe.forward(u, Keep::nothing, [&](int, const double* row) {
    for (std::size_t b = 0; b < 2; ++b) {
      auto& state = courses[b].emplace_back();
      for (int token = 0; token < batch.length[b]; ++token)
        for (std::size_t c = 0; c < width; ++c)
          state.push_back(row[(static_cast<std::size_t>(token) * 3 + b) * width + c]);
    }
  });
  const std::vector<double> lengths(4, 0.5);
  const auto first = continuity_of(courses[0], lengths), second = continuity_of(courses[1], lengths);
  EXPECT_NEAR(measured.mean().curvature, 0.25 * first.curvature + 0.75 * second.curvature, 1e-14);
  EXPECT_NEAR(measured.mean().cosine, 0.25 * first.cosine + 0.75 * second.cosine, 1e-14);
  EXPECT_NEAR(measured.mean().straightness, 0.25 * first.straightness + 0.75 * second.straightness, 1e-14);
  EXPECT_GT(std::abs(first.straightness - second.straightness), 1e-6);
}

}  // namespace
}  // namespace fluxformer::depth
