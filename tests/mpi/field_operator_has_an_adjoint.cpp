// The distributed right-hand side: its tangent against finite differences, its adjoint against its tangent,
// its parameter gradient against differences and against one rank (T7).
// Ranks: 1 2 3 4.

#include <gtest/gtest.h>

#include <string>

#include "base/error.hpp"
#include "solvers/evolve/field_operator.hpp"
#include "tests/support/every_rank.hpp"
#include "tests/support/lattices.hpp"
#include "tests/support/reached.hpp"
#include "tests/support/small_problem.hpp"
#include "tests/support/test_vectors.hpp"

namespace fluxformer::field_operator_has_an_adjoint {
namespace {

using namespace test;

ProblemSpec problem_spec(DepthScheme scheme) {
  ProblemSpec spec;
  spec.model = small_model(3);
  spec.model.knots = 2;
  spec.model.variation = DepthVariation::linear;
  spec.model.kappa_per_channel = true;
  spec.mesh = {.cells = 7, .tokens_x = 3, .tokens_y = 2, .samples = 2};
  spec.scheme = scheme;
  spec.epsilon = 0.1;
  spec.kappa = 0.2;
  spec.alpha = 0.9;
  spec.rho = 1.1;
  return spec;
}

/// The right-hand side as functions of whole states.
struct Rhs {
  Rhs(MPI_Comm comm, const ProblemSpec& spec) : Rhs(comm, spec, random_parameters(spec)) {}
  Rhs(MPI_Comm comm, const ProblemSpec& spec, const Parameters& weights)
      : problem(comm, spec, weights),
        field(problem.mesh, *problem.equation),
        inflow(problem.local(random_vector(problem.whole_slab(), 5))),
        x(problem.mesh.create_vector()),
        y(problem.mesh.create_vector()),
        z(problem.mesh.create_vector()) {
    field.set_inflow(inflow.data());
  }
  Whole apply(const Whole& u) {
    problem.scatter(u, x);
    field.apply(problem.equation->all(), x, z);
    return problem.gather(z);
  }
  Whole tangent(const Whole& u, const Whole& v) {
    problem.scatter(u, x);
    problem.scatter(v, y);
    field.apply_tangent(problem.equation->all(), x, y, z);
    return problem.gather(z);
  }
  Whole adjoint(const Whole& u, const Whole& w, Whole& parameters) {
    problem.scatter(u, x);
    problem.scatter(w, y);
    parameters.assign(problem.parameters.values.size(), 0.0);
    field.apply_adjoint(problem.equation->all(), x, y, z, parameters);
    parameters = sum_over(problem.mesh.comm(), std::move(parameters));
    return problem.gather(z);
  }
  Problem problem;
  FieldOperator field;
  std::vector<double> inflow;
  VecHandle x, y, z;
};

class FieldOperatorAdjoint : public testing::TestWithParam<DepthScheme> {};

TEST_P(FieldOperatorAdjoint, agrees_with_tangent_differences_and_one_rank_on_every_split) {
  auto spec = problem_spec(GetParam());
  Rhs alone(MPI_COMM_SELF, spec);
  const auto size = alone.problem.whole_size();
  const auto u = random_vector(size, 6), v = random_vector(size, 7), w = random_vector(size, 8);
  Whole one_gradient;
  const auto one_bar = alone.adjoint(u, w, one_gradient);

  for (const auto& split : every_split(MPI_COMM_WORLD, spec.mesh)) {
    spec.mesh = split;
    Rhs rhs(MPI_COMM_WORLD, spec);
    const auto jv = rhs.tangent(u, v);
    Whole gradient;
    const auto bar = rhs.adjoint(u, w, gradient);
    const auto where = "depth ranks " + std::to_string(split.ranks_depth);
    EXPECT_LT(reached("<Jv, w> - <v, J'w>", std::abs(dot(jv, w) - dot(v, bar)) / (norm(jv) * norm(w))), 1e-12)
        << where;
    // Central differences: h^2 truncation against round-off/h.
    constexpr double h = 1e-5;
    const auto difference = plus(rhs.apply(plus(u, h, v)), -1, rhs.apply(plus(u, -h, v)));
    EXPECT_LT(reached("tangent against differences", norm(plus(jv, -1 / (2 * h), difference)) / norm(jv)),
              1e-7)
        << where;
    EXPECT_LT(relative_difference(bar, one_bar), 1e-12) << where;
    EXPECT_LT(relative_difference(gradient, one_gradient), 1e-12) << where;
    Whole again;
    EXPECT_EQ(rhs.adjoint(u, w, again), bar) << where << ": something was left from the first time";
    EXPECT_EQ(again, gradient) << where;
  }
}

TEST_P(FieldOperatorAdjoint, parameter_gradient_is_the_slope_of_central_differences) {
  const auto spec = problem_spec(GetParam());
  auto parameters = random_parameters(spec);
  Rhs rhs(MPI_COMM_WORLD, spec, parameters);
  const auto size = rhs.problem.whole_size();
  const auto u = random_vector(size, 6), w = random_vector(size, 8);
  Whole gradient;
  rhs.adjoint(u, w, gradient);
  const auto direction = random_vector(gradient.size(), 9);
  constexpr double h = 1e-5;
  const auto value = [&](double step) {
    rhs.problem.parameters.values = plus(parameters.values, step, direction);
    rhs.problem.model->refresh();
    return dot(rhs.apply(u), w);
  };
  const double slope = (value(h) - value(-h)) / (2 * h);
  EXPECT_LT(reached("parameter gradient against differences", std::abs(dot(gradient, direction) / slope - 1)),
            1e-7);
}

INSTANTIATE_TEST_SUITE_P(Schemes, FieldOperatorAdjoint,
                         testing::Values(DepthScheme::shift, DepthScheme::upwind, DepthScheme::upwind2),
                         [](const auto& scheme) { return to_word(scheme.param); });

}  // namespace
}  // namespace fluxformer::field_operator_has_an_adjoint
