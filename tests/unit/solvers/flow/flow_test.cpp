// Error-controlled flows: their error, their end, and that one goes on exactly as another.

#include "solvers/flow/flow.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <span>
#include <vector>

namespace fluxformer {
namespace {

/// A rotation at the rate 1, and a decay at the rate 30 to its first coordinate.
void turn_and_follow(std::span<const double> u, std::span<double> rate) {
  rate[0] = -u[1];
  rate[1] = u[0];
  rate[2] = -30 * (u[2] - u[0]);
}

TEST(Flow, meets_the_time_within_the_tolerance) {
  Flow flow(MPI_COMM_SELF, {1, 0, 0}, turn_and_follow, 1e-10, {.time = 0, .step = 0.1});
  for (const double time : {0.3, 1.0, 7.0}) {
    EXPECT_TRUE(flow.advance(time));
    EXPECT_EQ(flow.clock().time, time);
    // Some hundred steps, each within 1e-10 of its start.
    EXPECT_NEAR(flow.state()[0], std::cos(time), 1e-8);
    EXPECT_NEAR(flow.state()[1], std::sin(time), 1e-8);
  }
  const long evaluations = flow.evaluations();
  EXPECT_GT(evaluations, 0);
  EXPECT_TRUE(flow.advance(7.0));  // there already
  EXPECT_EQ(flow.evaluations(), evaluations);
}

TEST(Flow, goes_on_exactly_from_state_and_clock) {
  Flow whole(MPI_COMM_SELF, {1, 0, 0}, turn_and_follow, 1e-6, {.time = 0, .step = 0.1});
  auto state = whole.state();
  auto clock = whole.clock();
  for (double time = 0.7; time < 6; time += 0.7) {
    Flow part(MPI_COMM_SELF, state, turn_and_follow, 1e-6, clock);
    EXPECT_TRUE(part.advance(time));
    EXPECT_TRUE(whole.advance(time));
    state = part.state();
    clock = part.clock();
    EXPECT_EQ(state, whole.state()) << time;
    EXPECT_EQ(clock.time, whole.clock().time);
    EXPECT_EQ(clock.step, whole.clock().step);
  }
}

TEST(Flow, ends_after_the_step_that_it_is_told_to) {
  Flow flow(MPI_COMM_SELF, {1, 0, 0}, turn_and_follow, 1e-8, {.time = 0, .step = 0.01});
  const auto above = [](std::span<const double> u) { return u[0] > 0.5; };
  EXPECT_FALSE(flow.advance(3, above));
  const double time = flow.clock().time;
  EXPECT_GE(time, std::acos(0.5) - 1e-6);
  EXPECT_LT(time, std::acos(0.5) + 0.2);  // a step of the decay is no longer
  EXPECT_TRUE(flow.advance(3));
  EXPECT_NEAR(flow.state()[0], std::cos(3.0), 1e-6);
}

TEST(Flow, is_there_if_the_step_that_it_ends_after_ends_there) {
  const auto rest = [](std::span<const double>, std::span<double> rate) { rate[0] = 0; };
  Flow flow(MPI_COMM_SELF, {1}, rest, 1e-8, {.time = 0, .step = 2});
  const auto once = [](std::span<const double>) { return false; };
  EXPECT_TRUE(flow.advance(2, once));
  EXPECT_EQ(flow.clock().time, 2);
  EXPECT_FALSE(flow.advance(1e4, once));  // steps grow tenfold
  EXPECT_LT(flow.clock().time, 1e4);
}

TEST(Flow, limited_steps_contract_what_long_ones_would_not) {
  // The decay to 0 at the rate 1, far below the tolerance: only a limit keeps steps within the stable ones.
  const auto decay = [](std::span<const double> u, std::span<double> rate) { rate[0] = -u[0]; };
  for (const bool limited : {true, false}) {
    Flow flow(MPI_COMM_SELF, {1}, decay, 1e-8, {.time = 0, .step = 10});
    if (limited) {
      flow.limit_steps(2);
      EXPECT_EQ(flow.clock().step, 2);
    }
    EXPECT_TRUE(flow.advance(200));
    // Each step of length 2 contracts by 0.173, shorter ones by as much in their time.
    EXPECT_EQ(std::abs(flow.state()[0]) < 1e-30, limited);
  }
}

TEST(Flow, begins_at_the_time_of_its_clock) {
  Flow flow(MPI_COMM_SELF, {1}, [](std::span<const double>, std::span<double> rate) { rate[0] = 2; }, 1e-10,
            {.time = 5, .step = 0.1});
  EXPECT_TRUE(flow.advance(6));
  EXPECT_NEAR(flow.state()[0], 3, 1e-14);
}

}  // namespace
}  // namespace fluxformer
