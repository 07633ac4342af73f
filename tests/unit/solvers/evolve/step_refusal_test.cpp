// Steps beyond the limits are refused with the largest stable one named, and rightly so: ten per cent beyond,
// states grow.

#include <gtest/gtest.h>

#include <string>

#include "base/error.hpp"
#include "solvers/evolve/field_operator.hpp"
#include "solvers/evolve/step_limits.hpp"
#include "tests/support/small_problem.hpp"

namespace fluxformer {
namespace {

using namespace test;

ProblemSpec transport_and_diffusion(DepthScheme scheme, double speed, double epsilon, double kappa) {
  ProblemSpec spec;
  spec.model = small_model(1);
  spec.model.width = spec.model.ffn = 1;
  spec.model.attention.heads = 1;
  spec.model.variation = DepthVariation::linear;
  spec.mesh = {.cells = 40, .tokens_x = 6, .tokens_y = 4, .samples = 1, .periodic = true};
  if (speed == 0) spec.mesh.cells = 1;
  spec.scheme = scheme;
  spec.speed = speed;
  spec.epsilon = epsilon;
  spec.kappa = kappa;
  spec.alpha = spec.rho = 0;
  return spec;
}

std::string refusal_of(const ProblemSpec& spec, const EvolveSettings& settings) {
  try {
    const Problem problem(MPI_COMM_WORLD, spec);
    const Evolve solver(problem.mesh, *problem.equation, settings);
  } catch (const BadInput& refused) {
    return refused.what();
  }
  return "";
}

EvolveSettings with(const std::string& method, const std::string& variant, double dt) {
  EvolveSettings settings;
  settings.method = method;
  settings.variant = variant;
  settings.dt = dt;
  settings.time = 1000 * dt;
  return settings;
}

TEST(StepRefusal, names_the_rule_and_the_largest_stable_step) {
  // c dt/h + 2 epsilon dt/h^2 + 2 kappa dt axes = dt (80 + 16 + 4) <= 1 with h = 1/40
  const auto spec = transport_and_diffusion(DepthScheme::upwind, 2, 0.005, 1);
  const auto refused = refusal_of(spec, with("euler", "", 0.0101));
  EXPECT_NE(refused.find("evolve.dt = 0.0101"), std::string::npos) << refused;
  EXPECT_NE(refused.find("c dt/h + 2 epsilon dt/h^2 + 2 kappa dt"), std::string::npos) << refused;
  EXPECT_NE(refused.find("largest stable step is 0.01"), std::string::npos) << refused;
  EXPECT_EQ(refusal_of(spec, with("euler", "", 0.01)), "");
  // ssp rks2 with its five stages: four times as far; arkimex: only transport counts
  EXPECT_NE(refusal_of(spec, with("ssp", "", 0.0401)).find("largest stable step is 0.04"), std::string::npos);
  EXPECT_EQ(refusal_of(spec, with("ssp", "", 0.04)), "");
  EXPECT_NE(refusal_of(spec, with("arkimex", "", 0.0126)).find("largest stable step is 0.0125"),
            std::string::npos);
  EXPECT_EQ(refusal_of(spec, with("arkimex", "", 0.0125)), "");
}

TEST(StepRefusal, applies_to_steps_given_as_a_cfl_number_too) {
  EvolveSettings settings;
  settings.method = "rk";
  settings.cfl = 1.2;
  const auto refused = refusal_of(transport_and_diffusion(DepthScheme::upwind, 2, 0, 0), settings);
  EXPECT_NE(refused.find("evolve.cfl = 1.2"), std::string::npos) << refused;
  EXPECT_NE(refused.find("largest is 1"), std::string::npos) << refused;
}

TEST(StepRefusal, shift_names_the_smallest_number_of_cells_for_its_token_diffusion) {
  // kappa (h/c) axes <= 1/2: with kappa = 2, c = 0.5, S = 1 and two axes M >= 16, whatever dt
  auto spec = transport_and_diffusion(DepthScheme::shift, 0.5, 0, 2);
  spec.mesh.cells = 15;
  const auto refused = refusal_of(spec, with("euler", "", 1e-6));
  EXPECT_NE(refused.find("mesh.cells must be at least 16"), std::string::npos) << refused;
  spec.mesh.cells = 16;
  EXPECT_EQ(refusal_of(spec, with("euler", "", 1e-6)), "");
}

TEST(StepRefusal, shift_counts_token_transport_beside_diffusion) {
  // nu h/c <= 1: with nu = 3.5, c = 0.5, S = 1 M >= 7; with kappa = 1 on two axes M >= 2 (3.5 + 4)
  auto spec = transport_and_diffusion(DepthScheme::shift, 0.5, 0, 0);
  spec.model.transport = true;
  spec.nu = 3.5;
  spec.mesh.cells = 6;
  auto refused = refusal_of(spec, with("euler", "", 1e-6));
  EXPECT_NE(refused.find("equation.nu"), std::string::npos) << refused;
  EXPECT_NE(refused.find("mesh.cells must be at least 7"), std::string::npos) << refused;
  spec.mesh.cells = 7;
  EXPECT_EQ(refusal_of(spec, with("euler", "", 1e-6)), "");
  spec.kappa = 1;
  refused = refusal_of(spec, with("euler", "", 1e-6));
  EXPECT_NE(refused.find("mesh.cells must be at least 15"), std::string::npos) << refused;
}

TEST(StepRefusal, forward_euler_never_goes_with_second_order_upwind) {
  const auto refused =
      refusal_of(transport_and_diffusion(DepthScheme::upwind2, 1, 0, 0), with("euler", "", 1e-6));
  EXPECT_NE(refused.find("upwind2"), std::string::npos) << refused;
}

/// Opposite signs in neighbouring cells and tokens: the mode that grows first.
Whole alternating(const Problem& problem) {
  Whole u(problem.whole_size());
  const std::size_t slab = problem.whole_slab();
  for (std::size_t i = 0; i < u.size(); ++i) {
    const std::size_t token = i % slab;
    u[i] = (i / slab + token % 6 + token / 6) % 2 == 0 ? 1 : -1;
  }
  return u;
}

/// Euler, or SSP with two orders and five stages (PETSc's default).
TSHandle stepper(const std::string& type) {
  TSHandle ts;
  check(TSCreate(MPI_COMM_WORLD, ts.out()));
  check(TSSetType(ts, type.c_str()));
  return ts;
}

/// Growth of the largest number in 200 steps of PETSc's TS, which refuses nothing, from alternating signs.
double growth(const ProblemSpec& spec, const std::string& type, double dt) {
  const Problem problem(MPI_COMM_WORLD, spec);
  FieldOperator field(problem.mesh, *problem.equation);
  struct Context {
    FieldOperator* field;
    const Equation* equation;
  } context{&field, problem.equation.get()};
  const auto ts = stepper(type);
  check(TSSetRHSFunction(
      ts, nullptr,
      [](TS, PetscReal, Vec x, Vec f, void* with) {
        return guarded([&] {
          const auto& c = *static_cast<Context*>(with);
          c.field->apply(c.equation->all(), x, f);
        });
      },
      &context));
  const auto u = problem.mesh.create_vector();
  problem.scatter(alternating(problem), u);
  TSAdapt adapt = nullptr;
  check(TSGetAdapt(ts, &adapt));
  check(TSAdaptSetType(adapt, TSADAPTNONE));
  check(TSSetTimeStep(ts, dt));
  check(TSSetMaxTime(ts, 1e9));
  check(TSSetExactFinalTime(ts, TS_EXACTFINALTIME_STEPOVER));
  double largest = 0;
  for (int step = 1; step <= 200; ++step) {
    check(TSSetMaxSteps(ts, step));
    check(TSSolve(ts, u));
    PetscReal norm = 0;
    check(VecNorm(u, NORM_INFINITY, &norm));
    largest = std::max(largest, norm);
  }
  return largest;
}

TEST(StepLimits, hold_at_the_limit_and_fail_a_tenth_beyond_it) {
  struct Case {
    std::string name;
    ProblemSpec spec;
    std::string type;
  };
  const std::vector<Case> cases{
      {"transport", transport_and_diffusion(DepthScheme::upwind, 1, 0, 0), TSEULER},
      {"depth diffusion", transport_and_diffusion(DepthScheme::upwind, 1e-3, 0.1, 0), TSEULER},
      {"token diffusion, two axes", transport_and_diffusion(DepthScheme::upwind, 0, 0, 1), TSEULER},
      {"all three", transport_and_diffusion(DepthScheme::upwind, 1, 0.05, 50), TSEULER},
      {"transport, ssp", transport_and_diffusion(DepthScheme::upwind, 1, 0, 0), TSSSP},
      {"token diffusion, ssp", transport_and_diffusion(DepthScheme::upwind, 0, 0, 1), TSSSP}};
  for (const auto& c : cases) {
    const Problem problem(MPI_COMM_WORLD, c.spec);
    const double limit = largest_stable_step(method_limits(stepper(c.type), c.spec.scheme),
                                             step_rates(problem.equation->all()));
    // Convex combinations of states: nothing grows beyond round-off.
    EXPECT_LE(growth(c.spec, c.type, limit), 1 + 1e-12) << c.name;
    EXPECT_GT(growth(c.spec, c.type, 1.1 * limit), 10) << c.name;
  }
}

}  // namespace
}  // namespace fluxformer
