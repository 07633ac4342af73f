// The assembled equation: what is implicit, what limits the step, and how it is printed.

#include "model/equation.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/support/small_problem.hpp"

namespace fluxformer {
namespace {

using namespace test;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

ProblemSpec equation_spec_of(DepthScheme scheme) {
  ProblemSpec spec;
  spec.model = small_model(3);
  spec.mesh = small_mesh(6);
  spec.scheme = scheme;
  spec.speed = 2;
  spec.epsilon = 0.01;
  spec.kappa = 0.1;
  return spec;
}

TEST(Equation, treats_diffusions_of_u_i_implicitly_if_asked_and_nothing_else) {
  const Problem shift(MPI_COMM_WORLD, equation_spec_of(DepthScheme::shift));
  EXPECT_EQ(shift.equation->all().size(), 2u);
  EXPECT_EQ(shift.equation->implicit_terms().size(), 1u);
  EXPECT_EQ(shift.equation->explicit_terms().size(), 1u);
  const Problem upwind(MPI_COMM_WORLD, equation_spec_of(DepthScheme::upwind));
  EXPECT_EQ(upwind.equation->all().size(), 5u);
  EXPECT_EQ(upwind.equation->implicit_terms().size(), 2u);
  EXPECT_EQ(upwind.equation->explicit_terms().size(), 3u);
}

TEST(Equation, step_limits_are_those_of_its_terms) {
  const Problem p(MPI_COMM_WORLD, equation_spec_of(DepthScheme::upwind));
  const auto all = step_rates(p.equation->all()), rest = step_rates(p.equation->explicit_terms());
  EXPECT_DOUBLE_EQ(all.transport, 4);                              // c / h
  EXPECT_DOUBLE_EQ(all.diffusion, 2 * 0.01 / 0.25 + 2 * 0.1 * 2);  // two token axes
  EXPECT_DOUBLE_EQ(rest.transport, 4);
  EXPECT_EQ(rest.diffusion, 0);
  EXPECT_EQ(step_rule(p.equation->all()), "c dt/h + 2 epsilon dt/h^2 + 2 kappa dt * 2");
  EXPECT_EQ(step_rule(p.equation->explicit_terms()), "c dt/h");
}

TEST(Equation, token_transport_is_explicit_and_adds_to_the_limit_of_transport) {
  auto spec = equation_spec_of(DepthScheme::upwind);
  spec.nu = 0.3;
  spec.model.transport = true;
  const Problem p(MPI_COMM_WORLD, spec);
  EXPECT_EQ(p.equation->implicit_terms().size(), 2u);
  EXPECT_EQ(p.equation->explicit_terms().size(), 4u);
  EXPECT_DOUBLE_EQ(step_rates(p.equation->all()).transport, 4 + 0.3);
  EXPECT_EQ(step_rule(p.equation->all()), "c dt/h + 2 epsilon dt/h^2 + 2 kappa dt * 2 + nu dt");
  EXPECT_THAT(p.equation->text({}), AllOf(HasSubstr("+ nu D u_i\n"), HasSubstr("nu = 0.3"),
                                          HasSubstr("D u: u(x-1) - u(x) over tokens x")));
  spec.scheme = DepthScheme::shift;
  const Problem shift(MPI_COMM_WORLD, spec);
  EXPECT_THAT(shift.equation->text({}),
              AllOf(HasSubstr("v = u + h (kappa Lap u + nu D u + alpha A(N(u)))"), HasSubstr("nu = 0.3")));
}

TEST(Equation, token_diffusion_counts_axes_of_more_than_one_token) {
  for (const auto& [x, y, axes] : {std::tuple{1, 1, 1}, {5, 1, 1}, {1, 5, 1}, {2, 3, 2}}) {
    auto spec = equation_spec_of(DepthScheme::upwind);
    spec.mesh.tokens_x = x;
    spec.mesh.tokens_y = y;
    const Problem p(MPI_COMM_WORLD, spec);
    EXPECT_THAT(step_rule(p.equation->all()), EndsWith("2 kappa dt * " + std::to_string(axes)));
    EXPECT_DOUBLE_EQ(step_rates(p.equation->all()).diffusion, 2 * 0.01 / 0.25 + 2 * 0.1 * axes);
  }
}

TEST(Equation, is_written_by_its_terms_with_their_values) {
  const Problem p(MPI_COMM_WORLD, equation_spec_of(DepthScheme::upwind2));
  EXPECT_EQ(p.equation->text(p.equation->implicit_terms()),
            "du_i/dt = (c/2h)(4 u_{i-1} - 3 u_i - u_{i-2})\n"
            "        + epsilon (u_{i+1} - 2 u_i + u_{i-1})/h^2   [implicit]\n"
            "        + kappa Lap u_i   [implicit]\n"
            "        + alpha A_i(N(u_i))\n"
            "        + rho R_i(N(u_i))\n"
            "  c = 2, h = 0.5, epsilon = 0.01, kappa = 0.1, alpha = 1, rho = 1\n"
            "  cell 1: (c/h)(u_{i-1} - u_i)\n"
            "  outflow: u_{M+1} = u_{M-1}\n"
            "  Lap: Laplacian over tokens\n"
            "  A: self-attention over the tokens\n"
            "  N: LayerNorm over channels\n"
            "  R: feed-forward network");
  EXPECT_THAT(p.equation->text({}), Not(HasSubstr("implicit")));
}

TEST(Equation, says_that_attention_is_linear) {
  for (const auto scheme : {DepthScheme::shift, DepthScheme::upwind}) {
    auto spec = equation_spec_of(scheme);
    spec.model.attention.normalisation = Normalisation::linear;
    EXPECT_THAT(Problem(MPI_COMM_WORLD, spec).equation->text({}),
                HasSubstr("tokens, linear (no soft-max)\n"));
  }
}

TEST(Equation, says_how_far_windows_reach_and_what_else_is_special) {
  for (const auto scheme : {DepthScheme::shift, DepthScheme::upwind}) {
    auto spec = equation_spec_of(scheme);
    spec.kappa = 0;
    spec.model = small_language_model(spec.model.layers);
    spec.mask = {.length = {}, .causal = true, .weight = {}};
    const auto text = [&] { return Problem(MPI_COMM_WORLD, spec).equation->text({}); };
    EXPECT_THAT(text(),
                AllOf(HasSubstr("tokens, rotary positions, 4 heads on 2 groups of keys, within windows in "),
                      HasSubstr(" depth cells\n"), HasSubstr("N: RMSNorm over channels\n"),
                      HasSubstr("R: feed-forward network, gated")));
    // A token hears W - 1 tokens away in each cell.
    spec.model.windows.assign(spec.model.layers, 4);
    const auto cells = std::to_string(spec.mesh.cells), far = std::to_string(3 * spec.mesh.cells);
    EXPECT_THAT(text(), HasSubstr("windows in " + cells + " of " + cells +
                                  " depth cells, through which a token hears " + far + " tokens away\n"));
  }
}

std::string layer_map_of(Norm norm, SubLayerOrder order, bool residual, double kappa) {
  auto spec = equation_spec_of(DepthScheme::shift);
  spec.speed = 1;
  spec.mesh.cells = 3;
  spec.epsilon = 0;
  spec.kappa = kappa;
  spec.model.norm = norm;
  spec.model.attention.layer_norm = norm == Norm::pre;
  spec.model.order = order;
  spec.model.residual = residual;
  const Problem p(MPI_COMM_WORLD, spec);
  const auto text = p.equation->text({});
  EXPECT_THAT(text, StartsWith("du_i/dt = (c/h)(G_i(u_{i-1}; h/c) - u_i)\n"));
  const auto first = text.find("G(u; h): ") + 9;
  return text.substr(first, text.find('\n', first) - first);
}

TEST(Equation, the_layer_map_shows_order_residual_and_place_of_normalisation) {
  EXPECT_EQ(layer_map_of(Norm::pre, SubLayerOrder::sequential, true, 0.1),
            "v = u + h (kappa Lap u + alpha A(N(u))), G = v + h rho R(N(v))");
  EXPECT_EQ(layer_map_of(Norm::post, SubLayerOrder::sequential, true, 0),
            "v = N(u + h alpha A(u)), G = N(v + h rho R(v))");
  EXPECT_EQ(layer_map_of(Norm::sphere, SubLayerOrder::parallel, true, 0),
            "G = P(u + h (alpha A(u) + rho R(u)))");
  EXPECT_EQ(layer_map_of(Norm::none, SubLayerOrder::macaron, false, 0),
            "v = h/2 rho R(u), w = h alpha A(v), G = h/2 rho R(w)");
}

}  // namespace
}  // namespace fluxformer
