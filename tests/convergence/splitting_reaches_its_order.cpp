// T13: layers as splitting schemes for c du/ds = F_s(u). Lie-Trotter (sequential) and parallel layers with
// Euler sub-steps are first order; with second-order sub-flows the macaron layer is Strang's, second order.

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "tests/support/orders.hpp"
#include "tests/support/reached.hpp"
#include "tests/support/small_problem.hpp"
#include "tests/support/test_vectors.hpp"

namespace fluxformer {
namespace {

using namespace test;

constexpr int layers = 2;
constexpr double speed = 1.3;

ProblemSpec pde(SubLayerOrder order, SubLayerIntegrator subflow, int cells) {
  ProblemSpec spec;
  spec.model = small_model(layers);
  spec.model.variation = DepthVariation::linear;
  spec.model.knots = 1;  // the same parameters everywhere, so that only the splitting is measured
  spec.model.order = order;
  spec.model.subflow = subflow;
  spec.mesh = {.cells = cells, .tokens_x = 3, .tokens_y = 2, .samples = 1};
  spec.speed = speed;
  spec.kappa = 0.2;
  return spec;
}

Whole end_of_march(const Problem& problem, const MarchSettings& settings = {}) {
  const auto rows = march_rows(problem, random_vector(problem.whole_slab(), 5), settings);
  return Whole(rows.end() - static_cast<std::ptrdiff_t>(problem.whole_slab()), rows.end());
}

double observed_order_of(SubLayerOrder order, SubLayerIntegrator subflow) {
  const Problem fine(MPI_COMM_WORLD, pde(order, subflow, 256));
  MarchSettings rk;
  rk.method = "rk";  // fourth order on F_s itself, independent of the order of sub-layers
  const auto exact = end_of_march(fine, rk);
  std::vector<double> errors;
  for (const int cells : {64, 128, 256})
    errors.push_back(
        rms_difference(end_of_march(Problem(MPI_COMM_WORLD, pde(order, subflow, cells))), exact));
  const std::string steps = subflow == SubLayerIntegrator::euler ? ", Euler" : ", midpoint";
  return reached("order of " + to_word(order) + steps, observed_order(errors));
}

TEST(Splitting, euler_sub_steps_are_first_order_in_any_order_of_sub_layers) {
  for (const auto order : {SubLayerOrder::sequential, SubLayerOrder::parallel, SubLayerOrder::macaron})
    EXPECT_NEAR(observed_order_of(order, SubLayerIntegrator::euler), 1, 0.1) << to_word(order);
}

TEST(Splitting, macaron_with_midpoint_sub_flows_is_second_order) {
  EXPECT_NEAR(observed_order_of(SubLayerOrder::macaron, SubLayerIntegrator::midpoint), 2, 0.1);
}

TEST(Splitting, sequential_stays_first_order_whatever_its_sub_flows) {
  EXPECT_NEAR(observed_order_of(SubLayerOrder::sequential, SubLayerIntegrator::midpoint), 1, 0.1);
}

TEST(Splitting, parallel_with_midpoint_does_not_split_and_is_second_order) {
  EXPECT_NEAR(observed_order_of(SubLayerOrder::parallel, SubLayerIntegrator::midpoint), 2, 0.1);
}

/// theta_R(s) = first + s (last - first) for the reaction, constant for attention: the two halves of a layer
/// that spans (s, s + h] carry theta_R(s + share h) and theta_R(s + (1 - share) h) or what `second` says.
Parameters reaction_varies(const ProblemSpec& spec, double h, double first_share, double second_share) {
  Parameters p = random_parameters(spec);
  ProblemSpec other = spec;
  other.seed = spec.seed + 1;
  const Parameters last = random_parameters(other);
  for (const char* name : {"W_1", "b_1", "W_2", "b_2"}) {
    const auto begin = p.view(std::string("layers/1/") + name);
    const std::vector<double> a(begin.begin(), begin.end());
    const auto b = last.view(std::string("layers/1/") + name);
    // Two knots a layer apart and two layers in all: theta is linear up to s = 1 and the march stops there.
    for (int knot = 1; knot <= 2; ++knot) {
      const auto group = "layers/" + std::to_string(knot) + "/";
      const auto full = p.view(group + name), half = p.view(group + "half_" + name);
      for (std::size_t j = 0; j < a.size(); ++j) {
        half[j] = a[j] + (knot - 1 + first_share * h) * (b[j] - a[j]);
        full[j] = a[j] + (knot - 1 + second_share * h) * (b[j] - a[j]);
      }
    }
  }
  for (const auto& view : p.layout.views())
    if (view.group == "layers/2" && view.name.find("W_1") == std::string::npos &&
        view.name.find("b_1") == std::string::npos && view.name.find("W_2") == std::string::npos &&
        view.name.find("b_2") == std::string::npos) {
      const auto from = p.view("layers/1/" + view.name);
      std::copy(from.begin(), from.end(), p.view(view.path()).begin());
    }
  for (const auto* norm : {"gain", "bias"})
    for (int knot = 1; knot <= 2; ++knot) {
      const auto from = p.view("layers/1/norm2_" + std::string(norm));
      std::copy(from.begin(), from.end(),
                p.view("layers/" + std::to_string(knot) + "/half_norm_" + norm).begin());
    }
  return p;
}

/// Order at s = 1 where the reaction's parameters vary and each half step has its own.
double order_with_own_halves(double first_share, double second_share, const std::string& where) {
  const auto at_one = [](int cells, const MarchSettings& settings, double first, double second) {
    auto spec = pde(SubLayerOrder::macaron, SubLayerIntegrator::midpoint, cells);
    spec.model.knots = 2;
    spec.model.own_halves = true;
    const double h = static_cast<double>(layers) / cells;
    const Problem problem(MPI_COMM_WORLD, spec, reaction_varies(spec, h, first, second));
    const auto rows = march_rows(problem, random_vector(problem.whole_slab(), 5), settings);
    const auto middle = rows.begin() + static_cast<std::ptrdiff_t>(rows.size() / 2);
    return Whole(middle - static_cast<std::ptrdiff_t>(problem.whole_slab()), middle);
  };
  MarchSettings rk;
  rk.method = "rk";
  const auto exact = at_one(256, rk, 0, 0);
  std::vector<double> errors;
  for (const int cells : {64, 128, 256})
    errors.push_back(rms_difference(at_one(cells, {}, first_share, second_share), exact));
  return reached("order of macaron, midpoint, halves at " + where, observed_order(errors));
}

// Held over its half of the step, theta_R must have the right mean over the whole step, theta_R(s + h/2) to
// second order: the ends of the step, or the middles of its halves, do; the beginnings of the halves do not.
TEST(Splitting, halves_with_parameters_of_both_ends_or_of_their_middles_are_second_order) {
  EXPECT_NEAR(order_with_own_halves(0, 1, "both ends"), 2, 0.1);
  EXPECT_NEAR(order_with_own_halves(0.25, 0.75, "their middles"), 2, 0.1);
}

TEST(Splitting, halves_with_parameters_of_their_beginnings_are_first_order) {
  EXPECT_NEAR(order_with_own_halves(0, 0.5, "their beginnings"), 1, 0.1);
}

}  // namespace
}  // namespace fluxformer
