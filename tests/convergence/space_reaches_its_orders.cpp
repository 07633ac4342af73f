// T4, space: manufactured steady states of the whole equation, attention and reaction included, on non-square
// meshes refined along one axis at a time. Within 0.1 of the nominal order on the finest pair.

#include <gtest/gtest.h>

#include <string>

#include "tests/support/manufactured.hpp"
#include "tests/support/orders.hpp"
#include "tests/support/reached.hpp"
#include "tests/support/small_problem.hpp"

namespace fluxformer {
namespace {

using namespace test;

ProblemSpec pde(DepthScheme scheme, int cells, int tokens_x, int tokens_y) {
  ProblemSpec spec;
  spec.model = small_model(2);
  spec.model.width = 4;
  spec.model.ffn = 5;
  spec.model.variation = DepthVariation::linear;
  spec.mesh = {.cells = cells, .tokens_x = tokens_x, .tokens_y = tokens_y, .samples = 2};
  spec.scheme = scheme;
  spec.weight_scale = 0.4;  // contractive: a steady state exists and is reached quickly
  return spec;
}

/// Root mean square error of the steady state found by evolve.
double error(const ProblemSpec& spec, const ManufacturedWaves& waves, EvolveSettings settings) {
  Problem problem(MPI_COMM_WORLD, spec);
  const Manufactured exact(*problem.model, problem.equation->spec(), waves);
  problem.equation->add(std::make_unique<SourceTerm>(exact, problem.context.size(), 1, spec.mesh.cells));
  Whole slab(problem.context.size()), solution;
  for (int i = 1; i <= spec.mesh.cells; ++i) {
    exact.solution(problem.depth.depth(i), slab.data());
    solution.insert(solution.end(), slab.begin(), slab.end());
  }
  settings.steady_tolerance = 1e-9;
  settings.time = 100;
  Evolve solver(problem.mesh, *problem.equation, settings);
  solver.set_inflow([&](long, double* inflow) { exact.solution(0, inflow); });
  problem.scatter(solution, solver.state());
  EXPECT_EQ(solver.run([](const Step&) { return true; }), EvolveEnd::steady);
  return rms_difference(problem.gather(solver.state()), solution);
}

void expect_order(const std::string& what, const std::vector<double>& errors, double nominal) {
  EXPECT_NEAR(reached("order of " + what, observed_order(errors)), nominal, 0.1) << listed(errors);
}

EvolveSettings steps(const std::string& method, double cfl) {
  EvolveSettings settings;
  settings.method = method;
  settings.cfl = cfl;
  return settings;
}

TEST(SpaceReachesItsOrders, upwind_is_first_order_in_depth) {
  std::vector<double> errors;
  for (const int cells : {32, 64, 128})
    errors.push_back(error(pde(DepthScheme::upwind, cells, 3, 2), {.omega = 1.2, .waves_x = 1, .waves_y = 1},
                           steps("ssp", 2)));
  expect_order("upwind in depth", errors, 1);
}

TEST(SpaceReachesItsOrders, upwind2_is_second_order_in_depth_though_its_first_cell_is_not) {
  std::vector<double> errors;
  for (const int cells : {16, 32, 64})
    errors.push_back(error(pde(DepthScheme::upwind2, cells, 3, 2), {.omega = 1.2, .waves_x = 1, .waves_y = 1},
                           steps("ssp", 1.5)));
  expect_order("upwind2 in depth", errors, 2);
}

TEST(SpaceReachesItsOrders, depth_diffusion_is_second_order_up_to_its_reflecting_outflow) {
  std::vector<double> errors;
  for (const int cells : {8, 16, 32}) {
    auto spec = pde(DepthScheme::upwind2, cells, 3, 2);
    spec.epsilon = 0.7;
    spec.speed = 0.3;
    errors.push_back(error(spec, {.omega = 1.2, .waves_x = 1, .waves_y = 1}, steps("arkimex", 0.5)));
  }
  expect_order("depth diffusion", errors, 2);
}

/// The domain keeps its size while the lattice is refined: kappa in spacings squared grows as n^2.
std::vector<double> token_errors(bool along_x) {
  std::vector<double> errors;
  for (const int n : {6, 12, 24}) {
    auto spec = pde(DepthScheme::upwind, 2, along_x ? n : 3, along_x ? 3 : n);
    spec.kappa = 0.05 * n * n;
    // Constant in depth: transport has no error.
    errors.push_back(error(spec, {.omega = 0, .waves_x = along_x ? 2 : 0, .waves_y = along_x ? 0 : 2},
                           steps("arkimex", 0.5)));
  }
  return errors;
}

TEST(SpaceReachesItsOrders, token_diffusion_is_second_order_along_x) {
  expect_order("token diffusion along x", token_errors(true), 2);
}

TEST(SpaceReachesItsOrders, token_diffusion_is_second_order_along_y) {
  expect_order("token diffusion along y", token_errors(false), 2);
}

}  // namespace
}  // namespace fluxformer
