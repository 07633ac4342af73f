#include "operators/depth_terms.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/error.hpp"

namespace fluxformer {
namespace {

/// term(u) on one rank that holds all cells; one number per slab.
std::vector<double> rhs(Term& term, const std::vector<double>& u, const double* inflow) {
  std::vector<double> out(u.size(), 0.0);
  Column<const double> in{.first = 1, .count = static_cast<int>(u.size()), .slab = 1, .owned = u.data()};
  in.below[0] = inflow;
  Column<double> result{.first = 1, .count = in.count, .slab = 1, .owned = out.data()};
  term.add_rhs(in, {1, in.count + 1}, result);
  return out;
}

/// p(s) = a + b s + c s^2 at s = h, 2h, ... with p(0) = a as inflow.
struct Parabola {
  double a, b, c, h;
  double at(double s) const { return a + b * s + c * s * s; }
  std::vector<double> cells(int count) const {
    std::vector<double> u;
    for (int i = 1; i <= count; ++i) u.push_back(at(i * h));
    return u;
  }
};

TEST(DepthTransport, first_order_is_the_backward_difference) {
  const Parabola line{2, 3, 0, 0.25};
  DepthTransport term(1.5, line.h, 1);
  for (const double f : rhs(term, line.cells(6), &line.a)) EXPECT_NEAR(f, -1.5 * 3, 1e-13);
}

TEST(DepthTransport, second_order_is_exact_for_parabolas_but_first_order_in_cell_1) {
  const Parabola curve{2, 3, -5, 0.25};
  DepthTransport term(1.5, curve.h, 2);
  const std::vector<double> f = rhs(term, curve.cells(6), &curve.a);
  EXPECT_NEAR(f[0], -1.5 * (3 - 5 * 0.25), 1e-13);
  for (int i = 2; i <= 6; ++i) EXPECT_NEAR(f[i - 1], -1.5 * (3 - 10 * i * curve.h), 1e-12);
}

TEST(DepthTransport, without_an_inflow_zero_flows_in) {
  DepthTransport first(1, 0.5, 1), second(1, 0.5, 2);
  EXPECT_EQ(rhs(first, {1.0, 1.0}, nullptr), std::vector<double>({-2, 0}));
  EXPECT_EQ(rhs(second, {1.0, 1.0}, nullptr), std::vector<double>({-2, 1}));  // -(3 - 4 + 0) / (2 h)
}

TEST(DepthTransport, a_step_at_the_limit_moves_the_state_by_one_cell) {
  DepthTransport term(4, 0.5, 1);
  const double inflow = 9;
  std::vector<double> u = {1, 2, 3};
  const std::vector<double> f = rhs(term, u, &inflow);
  for (std::size_t i = 0; i < 3; ++i) u[i] += f[i] / term.step_limit()->rate;
  EXPECT_EQ(u, std::vector<double>({9, 1, 2}));
}

TEST(DepthTransport, limit_is_that_of_the_speed) {
  for (const int order : {1, 2}) {
    const auto limit = DepthTransport(4, 0.5, order).step_limit();
    ASSERT_TRUE(limit.has_value());
    EXPECT_EQ(limit->kind, StepLimit::Kind::transport);
    EXPECT_EQ(limit->rate, 8);
    EXPECT_EQ(limit->text, "c dt/h");
    EXPECT_FALSE(DepthTransport(0, 0.5, order).step_limit().has_value());
  }
}

TEST(DepthDiffusion, is_exact_for_parabolas_that_end_level) {
  // p'(S) = 0 at S = 6 h: the reflection at the outflow is exact, so the whole column sees eps p'' = 2 eps c.
  const double h = 0.25, S = 6 * h, c = -5;
  const Parabola curve{2, -2 * c * S, c, h};
  DepthDiffusion term(0.3, h, 6);
  for (const double f : rhs(term, curve.cells(6), &curve.a)) EXPECT_NEAR(f, 2 * 0.3 * c, 1e-12);
}

TEST(DepthDiffusion, reflects_at_the_outflow_and_into_the_inflow_for_a_single_cell) {
  DepthDiffusion three(1, 1, 3), one(1, 1, 1);
  const double inflow = 10;
  EXPECT_EQ(rhs(three, {1, 2, 4}, &inflow), std::vector<double>({10 - 2 + 2, 1 - 4 + 4, 2 * (2 - 4)}));
  EXPECT_EQ(rhs(one, {4}, &inflow), std::vector<double>({2 * (10 - 4)}));
}

TEST(DepthDiffusion, modes_between_inflow_and_outflow_decay_with_4_eps_sin2) {
  // u_0 = 0 and reflection at M: sin((k + 1/2) pi i / M).
  const int M = 9;
  const double h = 0.5, eps = 0.7;
  DepthDiffusion term(eps, h, M);
  for (int k = 0; k < M; ++k) {
    const double angle = (k + 0.5) * std::acos(-1.0) / M;
    std::vector<double> mode;
    for (int i = 1; i <= M; ++i) mode.push_back(std::sin(angle * i));
    const std::vector<double> f = rhs(term, mode, nullptr);
    for (std::size_t i = 0; i < f.size(); ++i)
      EXPECT_NEAR(f[i], -4 * eps / (h * h) * std::pow(std::sin(angle / 2), 2) * mode[i], 1e-13);
  }
}

TEST(DepthDiffusion, the_limit_and_the_diagonal_follow_from_the_stencil) {
  DepthDiffusion term(0.7, 0.5, 4);
  const auto limit = term.step_limit();
  ASSERT_TRUE(limit.has_value());
  EXPECT_EQ(limit->kind, StepLimit::Kind::diffusion);
  EXPECT_DOUBLE_EQ(limit->rate, 2 * 0.7 / 0.25);
  EXPECT_EQ(limit->text, "2 epsilon dt/h^2");
  std::vector<double> diagonal(4, 1.0);
  term.add_diagonal({2, 5}, -2, {.first = 1, .count = 4, .slab = 1, .owned = diagonal.data()});
  EXPECT_EQ(diagonal[0], 1);
  EXPECT_DOUBLE_EQ(diagonal[1], 1 - 2 * rhs(term, {0, 1, 0, 0}, nullptr)[1]);
  EXPECT_DOUBLE_EQ(diagonal[3], 1 - 2 * rhs(term, {0, 0, 0, 1}, nullptr)[3]);
  EXPECT_FALSE(DepthDiffusion(0, 0.5, 4).step_limit().has_value());
}

TEST(DepthTerms, only_the_cells_asked_for_are_touched) {
  DepthTransport term(1, 1, 1);
  const std::vector<double> u = {1, 2, 4, 8};
  std::vector<double> out(4, 0.0);
  const Column<const double> in{.first = 1, .count = 4, .slab = 1, .owned = u.data()};
  term.add_rhs(in, {2, 4}, {.first = 1, .count = 4, .slab = 1, .owned = out.data()});
  EXPECT_EQ(out, std::vector<double>({0, -1, -2, 0}));
}

TEST(DepthTerms, refuse_what_has_no_meaning) {
  EXPECT_THROW(DepthTransport(-1, 1, 1), BadInput);
  EXPECT_THROW(DepthTransport(1, 0, 1), BadInput);
  EXPECT_THROW(DepthTransport(1, 1, 3), BadInput);
  EXPECT_THROW(DepthDiffusion(-1, 1, 1), BadInput);
  EXPECT_THROW(DepthDiffusion(1, -1, 1), BadInput);
}

}  // namespace
}  // namespace fluxformer
