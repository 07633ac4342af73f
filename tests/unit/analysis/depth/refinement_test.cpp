// Indicators of depth cells: exact sums, linear cases, and how fast the estimates become right.

#include "analysis/depth/refinement.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "analysis/depth/depth_limit.hpp"
#include "tests/unit/analysis/probe_case.hpp"

namespace fluxformer::depth {
namespace {

using test::ProbeCase;
using test::ProbeSpec;

const std::vector<Goal> all_goals{Goal::loss, Goal::logit, Goal::margin, Goal::norm};
const std::vector<long> keys{0, 1, 2};  // of 12, 9 and 6 real tokens, in batches of 4

ProbeSpec pde(int cells) {
  return {.kind = ModelKind::pde, .layers = 2, .cells = cells};
}

/// A linear equation: diffusion over tokens alone.
ProbeSpec diffusion(int cells) {
  return {.norm = Norm::none,
          .kind = ModelKind::pde,
          .kappa = 0.1,
          .alpha = 0,
          .rho = 0,
          .layers = 2,
          .cells = cells};
}

/// A field so weak that errors show their order on few cells.
ProbeSpec weak(int cells) {
  auto spec = pde(cells);
  spec.alpha = spec.rho = 0.2;
  return spec;
}

/// Indicators of all samples of `keys` on the cells of `spec`, against twice as many: [sample][goal][cell].
std::vector<double> indicators(ProbeSpec spec, Weights weights, const std::vector<Goal>& goals = all_goals) {
  ProbeCase coarse(spec, 4);
  spec.cells *= 2;
  ProbeCase fine(spec, 4);
  const Goals measured(goals);
  DepthIndicators all(coarse.probe, fine.probe, measured, weights, std::ssize(keys));
  all.show(coarse.batch(keys));
  all.reduce(MPI_COMM_SELF);
  return all.by_sample();
}

/// J of all samples of `keys`, [sample][goal].
std::vector<double> values(const ProbeSpec& spec, const std::vector<Goal>& goals = all_goals) {
  ProbeCase one(spec, 4);
  const Goals measured(goals);
  GoalValues all(one.probe, measured, std::ssize(keys));
  all.show(one.batch(keys));
  all.reduce(MPI_COMM_SELF);
  return all.by_sample();
}

/// J(u_h) - J(u_{h/2}), [sample][goal].
std::vector<double> differences(ProbeSpec spec, const std::vector<Goal>& goals = all_goals) {
  auto difference = values(spec, goals);
  spec.cells *= 2;
  const auto fine = values(spec, goals);
  for (std::size_t k = 0; k < fine.size(); ++k) difference[k] -= fine[k];
  return difference;
}

/// Sums over the cells.
std::vector<double> summed(const std::vector<double>& each, int cells) {
  std::vector<double> sums;
  for (auto at = each.begin(); at != each.end(); at += cells)
    sums.push_back(std::accumulate(at, at + cells, 0.0));
  return sums;
}

void expect_near(const std::vector<double>& found, const std::vector<double>& expected, double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t k = 0; k < found.size(); ++k) EXPECT_NEAR(found[k], expected[k], tolerance) << k;
}

double mean(const std::vector<double>& of) {
  return std::accumulate(of.begin(), of.end(), 0.0) / static_cast<double>(of.size());
}

TEST(DepthIndicators, of_the_fan_add_up_to_the_change_of_the_goal) {
  for (const int cells : {1, 3, 6})  // each term is a difference of numbers of order 1
    expect_near(summed(indicators(pde(cells), Weights::exact), cells), differences(pde(cells)), 1e-13);
}

TEST(DepthIndicators, with_mean_weights_are_exact_for_a_linear_equation_and_goals_up_to_quadratic) {
  const std::vector<Goal> goals{Goal::logit, Goal::norm};
  const auto change = differences(diffusion(3), goals);
  expect_near(summed(indicators(diffusion(3), Weights::mean, goals), 3), change, 1e-14);
  EXPECT_GT(std::abs(change[1]), 1e-5);  // there is something to be estimated
  // The march's own weights are off, by the first order in h.
  EXPECT_GT(std::abs(summed(indicators(diffusion(3), Weights::coarse, goals), 3)[1] - change[1]),
            1e-3 * std::abs(change[1]));
}

TEST(DepthIndicators, are_zero_where_there_is_no_field) {
  auto still = diffusion(4);
  still.kappa = 0;
  for (const auto weights : {Weights::coarse, Weights::mean, Weights::exact})
    for (const double eta : indicators(still, weights)) EXPECT_EQ(eta, 0);
}

TEST(DepthIndicators, become_right_with_the_length_of_the_cells) {
  // Error of the sums of the indicators over the changes of the loss, in sums over the samples: a single change may be near 0.
  const auto off = [](int cells, Weights weights) {
    const auto sums = summed(indicators(weak(cells), weights, {Goal::loss}), cells);
    const auto change = differences(weak(cells), {Goal::loss});
    double error = 0, all = 0;
    for (std::size_t k = 0; k < sums.size(); ++k) {
      error += std::abs(sums[k] - change[k]);
      all += std::abs(change[k]);
    }
    return error / all;
  };
  const double first = std::log2(off(32, Weights::coarse) / off(64, Weights::coarse)),
               second = std::log2(off(32, Weights::mean) / off(64, Weights::mean));
  EXPECT_NEAR(first, 1, 0.2);
  EXPECT_GT(second, 1.8);
  EXPECT_LT(off(32, Weights::mean), off(32, Weights::coarse));
}

TEST(GoalValues, converge_with_order_one_where_weights_are_smooth) {
  std::vector<double> course;
  for (const int cells : {32, 64, 128, 256}) course.push_back(mean(values(weak(cells), {Goal::loss})));
  EXPECT_NEAR(depth_limit(course, 1).order, 1, 0.05);
}

TEST(DepthIndicators, do_not_depend_on_the_other_samples_of_a_batch) {
  const auto together = indicators(pde(3), Weights::coarse);
  const Index of_sample = std::ssize(together) / std::ssize(keys);
  for (const long key : keys) {
    ProbeCase coarse(pde(3), 1), fine(pde(6), 1);
    const Goals goals(all_goals);
    DepthIndicators alone(coarse.probe, fine.probe, goals, Weights::coarse, 1);
    auto batch = coarse.batch({key});
    batch.key = {0};
    alone.show(batch);
    alone.reduce(MPI_COMM_SELF);
    expect_near(alone.by_sample(),
                {together.begin() + key * of_sample, together.begin() + (key + 1) * of_sample}, 1e-14);
  }
}

TEST(DepthIndicators, have_means_of_numbers_and_of_sizes) {
  ProbeCase coarse(pde(2), 4), fine(pde(4), 4);
  const Goals goals({Goal::loss});
  DepthIndicators all(coarse.probe, fine.probe, goals, Weights::coarse, std::ssize(keys));
  all.show(coarse.batch(keys));
  all.reduce(MPI_COMM_SELF);
  const auto& eta = all.by_sample();
  for (int cell = 0; cell < 2; ++cell) {
    EXPECT_NEAR(all.mean(0)[cell], (eta[cell] + eta[2 + cell] + eta[4 + cell]) / 3, 1e-16);
    EXPECT_NEAR(all.mean_size(0)[cell],
                (std::abs(eta[cell]) + std::abs(eta[2 + cell]) + std::abs(eta[4 + cell])) / 3, 1e-16);
  }
}

TEST(Goals, have_the_derivatives_of_their_values) {
  ProbeCase one(pde(2), 4);
  const auto batch = one.batch(keys);
  const Goals goals(all_goals);
  std::vector<double> u, slope, above, below;
  one.probe.embed(batch, u);
  one.probe.forward(u);
  slope.resize(u.size());
  const auto direction = test::random_vector(u.size(), 7);
  const double e = 1e-5;
  for (Index goal = 0; goal < goals.count(); ++goal) {
    goals.derivative(one.probe, batch, goal, u.data(), slope.data());
    auto up = u, down = u;
    for (std::size_t j = 0; j < u.size(); ++j) up[j] += e * direction[j], down[j] -= e * direction[j];
    goals.values(one.probe, batch, up.data(), above);
    goals.values(one.probe, batch, down.data(), below);
    double difference = 0;
    for (std::size_t b = 0; b < keys.size(); ++b)
      difference += above[b * goals.count() + goal] - below[b * goals.count() + goal];
    const double product = std::inner_product(slope.begin(), slope.end(), direction.begin(), 0.0);
    EXPECT_NEAR(difference / (2 * e), product, 1e-8 * std::abs(product) + 1e-9);  // e^2 and round-off / e
  }
}

TEST(DepthIndicators, refuse_cells_that_do_not_divide) {
  ProbeCase coarse(pde(2), 1), fine(pde(3), 1);
  const Goals goals({Goal::loss});
  EXPECT_THROW(DepthIndicators(coarse.probe, fine.probe, goals, Weights::mean, 1), std::invalid_argument);
}

}  // namespace
}  // namespace fluxformer::depth
