// T4, time: on one mesh, the same equations integrated with halved steps, compared with a far more accurate
// solution.

#include <gtest/gtest.h>

#include "tests/support/orders.hpp"
#include "tests/support/reached.hpp"
#include "tests/support/small_problem.hpp"
#include "tests/support/test_vectors.hpp"

namespace fluxformer {
namespace {

using namespace test;

ProblemSpec pde(DepthScheme scheme) {
  ProblemSpec spec;
  spec.model = small_model(2);
  spec.model.variation = DepthVariation::linear;
  spec.mesh = {.cells = 4, .tokens_x = 3, .tokens_y = 2, .samples = 1};
  spec.scheme = scheme;
  spec.epsilon = 0.02;
  spec.kappa = 0.2;
  return spec;
}

constexpr double end = 1;

double observed_order_of(const ProblemSpec& spec, const std::string& method, const std::string& variant,
                         double largest_step) {
  const Problem problem(MPI_COMM_WORLD, spec);
  const auto inflow = random_vector(problem.whole_slab(), 5);
  auto start = random_vector(problem.whole_size(), 6);
  const auto run = [&](const std::string& name, const std::string& kind, double dt) {
    EvolveSettings settings;
    settings.method = name;
    settings.variant = kind;
    settings.dt = dt;
    settings.time = end;
    return evolve(problem, settings, start, inflow);
  };
  const auto exact = run("rk", "8vr", 1.0 / 256);  // eighth order: only round-off is left
  std::vector<double> errors;
  for (const double dt : {largest_step, largest_step / 2, largest_step / 4})
    errors.push_back(rms_difference(run(method, variant, dt), exact));
  // The reference must be far more accurate than the solutions it is compared with.
  EXPECT_GT(errors.back(), 100 * rms_difference(run("rk", "8vr", 1.0 / 192), exact));
  return reached("order of " + method + " " + variant + " with " + to_word(spec.scheme),
                 observed_order(errors));
}

TEST(TimeReachesItsOrders, forward_euler_is_first_order) {
  EXPECT_NEAR(observed_order_of(pde(DepthScheme::upwind), "euler", "", 1.0 / 64), 1, 0.1);
}

TEST(TimeReachesItsOrders, ssp_rks2_is_second_order) {
  EXPECT_NEAR(observed_order_of(pde(DepthScheme::upwind2), "ssp", "rks2", 1.0 / 32), 2, 0.1);
}

TEST(TimeReachesItsOrders, ssp_rks3_is_third_order) {
  EXPECT_NEAR(observed_order_of(pde(DepthScheme::upwind2), "ssp", "rks3", 1.0 / 64), 3, 0.1);
}

TEST(TimeReachesItsOrders, rk4_is_fourth_order) {
  EXPECT_NEAR(observed_order_of(pde(DepthScheme::upwind2), "rk", "4", 1.0 / 64), 4, 0.1);
}

TEST(TimeReachesItsOrders, arkimex3_is_third_order_with_the_diffusions_implicit) {
  EXPECT_NEAR(observed_order_of(pde(DepthScheme::upwind2), "arkimex", "3", 1.0 / 128), 3, 0.1);
}

TEST(TimeReachesItsOrders, the_layer_map_is_integrated_to_order_too) {
  auto shift = pde(DepthScheme::shift);
  shift.model.order = SubLayerOrder::macaron;
  EXPECT_NEAR(observed_order_of(shift, "rk", "4", 1.0 / 64), 4, 0.1);
  EXPECT_NEAR(observed_order_of(shift, "arkimex", "3", 1.0 / 128), 3, 0.1);
}

}  // namespace
}  // namespace fluxformer
