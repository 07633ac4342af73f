// The contract of tapes of second order, checked for every slab term that has them, in all its settings, on
// every split of the ranks over depth and tokens. Ranks: 1 2 3 4.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "tests/support/conformance.hpp"
#include "tests/support/every_rank.hpp"
#include "tests/support/lattices.hpp"
#include "tests/support/reached.hpp"
#include "tests/support/richardson.hpp"
#include "tests/support/test_vectors.hpp"

namespace fluxformer::test::second_order_conformance {
namespace {

/// |a - b| / |b|, by 1 where b is zero.
double relative_distance(const State& a, const State& b) {
  const double size = norm(b);
  return norm(plus(a, -1, b)) / (size > 0 ? size : 1);
}

Point moved(const Point& at, double step, const Point& along) {
  return {plus(at.parameters, step, along.parameters), plus(at.u, step, along.u), plus(at.w, step, along.w)};
}

std::vector<TermCase> slab_terms() {
  std::vector<TermCase> cases = every_term();
  std::erase_if(cases, [](const TermCase& c) { return !c.second_order; });
  return cases;
}

class SecondOrderConformance : public testing::TestWithParam<TermCase> {
 protected:
  const TermCase& c = GetParam();
  const Point at{c.parameters, state(1), state(2)};
  const Point along = direction(3);

  void SetUp() override {
    if (!c.second_derivatives) GTEST_SKIP() << "no second derivative";
  }
  /// A random state that is zero in the inflow, where the slab term does not act.
  State state(unsigned seed) const {
    State x = random_vector(c.size(), seed);
    std::fill_n(x.begin(), c.slab(), 0.0);
    return x;
  }
  Point direction(unsigned seed) const {
    return {random_vector(c.parameters.size(), seed, 0.3), state(seed + 1), state(seed + 2)};
  }
  std::vector<MeshSpec> splits() const { return every_split(MPI_COMM_WORLD, c.lattice); }
  /// Where Richardson's and round-off's errors are both near 1e-12; for ReLU shorter than the way to a kink.
  double step() const { return c.name.ends_with("relu") ? 1e-5 : 4e-3; }
  Harness on(const MeshSpec& split) const { return {MPI_COMM_WORLD, c, split, c.build_scaled}; }
  Harness alone() const {
    MeshSpec split = c.lattice;
    split.ranks_depth = split.ranks_token = 1;
    return {MPI_COMM_SELF, c, split, c.build_scaled};
  }
};

// Sums of at most some hundred numbers, in another order.
TEST_P(SecondOrderConformance, value_and_adjoint_are_those_of_the_plain_calls) {
  for (const MeshSpec& split : splits()) {
    Harness term = on(split);
    const Products all = term.products(c.second_order, at, along);
    const Harness::Adjoint adjoint = term.adjoint(at.parameters, at.u, at.w),
                           newton = term.adjoint(at.parameters, at.u, along.w);
    EXPECT_LT(relative_distance(all.value, term.rhs(at.parameters, at.u)), 1e-14);
    EXPECT_LT(relative_distance(all.u_bar, adjoint.u_bar), 1e-14);
    EXPECT_LT(relative_distance(all.gradient, adjoint.parameters), 1e-14);
    EXPECT_LT(relative_distance(all.newton_bar, newton.u_bar), 1e-14);
    EXPECT_LT(relative_distance(all.newton_gradient, newton.parameters), 1e-14);
  }
}

TEST_P(SecondOrderConformance, tangent_of_the_state_alone_is_that_without_weights) {
  for (const MeshSpec& split : splits()) {
    Harness term = on(split);
    const Point state_alone{State(c.parameters.size(), 0.0), along.u, along.w};
    const State expected = term.tangent(at.parameters, at.u, along.u);
    EXPECT_LT(relative_distance(term.products(c.second_order, at, state_alone).tangent, expected), 1e-13);
  }
}

TEST_P(SecondOrderConformance, tangents_are_the_derivatives_of_value_and_adjoint) {
  if (size_of(MPI_COMM_WORLD) > 1) return;
  Harness term = alone();
  const Products all = term.products(c.second_order, at, along);
  const auto expect = [&](const char* what, const State& tangent, auto&& of) {
    const State expected = derivative([&](double e) { return of(moved(at, e, along)); }, step());
    EXPECT_GT(norm(expected), 1e-2) << "a case that shows nothing";
    EXPECT_LT(reached(what, relative_distance(tangent, expected)), 1e-9) << what;
  };
  expect("tangent against differences", all.tangent,
         [&](const Point& p) { return term.rhs(p.parameters, p.u); });
  expect("tangent of the adjoint against differences", all.u_bar_dot,
         [&](const Point& p) { return term.adjoint(p.parameters, p.u, p.w).u_bar; });
  expect("tangent of the gradient against differences", all.gradient_dot,
         [&](const Point& p) { return term.adjoint(p.parameters, p.u, p.w).parameters; });
}

// The second derivative of <w, term> for a fixed w.
TEST_P(SecondOrderConformance, second_derivative_is_symmetric) {
  for (const MeshSpec& split : splits()) {
    Harness term = on(split);
    Point one = direction(10), two = direction(20);
    one.w.assign(c.size(), 0.0), two.w = one.w;
    const Products a = term.products(c.second_order, at, one), b = term.products(c.second_order, at, two);
    const double size = norm(a.u_bar_dot) * norm(two.u) + norm(a.gradient_dot) * norm(two.parameters);
    const double error = std::abs(dot(a.u_bar_dot, two.u) + dot(a.gradient_dot, two.parameters) -
                                  dot(b.u_bar_dot, one.u) - dot(b.gradient_dot, one.parameters));
    EXPECT_LT(reached("<D2 v, w> - <v, D2 w>", error / size), 1e-13);
  }
}

/// Also terms without second derivatives.
class BasesOfResults : public SecondOrderConformance {
 protected:
  void SetUp() override {}
};

TEST_P(BasesOfResults, may_be_the_result_the_vector_of_the_call_or_a_third_one) {
  for (const MeshSpec& split : splits()) {
    Harness term = on(split);
    const auto& calls = c.second_derivatives ? c.second_order : c.first_order;
    const Products from_zero = term.products(calls, at, along),
                   in_place = term.products(calls, at, along, Base::result),
                   from_vector = term.products(calls, at, along, Base::vector),
                   from_other = term.products(calls, at, along, Base::other);
    const auto expect = [&](State Products::*part, const State& vector) {
      EXPECT_EQ(in_place.*part, from_vector.*part);
      EXPECT_LT(relative_distance(in_place.*part, plus(from_zero.*part, 1, vector)), 1e-14);
      EXPECT_LT(relative_distance(from_other.*part, plus(from_zero.*part, other_base, vector)), 1e-14);
    };
    expect(&Products::value, at.u);
    expect(&Products::u_bar, at.w);
    expect(&Products::tangent, along.u);
    expect(&Products::newton_bar, along.w);
    if (c.second_derivatives) expect(&Products::u_bar_dot, along.w);
  }
}

TEST_P(SecondOrderConformance, ranks_do_not_matter) {
  const Products one = alone().products(c.second_order, at, along);
  for (const MeshSpec& split : splits()) {
    const Products many = on(split).products(c.second_order, at, along);
    for (const auto part :
         {&Products::value, &Products::u_bar, &Products::gradient, &Products::tangent, &Products::u_bar_dot,
          &Products::gradient_dot, &Products::newton_bar, &Products::newton_gradient})
      EXPECT_LT(reached("second order on all splits", relative_distance(many.*part, one.*part)), 1e-12);
  }
}

// Twice the bound of values and gradients (term_conformance.cpp): second derivatives are sums of products of
// two first ones, whose relative errors add up. ReLU's kinks: no unit of these cases is near one.
TEST_P(SecondOrderConformance, single_precision_agrees_to_single_precision) {
  for (const MeshSpec& split : splits()) {
    Harness term = on(split);
    const Products exact = term.products(c.second_order, at, along),
                   single = term.products(c.second_order_single, at, along);
    for (const auto part : {&Products::tangent, &Products::u_bar_dot, &Products::gradient_dot,
                            &Products::newton_bar, &Products::newton_gradient})
      EXPECT_LT(relative_distance(single.*part, exact.*part), 2e-5);
  }
}

TEST(SecondOrderRefusals, name_the_key) {
  for (const TermCase& c : slab_terms()) {
    if (c.second_derivatives) continue;
    MeshSpec split = c.lattice;
    split.ranks_depth = split.ranks_token = 1;
    const Point point{c.parameters, State(c.size(), 1.0), State(c.size(), 1.0)};
    try {
      Harness(MPI_COMM_SELF, c, split).products(c.second_order, point, point);
      ADD_FAILURE() << c.name;
    } catch (const BadInput& refusal) {
      EXPECT_THAT(refusal.what(), testing::HasSubstr("attention.")) << c.name;
    }
  }
}

const auto name_of = [](const auto& tested) { return tested.param.name; };
INSTANTIATE_TEST_SUITE_P(Term, SecondOrderConformance, testing::ValuesIn(slab_terms()), name_of);
INSTANTIATE_TEST_SUITE_P(Term, BasesOfResults, testing::ValuesIn(slab_terms()), name_of);

}  // namespace

/// Failure messages print the name of the case, not its bytes.
void PrintTo(const TermCase& c, std::ostream* out) {
  *out << c.name;
}

}  // namespace fluxformer::test::second_order_conformance
