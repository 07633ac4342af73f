// A gated network without a norm is quadratic. With a ReLU gate in one channel, all weights 1 and no attention,
//
//   du/ds = relu(u) u,   u(0) = u_0        u(s) = u_0 / (1 - u_0 s) for u_0 > 0, else u_0
//
// which leaves every bound at s = 1 / u_0.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "base/error.hpp"
#include "tests/support/orders.hpp"
#include "tests/support/reached.hpp"
#include "tests/support/small_problem.hpp"

namespace fluxformer {
namespace {

using namespace test;

/// Depth 1 in so many cells; tokens are independent.
Problem gate(SubLayerIntegrator subflow, int cells, int tokens) {
  ProblemSpec spec;
  spec.model.width = spec.model.ffn = 1;
  spec.model.activation = Activation::relu;
  spec.model.gated = true;
  spec.model.biases = Biases::attention;  // none in the reaction
  spec.model.norm = Norm::none;
  spec.model.attention.layer_norm = false;
  spec.model.variation = DepthVariation::linear;
  spec.model.subflow = subflow;
  spec.mesh = {.cells = cells, .tokens_x = tokens, .tokens_y = 1, .samples = 1};
  Parameters p(spec.model);
  std::fill(p.values.begin(), p.values.end(), 0.0);
  for (const char* name : {"W_G", "W_1", "W_2"}) p.view(std::string("layers/1/") + name)[0] = 1;
  p.values[p.layout.rho()] = 1;
  return Problem(MPI_COMM_WORLD, spec, p);
}

double exact(double start, double s) {
  return start > 0 ? start / (1 - start * s) : start;
}

const Whole starts = {-1, 0, 0.2, 0.5, 0.8};

Whole exact_end() {
  Whole u;
  for (const double start : starts) u.push_back(exact(start, 1));
  return u;
}

double order_of(SubLayerIntegrator subflow, const std::string& name) {
  std::vector<double> errors;
  for (const int cells : {128, 256, 512}) {
    const Whole rows = march_rows(gate(subflow, cells, 5), starts);
    const Whole end(rows.end() - 5, rows.end());
    // Where the gate is shut nothing moves.
    EXPECT_EQ(end[0], -1);
    EXPECT_EQ(end[1], 0);
    errors.push_back(rms_difference(end, exact_end()));
  }
  return reached("order towards u_0 / (1 - u_0 s), " + name, observed_order(errors));
}

TEST(ReluGate, marches_to_its_exact_solution_at_first_order_by_euler_steps) {
  EXPECT_NEAR(order_of(SubLayerIntegrator::euler, "Euler"), 1, 0.05);
}

TEST(ReluGate, marches_to_its_exact_solution_at_second_order_by_midpoint_steps) {
  EXPECT_NEAR(order_of(SubLayerIntegrator::midpoint, "midpoint"), 2, 0.05);
}

// u_0 = 2: the solution ends at s = 1/2. Numerical solutions are smaller than the exact one and pass that depth;
// from h u = 1 on a step at least squares h u, so that some ten steps later no number holds it.
TEST(ReluGate, that_blows_up_is_a_numerical_failure_at_the_depth_where_it_does) {
  constexpr int cells = 256;
  for (const auto subflow : {SubLayerIntegrator::euler, SubLayerIntegrator::midpoint}) {
    const Problem problem = gate(subflow, cells, 1);
    March march(*problem.model, problem.depth, 1, {});
    const Whole start{2};
    int last = 0;
    try {
      march.run(start.data(), [&](int cell, const double* u) {
        const double s = static_cast<double>(cell) / cells;
        // An eighth of the depth before the end, where u = 8, Euler's error is h u^2 ln(u / u_0) = 0.35.
        if (s <= 0.375) {
          EXPECT_LE(std::abs(u[0] - exact(2, s)), 0.4) << s;
        }
        last = cell;
      });
      ADD_FAILURE() << "a number beyond the end of the solution";
    } catch (const NumericalFailure& failure) {
      EXPECT_EQ(failure.code(), ExitCode::numerical);
      EXPECT_THAT(failure.what(), testing::HasSubstr("depth cell " + std::to_string(last + 1)));
    }
    EXPECT_GT(last, cells / 2);
    EXPECT_LT(last, cells * 5 / 8);
  }
}

}  // namespace
}  // namespace fluxformer
