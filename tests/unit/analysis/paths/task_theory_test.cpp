// The theory on the published draws of the Markov task: docs/model.md, section 11.10. Numbers are held to
// their printed digits, accuracies to 0.1 points.

#include <gtest/gtest.h>

#include <cmath>

#include "analysis/paths/head_pruning.hpp"
#include "analysis/paths/markov_task.hpp"
#include "analysis/paths/path_kernels.hpp"
#include "analysis/paths/task_theory.hpp"

namespace fluxformer::paths {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr double published_theory_temperature = 0.01;

struct Published {
  PathTask task;
  TaskTheory theory{task};

  explicit Published(MarkovVariant variant) : task(markov_task(published_markov(variant))) {}
  SaddlePoint at(double width) const {
    return theory.solve(network_of_width(task.heads, width), published_theory_temperature);
  }
  /// In per cent.
  double accuracy(const MatrixXd& u) const {
    return 100 * theory.evaluate(u, published_theory_temperature).accuracy;
  }
  double accuracy(double width) const { return accuracy(at(width).order.u[0]); }
  double gaussian_process() const {
    const int paths = path_count(task.heads);
    return accuracy(MatrixXd::Identity(paths, paths));
  }
  VectorXd overlaps(const MatrixXd& u) const {
    return task_overlaps(theory.kernels().kernel(u), task.train.targets);
  }
};

const Published& four_paths() {
  static const Published one(MarkovVariant::four_paths);
  return one;
}

const Published& two_paths() {
  static const Published one(MarkovVariant::two_paths);
  return one;
}

/// Accuracy of the Gaussian process of a network with some of the heads.
double accuracy_of_heads(const PathTask& task, const std::vector<std::vector<int>>& kept) {
  const auto part = with_heads(task, kept);
  const int paths = path_count(part.heads);
  return 100 *
         TaskTheory(part).evaluate(MatrixXd::Identity(paths, paths), published_theory_temperature).accuracy;
}

constexpr double printed = 0.0501;  // accuracies have one decimal

TEST(PublishedTheory, has_the_accuracies_of_four_paths) {
  EXPECT_NEAR(four_paths().gaussian_process(), 82.6, printed);
  const std::vector<std::pair<double, double>> wanted = {{10, 96.4},   {30, 96.1},  {50, 94.5},
                                                         {100, 91.1},  {300, 85.5}, {500, 84.0},
                                                         {1000, 83.4}, {1e4, 82.7}, {1e6, 82.6}};
  for (const auto& [width, accuracy] : wanted)
    EXPECT_NEAR(four_paths().accuracy(width), accuracy, printed) << width;
}

TEST(PublishedTheory, has_the_accuracies_of_two_paths) {
  EXPECT_NEAR(two_paths().gaussian_process(), 84.3, printed);
  const std::vector<std::pair<double, double>> wanted = {{10, 95.7},   {30, 95.5},  {50, 95.4},
                                                         {100, 92.5},  {300, 88.1}, {500, 86.2},
                                                         {1000, 85.7}, {1e4, 84.3}, {1e6, 84.3}};
  for (const auto& [width, accuracy] : wanted)
    EXPECT_NEAR(two_paths().accuracy(width), accuracy, printed) << width;
}

TEST(PublishedTheory, has_the_accuracies_of_parts_of_the_network) {
  const auto& four = four_paths().task;
  EXPECT_NEAR(accuracy_of_heads(four, {{0}, {0}}), 94.0, printed);
  EXPECT_NEAR(accuracy_of_heads(four, {{0}, {1}}), 56.6, printed);
  EXPECT_NEAR(accuracy_of_heads(four, {{1}, {0}}), 50.1, printed);
  EXPECT_NEAR(accuracy_of_heads(four, {{1}, {1}}), 50.8, printed);
  EXPECT_NEAR(accuracy_of_heads(four, {{0, 1}, {0}}), 95.5, printed);
  EXPECT_NEAR(accuracy_of_heads(two_paths().task, {{0}, {0}}), 56.5, printed);
  EXPECT_NEAR(accuracy_of_heads(two_paths().task, {{0, 1}, {0}}), 84.3, printed);
}

TEST(PublishedTheory, has_the_order_parameters_of_narrow_networks) {
  const auto ten = four_paths().at(10), hundred = four_paths().at(100), thousand = four_paths().at(1000);
  MatrixXd narrow(4, 4), wider(4, 4);
  narrow << 13.36534, -.00397, -5.39702, -.33955, -.00397, .54629, -.16442, .04432, -5.39702, -.16442,
      6.74519, .01908, -.33955, .04432, .01908, .34342;
  wider << 2.90515, .08520, -.48519, .00599, .08520, 1.30331, -.08101, .02070, -.48519, -.08101, 2.56427,
      -.02745, .00599, .02070, -.02745, 1.32612;
  constexpr double five = 5.001e-6, eight = 5.001e-9;  // half of the last digit that is printed
  EXPECT_LT((ten.order.u[0] - narrow).cwiseAbs().maxCoeff(), five);
  EXPECT_LT((hundred.order.u[0] - wider).cwiseAbs().maxCoeff(), five);
  EXPECT_LT((thousand.order.u[0].diagonal() - Eigen::Vector4d(1.26738, 1.17566, 1.25333, 1.20771))
                .cwiseAbs()
                .maxCoeff(),
            five);
  EXPECT_NEAR(ten.order.u[1](0, 0), 5.44649, five);
  EXPECT_NEAR(ten.order.u[1](0, 1), .00376, five);
  EXPECT_NEAR(ten.order.u[1](1, 1), .66868, five);
  EXPECT_NEAR(hundred.order.u[1](0, 0), 2.18072, five);
  EXPECT_NEAR(hundred.order.u[1](0, 1), .01676, five);
  EXPECT_NEAR(hundred.order.u[1](1, 1), 1.35660, five);
  EXPECT_NEAR(ten.order.readout, 2.02292916, eight);
  EXPECT_NEAR(hundred.order.readout, 1.44610293, eight);
  EXPECT_NEAR(thousand.order.readout, 1.12149616, eight);
}

TEST(PublishedTheory, has_the_actions_of_the_published_draws) {
  constexpr double eight = 5.001e-9, ten = 5.001e-11;
  const std::vector<std::array<double, 3>> wanted = {
      {10, 84.20371150, -12.62252973}, {100, 785.26417777, 58.03840467}, {1000, 7133.42954289, 119.28804356}};
  for (const auto& [width, action, energy] : wanted) {
    const auto found = four_paths().at(width);
    EXPECT_NEAR(found.action, action, eight) << width;
    EXPECT_NEAR(found.energy, energy, eight) << width;
  }
  const auto& theory = four_paths().theory;
  EXPECT_NEAR(kernel_energy(theory.kernels().kernel(MatrixXd::Identity(4, 4)),
                            four_paths().task.train.targets, published_theory_temperature)
                  .value,
              152.9735782226, ten);
}

TEST(PublishedTheory, has_the_virials_of_the_published_draws) {
  const auto expect = [](const Published& one, double width, double wanted) {
    const auto network = network_of_width(one.task.heads, width);
    for (const double z : one.theory.virials_at(network, published_theory_temperature, one.at(width).order))
      EXPECT_NEAR(z, wanted, 5.001e-7) << width;  // printed digits
  };
  expect(four_paths(), 10, 10.229292);
  expect(four_paths(), 100, 44.610293);
  expect(four_paths(), 1000, 121.496165);
  expect(two_paths(), 10, 3.388266);
  expect(two_paths(), 100, 13.862744);
  expect(two_paths(), 1000, 41.805961);
}

TEST(PublishedTheory, moves_the_labels_into_the_leading_components) {
  const auto expect = [](const VectorXd& overlaps, double largest, int rank) {
    Eigen::Index place = 0;
    EXPECT_NEAR(overlaps.maxCoeff(&place), largest, 5.01e-4);  // printed digits
    EXPECT_EQ(place + 1, rank);
  };
  const auto& four = four_paths();
  const auto& two = two_paths();
  const VectorXd at_rest = four.overlaps(MatrixXd::Identity(4, 4));
  expect(at_rest, .361, 4);
  const std::vector<double> first = {.100, .018, .159, .361, .298};
  for (int k = 0; k < 5; ++k) EXPECT_NEAR(at_rest[k], first[k], 5.01e-4);
  expect(four.overlaps(four.at(10).order.u[0]), .845, 3);
  expect(four.overlaps(four.at(100).order.u[0]), .491, 7);
  expect(two.overlaps(MatrixXd::Identity(2, 2)), .367, 5);
  expect(two.overlaps(two.at(10).order.u[0]), .902, 2);
  expect(two.overlaps(two.at(100).order.u[0]), .774, 3);
}

TEST(PublishedTheory, needs_the_head_of_random_weights_in_the_last_layer_least) {
  const auto u = four_paths().at(10).order.u[0];
  const std::vector<double> wanted = {25.81, 19.02, 31.96, 2.03};
  const auto scores = head_scores(u, {2, 2});
  for (std::size_t k = 0; k < wanted.size(); ++k)
    EXPECT_NEAR(scores[k], wanted[k], 0.00501);  // printed digits
  const auto left = four_paths().theory.ablated_accuracies(u, published_theory_temperature);
  EXPECT_NEAR(100 * left[0], four_paths().accuracy(u), 1);
  EXPECT_TRUE(std::isnan(left[2]));  // the second of layer 1: none is left there
}

TEST(PublishedTheory, departs_from_the_gaussian_process_as_printed) {
  const auto& theory = four_paths().theory;
  const MatrixXd one = MatrixXd::Identity(4, 4);
  const auto energy = kernel_energy_and_slope(theory.kernels().kernel(one), four_paths().task.train.targets,
                                              published_theory_temperature);
  const MatrixXd g = theory.kernels().contract(energy.slope);
  // N, |U - I|, and what the first order in 1/N leaves of it
  const std::vector<std::array<double, 3>> wanted = {
      {1e4, 5.795e-2, 2.07e-3}, {1e5, 5.975e-3, 2.18e-5}, {1e6, 5.994e-4, 2.19e-7}};
  for (const auto& [width, distance, left] : wanted) {
    const MatrixXd u = four_paths().at(width).order.u[0];
    MatrixXd first = one - (g + g.trace() * one) / width;
    const MatrixXd traced = partial_trace(g, 2) / width;
    first.topLeftCorner(2, 2) -= traced;
    first.bottomRightCorner(2, 2) -= traced;
    EXPECT_NEAR((u - one).norm(), distance, 5.01e-4 * distance) << width;  // four and three printed digits
    EXPECT_NEAR((u - first).norm(), left, 5.01e-3 * left) << width;
  }
}

TEST(PublishedTheory, of_one_path_without_noise_is_the_root_of_a_polynomial) {
  const auto good = with_heads(four_paths().task, {{0}, {0}});
  const TaskTheory theory(good);
  const std::vector<std::pair<double, double>> wanted = {
      {10, 32.0024696}, {100, 15.5950309}, {1000, 4.8879868}};
  for (const auto& [width, u] : wanted)
    // The printed digits; a temperature of 1e-10 would shift U by up to 3.5e-9 of it.
    EXPECT_NEAR(theory.solve(network_of_width({1, 1}, width), 1e-12).order.u[0](0, 0), u, 5.01e-8);
}

}  // namespace
}  // namespace fluxformer::paths
