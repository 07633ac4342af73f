// T9, at the level of the integrator: the next steps depend only on the state and time of the current one.
// Methods with memory discard it at scheduled steps, in uninterrupted and restarted runs alike.

#include <gtest/gtest.h>

#include <string>

#include "base/error.hpp"
#include "tests/support/every_rank.hpp"
#include "tests/support/small_problem.hpp"
#include "tests/support/test_vectors.hpp"

namespace fluxformer::integrator_restart_is_exact {
namespace {

using namespace test;

struct Method {
  std::string name, variant;
  bool adaptive = false;
  bool scheduled = false;  ///< exact because the integrator discards its history in every run
};

ProblemSpec problem_spec() {
  ProblemSpec spec;
  spec.model = small_model(6);
  spec.mesh = small_mesh(6);
  spec.mesh.tokens_x = 2;
  spec.scheme = DepthScheme::upwind;
  spec.kappa = 0.1;
  spec.epsilon = 0.1;
  return spec;
}

constexpr long checkpoint = 4;

void expect_exact_restart(const Problem& problem, const Method& method) {
  EvolveSettings settings;
  settings.method = method.name;
  settings.variant = method.variant;
  settings.dt = 0.3;
  settings.time = 3;
  if (method.adaptive) settings.adaptive_tolerance = 1e-5;
  if (method.name == "rk" && !method.adaptive) settings.inflow_every = 0.9;
  const auto source = [&](long block, double* slab) {
    const auto mine = problem.local(random_vector(problem.whole_slab(), 5 + static_cast<unsigned>(block)));
    std::copy(mine.begin(), mine.end(), slab);
  };

  Clock saved, end;
  Whole middle, expected;
  {
    Evolve solver(problem.mesh, *problem.equation, settings);
    solver.set_inflow(source);
    problem.scatter(random_vector(problem.whole_size(), 6), solver.state());
    solver.run([&](const Step& step) {
      if (step.clock.step == checkpoint) {
        saved = solver.clock();
        middle = problem.gather(step.u);
        if (method.scheduled) solver.forget_history();
      }
      return true;
    });
    end = solver.clock();
    expected = problem.gather(solver.state());
  }
  ASSERT_EQ(saved.step, checkpoint);
  ASSERT_GT(end.step, checkpoint + 2);

  Evolve solver(problem.mesh, *problem.equation, settings);
  solver.set_inflow(source);
  problem.scatter(middle, solver.state());
  solver.restore(saved);
  solver.run([](const Step&) { return true; });
  const std::string what = method.name + " " + method.variant + (method.adaptive ? " adaptive" : "");
  EXPECT_EQ(problem.gather(solver.state()), expected) << what;
  EXPECT_EQ(solver.clock().step, end.step) << what;
  EXPECT_EQ(solver.clock().time, end.time) << what;
}

TEST(IntegratorRestart, is_exact_at_any_step_for_fixed_steps) {
  const Problem problem(MPI_COMM_WORLD, problem_spec());
  for (const auto& method : std::vector<Method>{{"euler", ""},
                                                {"ssp", "rks2"},
                                                {"ssp", "rks3"},
                                                {"ssp", "rk104"},
                                                {"rk", "1fe"},
                                                {"rk", "3bs"},
                                                {"rk", "4"},
                                                {"rk", "5dp"},
                                                {"rk", "5bs"},
                                                {"rk", "6vr"}})
    expect_exact_restart(problem, method);
}

TEST(IntegratorRestart, is_exact_at_scheduled_steps_for_methods_with_memory) {
  const Problem problem(MPI_COMM_WORLD, problem_spec());
  for (const auto& method : std::vector<Method>{{"rk", "5dp", true, true},
                                                {"rk", "3bs", true, true},
                                                {"rk", "5f", true, true},
                                                {"arkimex", "3", false, true},
                                                {"arkimex", "4", true, true}})
    expect_exact_restart(problem, method);
}

TEST(IntegratorRestart, towards_a_later_end_meets_it) {
  const Problem problem(MPI_COMM_WORLD, problem_spec());
  EvolveSettings settings;
  settings.method = "ssp";
  settings.dt = 0.4;
  settings.time = 1;
  Evolve first(problem.mesh, *problem.equation, settings);
  first.run([](const Step&) { return true; });
  ASSERT_EQ(first.clock().step, 3);  // of 1/3 each

  settings.time = 2.5;  // four and a half of these steps away
  Evolve second(problem.mesh, *problem.equation, settings);
  second.restore(first.clock());
  second.run([](const Step&) { return true; });
  EXPECT_NEAR(second.clock().time, 2.5, 1e-12);
  EXPECT_EQ(second.clock().step, 8);
}

}  // namespace
}  // namespace fluxformer::integrator_restart_is_exact
