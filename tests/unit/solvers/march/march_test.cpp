// March: what it refuses, and the orders of its methods for the PDE model.

#include <gtest/gtest.h>

#include <string>

#include "base/error.hpp"
#include "tests/support/orders.hpp"
#include "tests/support/small_problem.hpp"
#include "tests/support/test_vectors.hpp"

namespace fluxformer {
namespace {

using namespace test;

ProblemSpec pde(int cells) {
  ProblemSpec spec;
  spec.model = small_model(2);
  spec.model.variation = DepthVariation::linear;
  spec.mesh = {.cells = cells, .tokens_x = 3, .tokens_y = 2, .samples = 1};
  spec.scheme = DepthScheme::upwind;
  spec.speed = 1.5;
  spec.kappa = 0.1;
  return spec;
}

MarchSettings method(const std::string& name, const std::string& variant = "") {
  MarchSettings settings;
  settings.method = name;
  settings.variant = variant;
  return settings;
}

Whole outflow(int cells, const MarchSettings& settings) {
  const Problem problem(MPI_COMM_WORLD, pde(cells));
  const auto rows = march_rows(problem, random_vector(problem.whole_slab(), 5), settings);
  EXPECT_EQ(rows.size(), problem.whole_size());
  return Whole(rows.end() - static_cast<std::ptrdiff_t>(problem.whole_slab()), rows.end());
}

TEST(March, methods_reach_their_orders) {
  // The kink at the knot s = 1 lies on a row, so that no method steps across it.
  const auto exact = outflow(512, method("rk", "4"));
  for (const auto& [settings, nominal] : {std::pair{method("euler"), 1},
                                          {method("rk", "2a"), 2},
                                          {method("rk", "3bs"), 3},
                                          {method("beuler"), 1},
                                          {method("cn"), 2}}) {
    std::vector<double> errors;
    for (const int cells : {32, 64, 128}) errors.push_back(rms_difference(outflow(cells, settings), exact));
    EXPECT_NEAR(observed_order(errors), nominal, 0.1)
        << settings.method << settings.variant << ' ' << listed(errors);
  }
}

TEST(March, can_be_run_again_from_another_inflow) {
  const Problem problem(MPI_COMM_WORLD, pde(8));
  for (const auto& settings : {method("euler"), method("rk"), method("beuler"), method("bdf2")}) {
    March march(*problem.model, problem.depth, 1.5, settings);
    const auto run = [&](unsigned seed) {
      Whole rows;
      march.run(random_vector(problem.whole_slab(), seed).data(), [&](int cell, const double* slab) {
        EXPECT_EQ(rows.size(), static_cast<std::size_t>(cell - 1) * problem.whole_slab());
        rows.insert(rows.end(), slab, slab + problem.whole_slab());
      });
      return rows;
    };
    const auto first = run(5);
    EXPECT_NE(first, run(6));
    EXPECT_EQ(first, run(5)) << settings.method;
  }
}

std::string refusal_of(const Problem& problem, const DepthCells& depth, double speed,
                       const std::string& name) {
  try {
    const March march(*problem.model, depth, speed, method(name));
  } catch (const BadInput& refused) {
    return refused.what();
  }
  return "";
}

TEST(March, refuses_what_is_not_defined) {
  const Problem problem(MPI_COMM_WORLD, pde(8));
  EXPECT_NE(refusal_of(problem, {2, 8}, 0, "euler").find("equation.c"), std::string::npos);
  auto layers = pde(8);
  layers.model.variation = DepthVariation::constant;
  const Problem transformer(MPI_COMM_WORLD, layers);
  EXPECT_NE(refusal_of(transformer, {2, 7}, 1, "euler").find("mesh.cells = 7"), std::string::npos);
  auto post = pde(2);
  post.scheme = DepthScheme::shift;
  post.speed = 1;
  post.model.norm = Norm::post;
  post.model.attention.layer_norm = false;
  const Problem normalised(MPI_COMM_WORLD, post);
  EXPECT_NE(refusal_of(normalised, {2, 2}, 1, "rk").find("depth.norm"), std::string::npos);
  EXPECT_EQ(refusal_of(normalised, {2, 2}, 1, "euler"), "");
  const std::vector<double> edges{0, 0.5, 2};
  EXPECT_NE(refusal_of(normalised, {2, 2, edges}, 1, "euler").find("depth.norm"), std::string::npos);
  EXPECT_NE(refusal_of(transformer, {2, 2, edges}, 1, "euler").find("lack 1"), std::string::npos);
  EXPECT_NE(refusal_of(problem, {2, 2, edges}, 1, "bdf2").find("mesh.edges"), std::string::npos);
}

TEST(March, a_state_that_is_not_finite_is_a_numerical_failure_that_names_the_cell) {
  auto spec = pde(8);
  const Problem problem(MPI_COMM_WORLD, spec);
  for (const auto& settings : {method("euler"), method("rk")}) {
    March march(*problem.model, problem.depth, 1.5, settings);
    auto inflow = random_vector(problem.whole_slab(), 5);
    inflow[3] = INFINITY;
    try {
      march.run(inflow.data(), [](int, const double*) {});
      ADD_FAILURE() << "went on with infinity";
    } catch (const NumericalFailure& failure) {
      EXPECT_NE(std::string(failure.what()).find("cell 1"), std::string::npos) << failure.what();
    }
  }
}

}  // namespace
}  // namespace fluxformer
