#include "operators/reaction/reaction.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include "base/phases.hpp"
#include "tests/support/reaction_parameters.hpp"
#include "tests/support/reference_layer.hpp"
#include "tests/support/richardson.hpp"
#include "tests/support/test_vectors.hpp"

namespace fluxformer {
namespace {

using namespace test;

struct ReactionCase {
  int tokens, samples, width, hidden;
};

enum class Normal { none, layer, rms };
enum class With { biases, no_biases };
enum class Gate { none, multiplies };

/// A network: its functions and the arrays that it has.
struct Network {
  Activation activation;
  Normal norm;
  Gate gate = Gate::none;
  With with = With::biases;

  ReactionSettings settings(int hidden) const {
    return {.hidden = hidden,
            .activation = activation,
            .layer_norm = norm != Normal::none,
            .gated = gate == Gate::multiplies};
  }
  ReactionShape shape(int width, int hidden) const {
    const NormMap map = norm == Normal::rms ? NormMap::rms : NormMap::layer;
    return {width, hidden, gate == Gate::multiplies, with == With::biases, {.map = map}};
  }
  /// False where ReLU has kinks.
  bool smooth() const { return activation != Activation::relu; }
  std::string name() const {
    const char *functions[] = {"gelu_erf", "gelu_tanh", "relu", "silu"},
               *norms[] = {"plain", "normalised", "rms"};
    return std::string(gate == Gate::multiplies ? "gated_" : "") + functions[static_cast<int>(activation)] +
           '_' + norms[static_cast<int>(norm)] + (with == With::biases ? "" : "_no_biases");
  }
};

/// Plain networks, and gated ones as published models have them: SwiGLU with RMSNorm and no biases, GeGLU.
std::vector<Network> networks() {
  using enum Activation;
  using enum Normal;
  return {{gelu_erf, layer},
          {gelu_erf, none},
          {gelu_tanh, layer},
          {gelu_tanh, none},
          {relu, layer},
          {relu, none},
          {silu, layer},
          {silu, none},
          {gelu_erf, layer, Gate::none, With::no_biases},
          {relu, rms, Gate::none, With::no_biases},
          {silu, rms, Gate::multiplies, With::no_biases},
          {silu, layer, Gate::multiplies},
          {gelu_erf, none, Gate::multiplies, With::no_biases},
          {gelu_tanh, rms, Gate::multiplies},
          {relu, none, Gate::multiplies},
          {relu, layer, Gate::multiplies, With::no_biases}};
}

class ReactionTerm : public testing::TestWithParam<std::tuple<ReactionCase, Network>> {
 protected:
  ReactionCase size = std::get<0>(GetParam());
  Network network = std::get<1>(GetParam());
  ReactionSettings settings = network.settings(size.hidden);
  TokenLine line = TokenLine::even(MPI_COMM_SELF, size.tokens, 1);
  SlabContext context{&line, size.samples, size.width};
  ReactionParameters parameters{network.shape(size.width, size.hidden), 11};
  std::vector<double> u = random_vector(context.size(), 1, 1.2, 0.3), v = random_vector(context.size(), 2),
                      w = random_vector(context.size(), 3);

  /// The two terms of a gate's derivative may cancel, and a single hidden unit has no others: what is left is all
  /// of it, and only as good as the terms were.
  bool lonely_gate() const { return settings.gated && size.hidden == 1; }

  template <class T = double>
  std::vector<double> value(const std::vector<double>& at, const std::vector<double>& flat) const {
    const std::vector<T> rounded = rounded_to<T>(flat);
    LayerWeights<const T> weights;
    weights.reaction = parameters.view<const T>(rounded.data(), &flat.back());
    std::vector<double> out(at.size());
    Reaction<T>(context, settings).apply(weights, at.data(), add_to(out.data(), 1), nullptr);
    return out;
  }
  std::vector<double> value(const std::vector<double>& at) const { return value(at, parameters.flat); }

  template <class T = double>
  std::vector<double> tangent() const {
    const std::vector<T> rounded = rounded_to<T>(parameters.flat);
    LayerWeights<const T> weights;
    weights.reaction = parameters.view<const T>(rounded.data(), &parameters.flat.back());
    std::vector<double> out(u.size());
    Reaction<T>(context, settings)
        .push(weights, nullptr, {u.data(), v.data()}, add_to(out.data(), 1), nullptr);
    return out;
  }

  struct Adjoint {
    std::vector<double> u_bar, flat;
  };
  template <class T = double>
  Adjoint adjoint(double scale = 1, double start = 0, bool with_parameters = true) const {
    const std::vector<T> rounded = rounded_to<T>(parameters.flat);
    LayerWeights<const T> weights;
    weights.reaction = parameters.view<const T>(rounded.data(), &parameters.flat.back());
    Adjoint bar{std::vector<double>(u.size(), start), std::vector<double>(parameters.flat.size(), start)};
    LayerWeights<double> gradient;
    gradient.reaction = parameters.view<double>(bar.flat.data(), &bar.flat.back());
    Reaction<T>(context, settings)
        .pull(weights, u.data(), w.data(), add_to(bar.u_bar.data(), scale),
              with_parameters ? &gradient : nullptr, nullptr);
    return bar;
  }
};

// Sums of at most max(d, f) terms in another order, and an erf of 4 units in the last place.
TEST_P(ReactionTerm, matches_the_plain_loops) {
  const auto weights = parameters.view<const double>(parameters.flat.data(), &parameters.flat.back());
  const std::vector<double> expected = reference::feed_forward(u, size.width, settings, weights);
  EXPECT_LE(relative_difference(value(u), expected), 1e-14 * std::sqrt(size.hidden));
}

TEST_P(ReactionTerm, adds_to_what_is_there_with_its_scale) {
  LayerWeights<const double> weights;
  weights.reaction = parameters.view<const double>(parameters.flat.data(), &parameters.flat.back());
  Reaction<double> reaction(context, settings);
  std::vector<double> out = w, tangent_out = w;
  reaction.apply(weights, u.data(), add_to(out.data(), -0.7), nullptr);
  reaction.push(weights, nullptr, {u.data(), v.data()}, add_to(tangent_out.data(), -0.7), nullptr);
  EXPECT_LE(relative_difference(out, plus(w, -0.7, value(u))), 1e-14);
  EXPECT_LE(relative_difference(tangent_out, plus(w, -0.7, tangent())), 1e-14);
  const Adjoint plain = adjoint(), scaled = adjoint(-0.7, 0.5);
  EXPECT_LE(relative_difference(scaled.u_bar, plus(std::vector<double>(u.size(), 0.5), -0.7, plain.u_bar)),
            1e-14);
  EXPECT_LE(
      relative_difference(scaled.flat, plus(std::vector<double>(plain.flat.size(), 0.5), -0.7, plain.flat)),
      1e-13);
}

TEST_P(ReactionTerm, tangent_leaves_a_second_order_remainder) {
  const auto remainder = [&](double h) {
    return norm(plus(value(plus(u, h, v)), -1, plus(value(u), h, tangent())));
  };
  if (network.smooth()) {
    EXPECT_NEAR(std::log2(remainder(1e-3) / remainder(5e-4)), 2, 0.05);
  } else {
    // Kinks: linear between them; a step this small crosses few or none.
    EXPECT_LE(remainder(1e-7), 1e-5 * 1e-7 * norm(tangent()));
  }
}

TEST_P(ReactionTerm, adjoint_is_the_transposed_tangent) {
  const std::vector<double> forward = tangent();
  EXPECT_NEAR(dot(adjoint().u_bar, v), dot(forward, w), 1e-12 * norm(forward) * norm(w));
}

TEST_P(ReactionTerm, adjoint_without_parameters_is_the_same) {
  EXPECT_EQ(adjoint(1, 0, false).u_bar, adjoint().u_bar);
}

// h = 1e-5: truncation h^2, round-off eps / h, both near 1e-10 of the derivative.
TEST_P(ReactionTerm, parameter_gradients_are_central_differences) {
  const Adjoint bar = adjoint();
  const std::vector<std::size_t>& begin = parameters.begin;
  const double h = network.smooth() ? 1e-5 : 1e-7;
  for (std::size_t part = 0; part + 1 < begin.size(); ++part) {
    if (!parameters.has(part)) continue;
    if (part < 2 && !settings.layer_norm) {
      for (std::size_t i = begin[part]; i < begin[part + 1]; ++i) ASSERT_EQ(bar.flat[i], 0);
      continue;
    }
    std::vector<double> direction(parameters.flat.size());
    const std::vector<double> random = random_vector(begin[part + 1] - begin[part], 17);
    std::copy(random.begin(), random.end(), direction.begin() + static_cast<std::ptrdiff_t>(begin[part]));
    const std::vector<double> change = plus(value(u, plus(parameters.flat, h, direction)), -1,
                                            value(u, plus(parameters.flat, -h, direction)));
    const double scale = norm(change) / (2 * h) * norm(w);
    EXPECT_NEAR(dot(bar.flat, direction), dot(change, w) / (2 * h), 1e-7 * scale)
        << ReactionParameters::names()[part];
  }
}

// Float round-off of numbers, weights and sums; a factor for the cancellation within sums of sqrt(f) terms. A
// kink of ReLU may fall on the other side: its slope is then wrong by one, of an input that is nearly zero.
TEST_P(ReactionTerm, agrees_between_float_and_double) {
  const double tolerance = 20 * 6e-8 * std::sqrt(size.width + size.hidden);
  EXPECT_LE(relative_difference(value<float>(u, parameters.flat), value(u)), tolerance);
  if (!network.smooth() || lonely_gate()) return;
  EXPECT_LE(relative_difference(tangent<float>(), tangent()), tolerance);
  const Adjoint single = adjoint<float>(), exact = adjoint();
  EXPECT_LE(relative_difference(single.u_bar, exact.u_bar), tolerance);
  for (std::size_t part = 0; part < ReactionParameters::names().size(); ++part)
    EXPECT_LE(relative_difference(parameters.part(single.flat, part), parameters.part(exact.flat, part)),
              tolerance)
        << ReactionParameters::names()[part];
}

std::string case_name(const testing::TestParamInfo<ReactionTerm::ParamType>& tested) {
  const auto& [size, network] = tested.param;
  return std::to_string(size.tokens * size.samples) + "_rows_hidden_" + std::to_string(size.hidden) + '_' +
         network.name();
}

// 553 rows of width 5: more than one block, the last one not full; hidden 1201: small blocks.
INSTANTIATE_TEST_SUITE_P(Sizes, ReactionTerm,
                         testing::Combine(testing::Values(ReactionCase{3, 1, 5, 7}, ReactionCase{7, 79, 5, 7},
                                                          ReactionCase{5, 13, 9, 1201},
                                                          ReactionCase{1, 1, 3, 1}),
                                          testing::ValuesIn(networks())),
                         case_name);

TEST(Reaction, first_half_uses_the_weights_of_the_first_half) {
  const TokenLine line = TokenLine::even(MPI_COMM_SELF, 3, 1);
  const SlabContext context{&line, 2, 5};
  const ReactionParameters first(5, 7, 1), second(5, 7, 2);
  LayerWeights<const double> weights;
  weights.first_reaction = first.view<const double>(first.flat.data(), &first.flat.back());
  weights.reaction = second.view<const double>(second.flat.data(), &second.flat.back());
  const std::vector<double> u = random_vector(context.size(), 3);
  for (const bool first_half : {true, false}) {
    const ReactionSettings settings{.hidden = 7, .first_half = first_half};
    std::vector<double> out(u.size());
    Reaction<double>(context, settings).apply(weights, u.data(), add_to(out.data(), 1), nullptr);
    const auto& used = first_half ? weights.first_reaction : weights.reaction;
    EXPECT_LE(relative_difference(out, reference::feed_forward(u, 5, settings, used)), 1e-14);
  }
}

TEST(Reaction, passes_a_nan_on) {
  const TokenLine line = TokenLine::even(MPI_COMM_SELF, 2, 1);
  const SlabContext context{&line, 1, 5};
  for (const Network& network : networks()) {
    const ReactionParameters parameters(network.shape(5, 7), 1);
    LayerWeights<const double> weights;
    weights.reaction = parameters.view<const double>(parameters.flat.data(), &parameters.flat.back());
    std::vector<double> u = random_vector(10, 3), out(10);
    u[2] = NAN;
    Reaction<double>(context, network.settings(7)).apply(weights, u.data(), add_to(out.data(), 1), nullptr);
    EXPECT_TRUE(std::isnan(out[0])) << network.name();
    EXPECT_FALSE(std::isnan(out[5])) << network.name();  // the other token
  }
}

// The reaction with tapes of second order: the same numbers as without, and derivatives of value and adjoint
// along a direction of weights, rho, state and adjoint together.

struct Case {
  int tokens, samples, width, hidden;
};

constexpr double scale = -0.7;

/// Weights, state and the adjoint's vector; or a direction of them.
struct Point {
  std::vector<double> flat, u, w;
  Point moved(double step, const Point& along) const {
    return {plus(flat, step, along.flat), plus(u, step, along.u), plus(w, step, along.w)};
  }
};

/// An adjoint or its tangent: of the state and of the parameters.
struct Bars {
  std::vector<double> u, flat;
};

class ReactionAlongADirection : public testing::TestWithParam<std::tuple<Case, Network>> {
 protected:
  Case size = std::get<0>(GetParam());
  Network network = std::get<1>(GetParam());
  ReactionSettings settings = network.settings(size.hidden);
  TokenLine line = TokenLine::even(MPI_COMM_SELF, size.tokens, 1);
  SlabContext context{&line, size.samples, size.width};
  ReactionParameters parameters{network.shape(size.width, size.hidden), 11};
  std::size_t parts = ReactionParameters::names().size();
  Point at{parameters.flat, random_vector(context.size(), 1, 1.2, 0.3), random_vector(context.size(), 3)};
  Point along = direction(20);
  /// Vector that results are added to.
  std::vector<double> base = random_vector(context.size(), 5);
  std::vector<double> flat_base = random_vector(parameters.flat.size(), 6);

  Point direction(unsigned seed) const {
    return {random_vector(parameters.flat.size(), seed, 0.5), random_vector(context.size(), seed + 1),
            random_vector(context.size(), seed + 2)};
  }
  /// Differences of ReLU must not cross a kink; then it is linear in z, and what is left is round-off.
  double step() const { return network.smooth() ? 4e-3 : 1e-5; }
  /// 8 eps / step = 2e-10 of the numbers whose differences are taken for ReLU, and these are larger than
  /// their derivatives where sums over the hidden units cancel.
  double tolerance() const { return network.smooth() ? 1e-9 : 1e-8; }

  /// A vector of parameters in the arithmetic T.
  template <class T>
  struct Rounded {
    Rounded(const ReactionParameters& shape, const std::vector<double>& flat)
        : numbers(rounded_to<T>(flat)), rho(flat.back()) {
      views.reaction = shape.view<const T>(numbers.data(), &rho);
    }
    std::vector<T> numbers;
    double rho;
    LayerWeights<const T> views;
  };
  LayerWeights<double> gradient_in(std::vector<double>& flat) const {
    LayerWeights<double> gradient;
    gradient.reaction = parameters.view<double>(flat.data(), &flat.back());
    return gradient;
  }

  std::vector<double> value(const Point& point) const {
    std::vector<double> out = base;
    const Rounded<double> weights(parameters, point.flat);
    Reaction<double>(context, settings)
        .apply(weights.views, point.u.data(), add_to(out.data(), scale), nullptr);
    return out;
  }
  Bars adjoint(const Point& point) const {
    Bars bars{base, flat_base};
    const Rounded<double> weights(parameters, point.flat);
    const auto gradient = gradient_in(bars.flat);
    Reaction<double>(context, settings)
        .pull(weights.views, point.u.data(), point.w.data(), add_to(bars.u.data(), scale), &gradient,
              nullptr);
    return bars;
  }

  /// A term linearised at `at`.
  template <class T>
  struct Linearised {
    Linearised(ReactionAlongADirection& test_case)
        : test(test_case), weights(test.parameters, test.at.flat), term(test.context, test.settings) {
      value = adjoint.u = std::vector<double>(test.base.size(), 7.0);  // overwritten
      adjoint.flat = test.flat_base;
      const auto gradient = test.gradient_in(adjoint.flat);
      term.apply(weights.views, test.at.u.data(), {scale, test.base.data(), value.data()}, kept.get());
      term.pull(weights.views, test.at.u.data(), test.at.w.data(),
                {scale, test.base.data(), adjoint.u.data()}, &gradient, kept.get());
    }
    std::vector<double> tangent(const Point& v, const std::vector<double>& from) {
      std::vector<double> out(from.size(), 7.0);
      const Rounded<T> dot(test.parameters, v.flat);
      term.push(weights.views, &dot.views, {test.at.u.data(), v.u.data()}, {scale, from.data(), out.data()},
                kept.get());
      return out;
    }
    Bars adjoint_tangent(const Point& v, const std::vector<double>& from) {
      Bars bars{std::vector<double>(from.size(), 7.0), test.flat_base};
      const Rounded<T> dot(test.parameters, v.flat);
      term.pull_along(weights.views, dot.views, {test.at.u.data(), v.u.data()},
                      {test.at.w.data(), v.w.data()}, {scale, from.data(), bars.u.data()},
                      test.gradient_in(bars.flat), kept.get());
      return bars;
    }
    Bars gauss_newton(const Point& v, const std::vector<double>& from) {
      Bars bars{std::vector<double>(from.size(), 7.0), test.flat_base};
      const auto gradient = test.gradient_in(bars.flat);
      term.pull(weights.views, test.at.u.data(), v.w.data(), {scale, from.data(), bars.u.data()}, &gradient,
                &kept->value());
      return bars;
    }
    /// D^2 along a direction, without the bases; another direction came before.
    Bars second(const Point& v) {
      const Point other = test.direction(70);
      tangent(other, test.base);
      adjoint_tangent(other, test.base);
      tangent(v, test.base);
      const Bars bars = adjoint_tangent(v, test.base);
      return {plus(bars.u, -1, test.base), plus(bars.flat, -1, test.flat_base)};
    }
    ReactionAlongADirection& test;
    Rounded<T> weights;
    Reaction<T> term;
    std::unique_ptr<TermTape> kept = term.make_tape(Order::second);
    std::vector<double> value;
    Bars adjoint;
  };
};

TEST_P(ReactionAlongADirection, starts_from_the_bits_of_value_and_adjoint) {
  Linearised<double> term(*this);
  const Bars plain = adjoint(at);
  EXPECT_EQ(term.value, value(at));
  EXPECT_EQ(term.adjoint.u, plain.u);
  EXPECT_EQ(term.adjoint.flat, plain.flat);
}

TEST_P(ReactionAlongADirection, a_gauss_newton_adjoint_is_the_adjoint_of_another_vector_to_the_bit) {
  Linearised<double> term(*this);
  const Bars plain = adjoint({at.flat, at.u, along.w}), again = term.gauss_newton(along, base);
  EXPECT_EQ(again.u, plain.u);
  EXPECT_EQ(again.flat, plain.flat);
}

// The tangent without weights is another code for the same derivative: sums of d + f terms in another order.
TEST_P(ReactionAlongADirection, tangent_of_the_state_alone_is_that_without_weights) {
  Linearised<double> term(*this);
  std::vector<double> expected = base;
  Reaction<double>(context, settings)
      .push(term.weights.views, nullptr, {at.u.data(), along.u.data()}, add_to(expected.data(), scale),
            nullptr);
  const Point state{std::vector<double>(at.flat.size()), along.u, along.w};
  EXPECT_LE(relative_difference(term.tangent(state, base), expected), 1e-14 * std::sqrt(size.hidden));
}

TEST_P(ReactionAlongADirection, tangent_is_the_derivative_in_weights_and_state) {
  Linearised<double> term(*this);
  const std::vector<double> expected =
      derivative([&](double e) { return value(at.moved(e, along)); }, step());
  EXPECT_LE(relative_difference(plus(term.tangent(along, base), -1, base), expected), tolerance());
}

TEST_P(ReactionAlongADirection, tangent_of_the_adjoint_is_its_derivative_in_all_three) {
  const Bars bars = Linearised<double>(*this).second(along);
  EXPECT_LE(relative_difference(bars.u,
                                derivative([&](double e) { return adjoint(at.moved(e, along)).u; }, step())),
            tolerance());
  const std::vector<double> flat =
      derivative([&](double e) { return adjoint(at.moved(e, along)).flat; }, step());
  for (std::size_t part = 0; part < parts; ++part) {
    const auto here = parameters.part(bars.flat, part), expected = parameters.part(flat, part);
    if (!parameters.has(part)) continue;
    if (part < 2 && !settings.layer_norm)
      EXPECT_EQ(norm(here), 0);  // no gain, no bias
    else
      EXPECT_LE(relative_difference(here, expected), tolerance()) << ReactionParameters::names()[part];
  }
}

// The second derivative of <w, term> for a fixed w. Sums of all parameters and numbers of the state, each
// with d + f roundings.
TEST_P(ReactionAlongADirection, second_derivative_is_symmetric) {
  Linearised<double> term(*this);
  Point one = direction(30), two = direction(40);
  one.w.assign(one.w.size(), 0.0);
  two.w = one.w;
  const Bars by_one = term.second(one), by_two = term.second(two);
  const double size_of_it = norm(by_one.u) * norm(two.u) + norm(by_one.flat) * norm(two.flat);
  EXPECT_NEAR(dot(by_one.u, two.u) + dot(by_one.flat, two.flat),
              dot(by_two.u, one.u) + dot(by_two.flat, one.flat), 1e-14 * size_of_it);
}

TEST_P(ReactionAlongADirection, a_base_may_be_the_result_or_a_vector_of_the_call) {
  Linearised<double> term(*this);
  const Rounded<double> weights(parameters, at.flat), weights_dot(parameters, along.flat);
  const double *u = at.u.data(), *w = at.w.data(), *u_dot = along.u.data(), *w_dot = along.w.data();
  const auto kept = term.term.make_tape(Order::second);
  std::vector<double> flat = flat_base, out = base;
  const auto gradient = gradient_in(flat);
  const auto expect = [&](const std::vector<double>& expected, const std::vector<double>& vector, auto call) {
    out = base;
    call(out.data());
    EXPECT_EQ(out, expected);
    out.assign(base.size(), 7.0);
    call(vector.data());
    for (std::size_t i = 0; i < base.size(); ++i)
      EXPECT_NEAR(out[i] - vector[i], expected[i] - base[i], 1e-14 * (norm(expected) + norm(vector)));
  };
  expect(term.value, at.u, [&](const double* from) {
    term.term.apply(weights.views, u, {scale, from, out.data()}, kept.get());
  });
  expect(term.adjoint.u, at.w, [&](const double* from) {
    term.term.pull(weights.views, u, w, {scale, from, out.data()}, nullptr, kept.get());
  });
  expect(term.tangent(along, base), along.u, [&](const double* from) {
    term.term.push(weights.views, &weights_dot.views, {u, u_dot}, {scale, from, out.data()}, kept.get());
  });
  // Without a gradient, the adjoint kept what its tangent needs all the same.
  flat = flat_base;
  const Bars bars = term.adjoint_tangent(along, base);
  term.term.pull_along(weights.views, weights_dot.views, {u, u_dot}, {w, w_dot},
                       {scale, base.data(), out.data()}, gradient, kept.get());
  EXPECT_EQ(flat, bars.flat);
  expect(bars.u, along.w, [&](const double* from) {
    term.term.pull_along(weights.views, weights_dot.views, {u, u_dot}, {w, w_dot}, {scale, from, out.data()},
                         gradient, kept.get());
  });
  expect(term.gauss_newton(along, base).u, along.w, [&](const double* from) {
    term.term.pull(weights.views, u, w_dot, {scale, from, out.data()}, &gradient, &kept->value());
  });
}

// As the gradient's, with some more sums. ReLU: see reaction_test.cpp.
TEST_P(ReactionAlongADirection, agrees_between_float_and_double) {
  if (!network.smooth()) return;
  if (settings.gated && size.hidden == 1) return;  // cancels: see ReactionTerm::lonely_gate
  const double tolerance = 40 * 6e-8 * std::sqrt(size.width + size.hidden);
  Linearised<float> single(*this);
  Linearised<double> exact(*this);
  EXPECT_LE(relative_difference(plus(single.tangent(along, base), -1, base),
                                plus(exact.tangent(along, base), -1, base)),
            tolerance);
  const Bars a = single.second(along), b = exact.second(along);
  EXPECT_LE(relative_difference(a.u, b.u), tolerance);
  for (std::size_t part = 0; part < parts; ++part)
    EXPECT_LE(relative_difference(parameters.part(a.flat, part), parameters.part(b.flat, part)), tolerance)
        << ReactionParameters::names()[part];
}

std::string name_of_case_along_a_direction(
    const testing::TestParamInfo<ReactionAlongADirection::ParamType>& tested) {
  const auto& [size, network] = tested.param;
  return std::to_string(size.tokens * size.samples) + "_rows_hidden_" + std::to_string(size.hidden) + '_' +
         network.name();
}

// 553 rows: more than one block, the last one not full; hidden 1201: small blocks; no rows.
INSTANTIATE_TEST_SUITE_P(Sizes, ReactionAlongADirection,
                         testing::Combine(testing::Values(Case{3, 1, 5, 7}, Case{7, 79, 5, 7},
                                                          Case{1, 3, 9, 1201}, Case{1, 1, 3, 1},
                                                          Case{3, 0, 5, 7}),
                                          testing::ValuesIn(networks())),
                         name_of_case_along_a_direction);

// Exact statements about gates and biases.

/// All that a network computes, at random states and along random directions of them.
struct Computed {
  std::vector<double> value, u_bar, tangent, tangent_in_all, u_bar_dot;
  std::vector<double> gradient, gradient_dot;  ///< like the flat parameters
};

template <class T>
Computed computed(const Network& network, const ReactionParameters& at, const ReactionParameters& along,
                  Operands operands = Operands::exact) {
  const int d = at.shape.width, f = at.shape.hidden;
  const TokenLine line = TokenLine::even(MPI_COMM_SELF, 7, 1);
  const SlabContext context{&line, 79, d};  // more than one block of rows, the last one not full
  const auto numbers = rounded_to<T>(at.flat), numbers_dot = rounded_to<T>(along.flat);
  LayerWeights<const T> weights, weights_dot;
  weights.reaction = at.view<const T>(numbers.data(), &at.flat.back());
  weights_dot.reaction = along.view<const T>(numbers_dot.data(), &along.flat.back());
  const std::size_t size = context.size();
  const auto u = random_vector(size, 1), u_dot = random_vector(size, 2), w = random_vector(size, 3),
             w_dot = random_vector(size, 4);
  const std::vector<double> zero(size), no_gradient(at.flat.size());
  Computed all{zero, zero, zero, zero, zero, no_gradient, no_gradient};
  const auto gradient_in = [&](std::vector<double>& flat) {
    LayerWeights<double> gradient;
    gradient.reaction = at.view<double>(flat.data(), &flat.back());
    return gradient;
  };
  const auto gradient = gradient_in(all.gradient), gradient_dot = gradient_in(all.gradient_dot);
  Reaction<T> term(context, network.settings(f), operands);
  const auto tape = term.make_tape(Order::second);
  term.apply(weights, u.data(), add_to(all.value.data(), scale), tape.get());
  term.pull(weights, u.data(), w.data(), add_to(all.u_bar.data(), scale), &gradient, tape.get());
  term.push(weights, nullptr, {u.data(), u_dot.data()}, add_to(all.tangent.data(), scale), tape.get());
  term.push(weights, &weights_dot, {u.data(), u_dot.data()}, add_to(all.tangent_in_all.data(), scale),
            tape.get());
  term.pull_along(weights, weights_dot, {u.data(), u_dot.data()}, {w.data(), w_dot.data()},
                  add_to(all.u_bar_dot.data(), scale), gradient_dot, tape.get());
  return all;
}

void expect_same_bits(const Computed& a, const Computed& b, const std::string& what) {
  EXPECT_EQ(a.value, b.value) << what;
  EXPECT_EQ(a.u_bar, b.u_bar) << what;
  EXPECT_EQ(a.tangent, b.tangent) << what;
  EXPECT_EQ(a.tangent_in_all, b.tangent_in_all) << what;
  EXPECT_EQ(a.u_bar_dot, b.u_bar_dot) << what;
}

constexpr int gate_matrix = 2, gate_bias = 3, matrix_1 = 4, bias_1 = 5;

/// W_1 and b_1 of a plain network as W_G and b_G of a gated one, whose own W_1 is 0 and b_1 a number.
ReactionParameters behind_a_gate(const ReactionParameters& plain, double b_1) {
  ReactionShape shape = plain.shape;
  shape.gated = true;
  ReactionParameters gated(shape, 1);
  for (std::size_t part = 0; part < gated.names().size(); ++part) {
    const std::size_t from = part == gate_matrix ? matrix_1 : part == gate_bias ? bias_1 : part;
    const auto numbers = part == matrix_1 ? std::vector<double>(plain.part(plain.flat, matrix_1).size(), 0.0)
                         : part == bias_1 ? std::vector<double>(plain.part(plain.flat, bias_1).size(), b_1)
                                          : plain.part(plain.flat, from);
    std::copy(numbers.begin(), numbers.end(), gated.at(part));
  }
  return gated;
}

// v = 0 N + 1 is 1 exactly, products with 1 are exact, and what the gate adds to sums is 0.
TEST(GatedReaction, with_a_factor_of_one_is_the_plain_network_to_the_bit) {
  const auto check = [&]<class T>(T, const Network& plain, Operands operands) {
    Network gated = plain;
    gated.gate = Gate::multiplies;
    const ReactionParameters at(plain.shape(24, 40), 5), along(plain.shape(24, 40), 6);
    const Computed expected = computed<T>(plain, at, along, operands),
                   found = computed<T>(gated, behind_a_gate(at, 1), behind_a_gate(along, 0), operands);
    expect_same_bits(found, expected, plain.name());
    const ReactionParameters shape = behind_a_gate(at, 1);
    for (std::size_t part = 0; part < shape.names().size(); ++part) {
      if (part == matrix_1 || part == bias_1) continue;
      const std::size_t from = part == gate_matrix ? matrix_1 : part == gate_bias ? bias_1 : part;
      EXPECT_EQ(shape.part(found.gradient, part), at.part(expected.gradient, from)) << shape.names()[part];
      EXPECT_EQ(shape.part(found.gradient_dot, part), at.part(expected.gradient_dot, from))
          << shape.names()[part];
    }
  };
  for (const Network& network : networks()) {
    if (network.gate == Gate::multiplies || network.with == With::no_biases) continue;
    check(0.0, network, Operands::exact);
    check(0.0F, network, Operands::exact);
    check(0.0F, network, Operands::bfloat16_as_float);
  }
}

TEST(Reaction, without_biases_is_that_with_zeros_to_the_bit) {
  for (Network network : networks()) {
    network.with = With::biases;
    ReactionParameters zeros(network.shape(24, 40), 5), zeros_dot(network.shape(24, 40), 6);
    Network without = network;
    without.with = With::no_biases;
    ReactionParameters none(without.shape(24, 40), 1), none_dot = none;
    for (std::size_t part = 0; part < zeros.names().size(); ++part)
      for (auto [with, left_out] : {std::pair{&zeros, &none}, {&zeros_dot, &none_dot}}) {
        const auto numbers = with->part(with->flat, part);
        if (none.has(part))
          std::copy(numbers.begin(), numbers.end(), left_out->at(part));
        else
          std::fill_n(with->at(part), numbers.size(), 0.0);
      }
    const Computed expected = computed<double>(network, zeros, zeros_dot),
                   found = computed<double>(without, none, none_dot);
    expect_same_bits(found, expected, network.name());
    for (std::size_t part = 0; part < zeros.names().size(); ++part) {
      if (!none.has(part)) continue;
      EXPECT_EQ(none.part(found.gradient, part), zeros.part(expected.gradient, part)) << zeros.names()[part];
      EXPECT_EQ(none.part(found.gradient_dot, part), zeros.part(expected.gradient_dot, part))
          << zeros.names()[part];
    }
  }
}

// relu(c z) = c relu(z) for c > 0, and the other factor gives another c. Sums of 40 numbers of both signs.
TEST(GatedReaction, of_relu_without_biases_and_norm_is_homogeneous_of_degree_two) {
  const Network network{Activation::relu, Normal::none, Gate::multiplies, With::no_biases};
  const ReactionParameters parameters(network.shape(24, 40), 5);
  const TokenLine line = TokenLine::even(MPI_COMM_SELF, 5, 1);
  const SlabContext context{&line, 3, 24};
  LayerWeights<const double> weights;
  weights.reaction = parameters.view<const double>(parameters.flat.data(), &parameters.flat.back());
  const auto value = [&](double c) {
    std::vector<double> u = random_vector(context.size(), 3), out(context.size());
    for (double& number : u) number *= c;
    Reaction<double>(context, network.settings(40)).apply(weights, u.data(), add_to(out.data(), 1), nullptr);
    return out;
  };
  const std::vector<double> zero(context.size());
  for (const double c : {0.3, 7.7, 1e5})
    EXPECT_LE(relative_difference(value(c), plus(zero, c * c, value(1))), 1e-13) << c;
  EXPECT_EQ(value(4), plus(zero, 16, value(1)));  // exact: no digit changes
}

TEST(Reaction, counts_two_products_or_three_with_a_gate) {
  const TokenLine line = TokenLine::even(MPI_COMM_SELF, 5, 1);
  const SlabContext context{&line, 3, 24};
  const auto flops = [&](Gate gate) {
    const Network network{Activation::silu, Normal::layer, gate};
    const ReactionParameters parameters(network.shape(24, 40), 5);
    LayerWeights<const double> weights;
    weights.reaction = parameters.view<const double>(parameters.flat.data(), &parameters.flat.back());
    std::vector<double> u = random_vector(context.size(), 3), out(context.size());
    const double before = work_counts().flops;
    Reaction<double>(context, network.settings(40)).apply(weights, u.data(), add_to(out.data(), 1), nullptr);
    return work_counts().flops - before;
  };
  EXPECT_EQ(flops(Gate::none), 15 * 4 * 24 * 40);
  EXPECT_EQ(flops(Gate::multiplies), 15 * 6 * 24 * 40);
}

TEST(ReactionTapes, hold_what_the_header_says) {
  const TokenLine line = TokenLine::even(MPI_COMM_SELF, 49, 1);
  const SlabContext context{&line, 23, 32};
  const std::size_t rows = 49 * 23, d = 32, f = 128;
  const auto kept = [&](Activation activation, Gate gate, Order upto) {
    const Network network{activation, Normal::layer, gate};
    return Reaction<double>(context, network.settings(128)).make_tape(upto)->bytes() / sizeof(double);
  };
  const auto plain = Gate::none, gated = Gate::multiplies;
  EXPECT_EQ(kept(Activation::gelu_erf, plain, Order::first), rows * (d + 2 * f));
  EXPECT_EQ(kept(Activation::silu, gated, Order::first), rows * (d + 3 * f));
  EXPECT_EQ(kept(Activation::gelu_erf, plain, Order::second), rows * (3 * d + 5 * f) + d * f + d);
  EXPECT_EQ(kept(Activation::relu, plain, Order::second), rows * (3 * d + 4 * f) + d * f + d);
  EXPECT_EQ(kept(Activation::silu, gated, Order::second), rows * (3 * d + 8 * f) + d * f + d);
  EXPECT_EQ(kept(Activation::relu, gated, Order::second), rows * (3 * d + 7 * f) + d * f + d);
}

}  // namespace
}  // namespace fluxformer
