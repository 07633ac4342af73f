// The contract of a term of the equation, checked for every operator in all its settings, on every split of
// the ranks over depth and tokens.
// Ranks: 1 2 3 4.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/random.hpp"
#include "tests/support/conformance.hpp"
#include "tests/support/conformance_model_cases.hpp"
#include "tests/support/every_rank.hpp"
#include "tests/support/lattices.hpp"
#include "tests/support/reached.hpp"

namespace fluxformer::test::term_conformance {
namespace {

State random_state(std::size_t size, std::string_view purpose) {
  const RandomStream stream(3, purpose);
  State u(size);
  for (std::size_t i = 0; i < size; ++i) u[i] = stream.normal(i);
  return u;
}

double dot(const State& a, const State& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

double norm(const State& a) {
  return std::sqrt(dot(a, a));
}

State sum(const State& a, double factor, const State& b) {
  State c = a;
  for (std::size_t i = 0; i < c.size(); ++i) c[i] += factor * b[i];
  return c;
}

/// |a - b| / |b|, by 1 where b is zero.
double relative_distance(const State& a, const State& b) {
  const double size = norm(b);
  return norm(sum(a, -1, b)) / (size > 0 ? size : 1);
}

class TermConformance : public testing::TestWithParam<TermCase> {
 protected:
  const TermCase& c = GetParam();
  const State u = random_state(c.size(), "state");
  const State v = random_state(c.size(), "variation");
  const State w = without_inflow(random_state(c.size(), "weight"));
  const State q = random_state(c.parameters.size(), "parameters");

  State without_inflow(State x) const {
    std::fill_n(x.begin(), c.slab(), 0.0);
    return x;
  }
  /// Rows of padding set to zero.
  State without_padding(State x) const {
    const auto samples = static_cast<std::size_t>(c.lattice.samples),
               width = static_cast<std::size_t>(c.lattice.width);
    for (std::size_t row = 0; row < x.size() / width; ++row) {
      const std::size_t token = row % (c.slab() / width) / samples;
      if (!c.mask.real(static_cast<int>(row % samples), static_cast<int>(token)))
        std::fill_n(x.begin() + static_cast<std::ptrdiff_t>(row * width), width, 0.0);
    }
    return x;
  }
  std::vector<MeshSpec> splits() const { return every_split(MPI_COMM_WORLD, c.lattice); }
  Harness alone() const {
    MeshSpec split = c.lattice;
    split.ranks_depth = split.ranks_token = 1;
    return {MPI_COMM_SELF, c, split};
  }
};

TEST_P(TermConformance, agrees_with_the_formula_written_plainly) {
  State expected = c.reference(c.parameters, u);
  EXPECT_GT(norm(expected), 1e-2) << "a case that shows nothing";
  for (const MeshSpec& split : splits()) {
    State result = Harness(MPI_COMM_WORLD, c, split).rhs(c.parameters, u);
    if (!c.compare_padding) result = without_padding(result), expected = without_padding(expected);
    // Sums of at most some hundred numbers, and libmvec's two units in the last place.
    EXPECT_LT(reached("term against its formula", relative_distance(result, expected)), 1e-13);
  }
}

// The remainder f(u + e v) - f(u) - e J v is of second order in e: halving e leaves a quarter. Its size,
// about e^2 = 1e-6 relative, is far from round-off. For a linear term, or away from the kinks of ReLU, it may
// vanish.
TEST_P(TermConformance, tangent_is_the_derivative) {
  for (const MeshSpec& split : splits()) {
    Harness term(MPI_COMM_WORLD, c, split);
    const State f = term.rhs(c.parameters, u), jv = term.tangent(c.parameters, u, v);
    const double size = norm(jv) > 0 ? norm(jv) : 1;
    const auto remainder = [&](double e) {
      return norm(sum(sum(term.rhs(c.parameters, sum(u, e, v)), -1, f), -e, jv)) / size;
    };
    const double whole = remainder(1e-3), half = remainder(5e-4);
    if (whole < 1e-12) continue;
    const double slope = std::log2(whole / half);
    EXPECT_LT(reached("|Taylor slope - 2|", std::abs(slope - 2)), 0.05) << slope;
    EXPECT_LT(whole, 1e-4);
  }
}

TEST_P(TermConformance, adjoint_is_the_transpose) {
  for (const MeshSpec& split : splits()) {
    Harness term(MPI_COMM_WORLD, c, split);
    const State jv = term.tangent(c.parameters, u, v);
    const State jtw = term.adjoint(c.parameters, u, w).u_bar;
    const double error = std::abs(dot(jv, w) - dot(v, jtw)), size = norm(jv) * norm(w);
    EXPECT_LE(error, 1e-12 * size);
    if (size > 0) reached("<Jv, w> - <v, J'w>", error / size);
  }
}

// Central differences with step e: e^2 of truncation and 1e-16 / e of round-off, both near 1e-10 for e =
// 1e-5.
TEST_P(TermConformance, parameter_gradient_is_the_central_difference) {
  if (c.parameters.empty()) return;
  for (const MeshSpec& split : splits()) {
    Harness term(MPI_COMM_WORLD, c, split);
    const State gradient = term.adjoint(c.parameters, u, w).parameters;
    const double e = 1e-5;
    const State change = sum(term.rhs(sum(c.parameters, e, q), u), -1, term.rhs(sum(c.parameters, -e, q), u));
    const double error = std::abs(dot(change, w) / (2 * e) - dot(gradient, q)), size = norm(gradient);
    EXPECT_LE(error, 1e-7 * size);
    if (size > 0) reached("parameter gradient against differences", error / size);
  }
}

// Entry by entry, so that a wrong entry is not masked by large ones.
TEST_P(TermConformance, every_entry_of_the_parameter_gradient_is_right) {
  if (c.parameters.empty() || size_of(MPI_COMM_WORLD) > 1) return;
  Harness term = alone();
  const State gradient = term.adjoint(c.parameters, u, w).parameters;
  const std::size_t per_cell = c.parameters.size() / static_cast<std::size_t>(c.lattice.cells);
  const double e = 1e-5;
  for (std::size_t i = per_cell; i < 2 * per_cell; ++i) {  // those of cell 2
    State up = c.parameters, down = c.parameters;
    up[i] += e, down[i] -= e;
    const double difference = dot(sum(term.rhs(up, u), -1, term.rhs(down, u)), w) / (2 * e);
    EXPECT_NEAR(gradient[i], difference, 1e-7 * std::max(1.0, std::abs(difference)))
        << "parameter " << i - per_cell;
  }
}

TEST_P(TermConformance, ranks_do_not_matter) {
  Harness one = alone();
  const State f = one.rhs(c.parameters, u), jv = one.tangent(c.parameters, u, v);
  const Harness::Adjoint adjoint = one.adjoint(c.parameters, u, w);
  for (const MeshSpec& split : splits()) {
    Harness many(MPI_COMM_WORLD, c, split);
    EXPECT_LT(reached("term on all splits", relative_distance(many.rhs(c.parameters, u), f)), 1e-12);
    EXPECT_LT(reached("tangent on all splits", relative_distance(many.tangent(c.parameters, u, v), jv)),
              1e-12);
    const Harness::Adjoint spread = many.adjoint(c.parameters, u, w);
    EXPECT_LT(reached("adjoint on all splits", relative_distance(spread.u_bar, adjoint.u_bar)), 1e-12);
    EXPECT_LT(
        reached("parameter gradient on all splits", relative_distance(spread.parameters, adjoint.parameters)),
        1e-12);
  }
}

TEST_P(TermConformance, the_same_split_gives_the_same_bits) {
  for (const MeshSpec& split : splits()) {
    Harness first(MPI_COMM_WORLD, c, split), second(MPI_COMM_WORLD, c, split);
    EXPECT_EQ(first.rhs(c.parameters, u), second.rhs(c.parameters, u));
    EXPECT_EQ(first.tangent(c.parameters, u, v), second.tangent(c.parameters, u, v));
    EXPECT_EQ(first.adjoint(c.parameters, u, w).u_bar, second.adjoint(c.parameters, u, w).u_bar);
  }
}

TEST_P(TermConformance, adds_to_what_is_there) {
  const State one = without_inflow(State(c.size(), 1.0));
  for (const MeshSpec& split : splits()) {
    Harness term(MPI_COMM_WORLD, c, split);
    EXPECT_LT(relative_distance(term.rhs(c.parameters, u, 1.0), sum(term.rhs(c.parameters, u), 1, one)),
              1e-14);
    EXPECT_LT(relative_distance(term.tangent(c.parameters, u, v, 1.0),
                                sum(term.tangent(c.parameters, u, v), 1, one)),
              1e-14);
    EXPECT_LT(relative_distance(term.adjoint(c.parameters, u, w, 1.0).u_bar,
                                sum(term.adjoint(c.parameters, u, w).u_bar, 1, one)),
              1e-14);
  }
}

TEST_P(TermConformance, scale_multiplies_value_tangent_and_adjoint) {
  if (!c.build_scaled) return;
  const State zero(c.size(), 0.0);
  for (const MeshSpec& split : splits()) {
    Harness term(MPI_COMM_WORLD, c, split), scaled(MPI_COMM_WORLD, c, split, c.build_scaled);
    const auto times = [](const State& x) { return sum(State(x.size(), 0.0), conformance_scale, x); };
    EXPECT_LT(relative_distance(scaled.rhs(c.parameters, u), times(term.rhs(c.parameters, u))), 1e-14);
    EXPECT_LT(relative_distance(scaled.tangent(c.parameters, u, v), times(term.tangent(c.parameters, u, v))),
              1e-14);
    const Harness::Adjoint a = scaled.adjoint(c.parameters, u, w), b = term.adjoint(c.parameters, u, w);
    EXPECT_LT(relative_distance(a.u_bar, times(b.u_bar)), 1e-13);
    EXPECT_LT(relative_distance(a.parameters, times(b.parameters)), 1e-13);
  }
}

// Float has 24 bits; sums of a hundred numbers or so and LayerNorm's division lose up to two of the seven
// digits.
TEST_P(TermConformance, single_precision_kernels_agree_to_single_precision) {
  if (!c.build_single) return;
  for (const MeshSpec& split : splits()) {
    Harness term(MPI_COMM_WORLD, c, split), single(MPI_COMM_WORLD, c, split, c.build_single);
    EXPECT_LT(relative_distance(single.rhs(c.parameters, u), term.rhs(c.parameters, u)), 1e-5);
    EXPECT_LT(relative_distance(single.tangent(c.parameters, u, v), term.tangent(c.parameters, u, v)), 1e-5);
    const Harness::Adjoint a = single.adjoint(c.parameters, u, w), b = term.adjoint(c.parameters, u, w);
    EXPECT_LT(relative_distance(a.u_bar, b.u_bar), 1e-5);
    EXPECT_LT(relative_distance(a.parameters, b.parameters), 1e-5);
  }
}

// With tapes: the same operations in the same order.
TEST_P(TermConformance, what_is_kept_serves_tangent_and_adjoint_to_the_bit) {
  if (!c.build_keeping) return;
  for (const MeshSpec& split : splits())
    for (const auto& build : {c.build_keeping, c.build_keeping_second}) {
      if (!build) continue;
      Harness term(MPI_COMM_WORLD, c, split), keeping(MPI_COMM_WORLD, c, split, build);
      EXPECT_EQ(keeping.rhs(c.parameters, u, 0.5), term.rhs(c.parameters, u, 0.5));
      EXPECT_EQ(keeping.tangent(c.parameters, u, v), term.tangent(c.parameters, u, v));
      const Harness::Adjoint a = keeping.adjoint(c.parameters, u, w, 0.5),
                             b = term.adjoint(c.parameters, u, w, 0.5);
      EXPECT_EQ(a.u_bar, b.u_bar);
      EXPECT_EQ(a.parameters, b.parameters);
    }
}

// The tangent in state and weights, of all slab terms: those without second derivatives, too. Differences as
// for the parameter gradient.
TEST_P(TermConformance, tangent_in_the_weights_is_the_central_difference_with_and_without_tapes) {
  if (!c.tangent_in_weights) return;
  for (const MeshSpec& split : splits()) {
    Harness term(MPI_COMM_WORLD, c, split);
    const Point at{c.parameters, without_inflow(u), {}}, along{q, without_inflow(v), {}};
    const State tangent = term.tangent(at, along, {});
    EXPECT_EQ(term.tangent(at, along, Order::first), tangent);
    if (c.second_derivatives) {
      EXPECT_EQ(term.tangent(at, along, Order::second), tangent);
    }
    const double e = 1e-5;
    const auto there = [&](double step) {
      return term.rhs(sum(c.parameters, step, q), sum(at.u, step, along.u));
    };
    const State change = sum(there(e), -1, there(-e));
    EXPECT_LT(norm(sum(change, -2 * e, tangent)), 1e-7 * 2 * e * norm(tangent));
  }
}

// Seam ImplicitTerm.
TEST_P(TermConformance, an_implicit_term_is_linear_and_knows_its_diagonal) {
  Harness one = alone();
  if (!one.diagonal(c.parameters, 1, 0)) return;
  const State f = one.rhs(c.parameters, u), jv = one.tangent(c.parameters, u, v);
  EXPECT_LT(relative_distance(sum(one.rhs(c.parameters, sum(u, 1, v)), -1, f), jv), 1e-13);
  State expected(c.size(), 0.0);
  for (std::size_t i = c.slab(); i < c.size(); ++i) {
    State unit(c.size(), 0.0);
    unit[i] = 1;
    expected[i] = 3 - 2 * one.tangent(c.parameters, u, unit)[i];
  }
  for (const MeshSpec& split : splits()) {
    const auto diagonal = Harness(MPI_COMM_WORLD, c, split).diagonal(c.parameters, -2, 3);
    EXPECT_LT(relative_distance(diagonal.value(), expected), 1e-14);
  }
}

// At the stability limit of a diffusion the new values are averages of the old ones. The inflow is zero.
TEST_P(TermConformance, diffusion_at_its_step_limit_raises_no_maximum) {
  const auto limit = alone().step_limit(c.parameters);
  const State start = without_inflow(u);
  const auto largest = [](const State& x) {
    double most = 0;
    for (const double value : x) most = std::max(most, std::abs(value));
    return most;
  };
  for (const MeshSpec& split : splits()) {
    Harness term(MPI_COMM_WORLD, c, split);
    const auto here = term.step_limit(c.parameters);
    ASSERT_EQ(here.has_value(), limit.has_value());
    if (!limit) continue;
    EXPECT_EQ(here->rate, limit->rate) << "ranks choose one step together";
    EXPECT_EQ(here->text, limit->text);
    if (limit->kind != StepLimit::Kind::diffusion) continue;
    EXPECT_LE(largest(sum(start, 1 / limit->rate, term.rhs(c.parameters, start))),
              largest(start) * (1 + 1e-14));
  }
}

TEST_P(TermConformance, says_how_it_is_written) {
  EXPECT_FALSE(alone().text(c.parameters).formula.empty());
}

INSTANTIATE_TEST_SUITE_P(Term, TermConformance, testing::ValuesIn(every_term()),
                         [](const auto& tested) { return tested.param.name; });
INSTANTIATE_TEST_SUITE_P(ModelTerm, TermConformance, testing::ValuesIn(every_model_term()),
                         [](const auto& tested) { return tested.param.name; });

}  // namespace

/// Failure messages print the name of the case, not its bytes.
void PrintTo(const TermCase& c, std::ostream* out) {
  *out << c.name;
}

}  // namespace fluxformer::test::term_conformance
