// T3: the steady state of evolve is the solution of march: forward Euler in depth for `shift`, backward Euler
// for `upwind`, BDF2 for `upwind2`.

#include <gtest/gtest.h>

#include <string>

#include "tests/support/every_rank.hpp"
#include "tests/support/lattices.hpp"
#include "tests/support/reached.hpp"
#include "tests/support/small_problem.hpp"
#include "tests/support/test_vectors.hpp"

namespace fluxformer::one_steady_state {
namespace {

using namespace test;

/// The PDE model on eight cells of half a layer with three knots, so that parameters at the wrong end of a
/// cell would be noticed.
ProblemSpec pde(DepthScheme scheme) {
  ProblemSpec spec;
  spec.model = small_model(4);
  spec.model.knots = 3;
  spec.model.variation = DepthVariation::linear;
  spec.mesh = small_mesh(8);
  spec.scheme = scheme;
  spec.speed = 1.3;
  spec.kappa = 0.2;
  // h max Re lambda(dF/du) / c < 1/2 (docs/model.md T3), with the small states that LayerNorm divides by in
  // mind
  spec.weight_scale = 0.4;
  return spec;
}

void expect_one_steady_state(ProblemSpec spec, const std::string& method, const std::string& march_method) {
  const auto splits = every_split(MPI_COMM_WORLD, spec.mesh);
  spec.mesh = splits[splits.size() / 2];
  Problem problem(MPI_COMM_WORLD, spec);
  const auto inflow = random_vector(problem.whole_slab(), 5);
  EvolveSettings settings;
  settings.method = method;
  settings.time = 400;
  settings.cfl = 1;
  if (spec.scheme == DepthScheme::upwind2) settings.cfl = 0.6;
  settings.steady_tolerance = 1e-12;
  Evolve solver(problem.mesh, *problem.equation, settings);
  solver.set_inflow(problem.inflow(inflow));
  const auto end = solver.run([](const Step&) { return true; });
  EXPECT_EQ(end, EvolveEnd::steady);
  EXPECT_LT(solver.clock().time, 200);
  MarchSettings march;
  march.method = march_method;
  const auto expected = march_rows(problem, inflow, march);
  // The rate at the steady state is 1e-12 of the state, and the slowest modes decay at rates around 1,
  // through eight cells.
  EXPECT_LT(reached(method + " against march by " + march_method,
                    largest_row_difference(problem.gather(solver.state()), expected, problem.whole_slab())),
            1e-9);
}

TEST(OneSteadyState, shift_rests_where_forward_euler_marches) {
  expect_one_steady_state(pde(DepthScheme::shift), "ssp", "euler");
}

TEST(OneSteadyState, shift_on_unequal_cells_rests_where_forward_euler_marches) {
  auto spec = pde(DepthScheme::shift);
  spec.edges = {0, 0.25, 0.75, 1.5, 2, 2.25, 2.5, 3.25, 4};
  expect_one_steady_state(spec, "ssp", "euler");
}

TEST(OneSteadyState, upwind_rests_where_backward_euler_marches) {
  expect_one_steady_state(pde(DepthScheme::upwind), "rk", "beuler");
}

TEST(OneSteadyState, second_order_upwind_rests_where_bdf2_marches) {
  expect_one_steady_state(pde(DepthScheme::upwind2), "rk", "bdf2");
}

TEST(OneSteadyState, constant_weights_use_the_layer_of_the_cell) {
  auto spec = pde(DepthScheme::upwind);
  spec.model.knots = 4;
  spec.model.variation = DepthVariation::constant;
  expect_one_steady_state(spec, "arkimex", "beuler");
}

TEST(OneSteadyState, shift_with_a_transformer_rests_at_its_forward_pass) {
  ProblemSpec spec;
  spec.model = small_model(6);
  spec.model.norm = Norm::post;
  spec.model.attention.layer_norm = false;
  spec.mesh = small_mesh(6);
  expect_one_steady_state(spec, "euler", "euler");
}

}  // namespace
}  // namespace fluxformer::one_steady_state
