// A run that exceeds max_norm or meets a non-finite number fails the same way on every rank and leaves the
// last good state with its time (T11, last sentence).

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "base/error.hpp"
#include "tests/support/lattices.hpp"
#include "tests/support/small_problem.hpp"
#include "tests/support/test_vectors.hpp"

namespace fluxformer::blow_up_keeps_the_last_good_state {
namespace {

using namespace test;

/// Without normalisation and with W_V = 3 I the states grow by a constant factor per unit of time.
ProblemSpec growing() {
  ProblemSpec spec;
  spec.model = small_model(6);
  spec.model.norm = Norm::none;
  spec.model.attention.layer_norm = false;
  spec.mesh = small_mesh(6);
  spec.scheme = DepthScheme::upwind;
  return spec;
}

Parameters growing_weights(const ProblemSpec& spec) {
  Parameters p(spec.model);
  initialise_scaled_identity(p, 0, 3);
  return p;
}

struct Failed {
  std::string message;
  Clock clock;
  Whole state, last_seen;
  long steps_seen = 0;
};

Failed run_into_failure(const Problem& problem, const EvolveSettings& settings, const InflowSource& source) {
  Evolve solver(problem.mesh, *problem.equation, settings);
  solver.set_inflow(source);
  Failed failed;
  failed.last_seen.assign(problem.whole_size(), 0.0);
  try {
    solver.run([&](const Step& step) {
      failed.last_seen = problem.gather(step.u);
      failed.steps_seen = step.clock.step;
      return true;
    });
  } catch (const NumericalFailure& failure) {
    EXPECT_EQ(failure.code(), ExitCode::numerical);
    failed.message = failure.what();
  }
  failed.clock = solver.clock();
  failed.state = problem.gather(solver.state());
  return failed;
}

TEST(BlowUp, past_max_norm_stops_every_rank_at_the_last_good_state) {
  auto spec = growing();
  for (const auto& split : every_split(MPI_COMM_WORLD, spec.mesh)) {
    spec.mesh = split;
    const Problem problem(MPI_COMM_WORLD, spec, growing_weights(spec));
    EvolveSettings settings;
    settings.dt = 0.25;
    settings.time = 100;
    settings.max_norm = 1e4;
    const Whole ones(problem.whole_slab(), 1.0);
    const auto failed = run_into_failure(problem, settings, problem.inflow(ones));
    EXPECT_NE(failed.message.find("evolve.max_norm"), std::string::npos) << failed.message;
    const auto stopped_at = "step " + std::to_string(failed.clock.step + 1) + ", t = ";
    EXPECT_NE(failed.message.find(stopped_at), std::string::npos) << failed.message;
    EXPECT_GT(failed.steps_seen, 2);
    EXPECT_EQ(failed.clock.step, failed.steps_seen);
    EXPECT_DOUBLE_EQ(failed.clock.time, 0.25 * static_cast<double>(failed.steps_seen));
    EXPECT_EQ(failed.state, failed.last_seen);
    double largest = 0;
    for (const double u : failed.state) largest = std::max(largest, std::abs(u));
    EXPECT_LE(largest, 1e4);
    EXPECT_GT(largest, 1e3);  // growth by exp(3/4) a step: the last good state is not far below the limit
  }
}

TEST(BlowUp, a_number_that_is_not_finite_stops_every_rank_at_the_last_good_state) {
  for (const double bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()})
    for (const std::string method : {"ssp", "euler", "rk", "arkimex"}) {
      auto spec = growing();
      spec.epsilon = 0.1;
      const Problem problem(MPI_COMM_WORLD, spec, growing_weights(spec));
      EvolveSettings settings;
      settings.method = method;
      settings.dt = 0.25;
      settings.inflow_every = 0.5;
      settings.time = 5;
      // The third block of the inflow holds one bad number, of the last token: one rank sees it first.
      const auto failed = run_into_failure(problem, settings, [&](long block, double* slab) {
        Whole all(problem.whole_slab(), 0.5);
        if (block == 2) all.back() = bad;
        const auto mine = problem.local(all);
        std::copy(mine.begin(), mine.end(), slab);
      });
      EXPECT_FALSE(failed.message.empty()) << method;
      EXPECT_EQ(failed.clock.step, 4) << method;  // t = 1 is the last good time
      EXPECT_EQ(failed.state, failed.last_seen) << method;
    }
}

}  // namespace
}  // namespace fluxformer::blow_up_keeps_the_last_good_state
