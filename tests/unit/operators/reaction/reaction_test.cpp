#include "operators/reaction/reaction.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include "tests/support/reaction_parameters.hpp"
#include "tests/support/reference_layer.hpp"
#include "tests/support/test_vectors.hpp"

namespace fluxformer {
namespace {

using namespace test;

struct ReactionCase {
  int tokens, samples, width, hidden;
};

class ReactionTerm : public testing::TestWithParam<std::tuple<ReactionCase, Activation, bool>> {
 protected:
  ReactionCase size = std::get<0>(GetParam());
  ReactionSettings settings{size.hidden, std::get<1>(GetParam()), std::get<2>(GetParam()), false};
  TokenLine line = TokenLine::even(MPI_COMM_SELF, size.tokens, 1);
  SlabContext context{&line, size.samples, size.width};
  ReactionParameters parameters{size.width, size.hidden, 11};
  std::vector<double> u = random_vector(context.size(), 1, 1.2, 0.3), v = random_vector(context.size(), 2),
                      w = random_vector(context.size(), 3);

  bool smooth() const { return settings.activation != Activation::relu; }

  template <class T = double>
  std::vector<double> value(const std::vector<double>& at, const std::vector<double>& flat) const {
    const std::vector<T> rounded = rounded_to<T>(flat);
    LayerWeights<const T> weights;
    weights.reaction = parameters.view<const T>(rounded.data(), &flat.back());
    std::vector<double> out(at.size());
    Reaction<T>(context, settings).add_rhs(weights, at.data(), 1, out.data());
    return out;
  }
  std::vector<double> value(const std::vector<double>& at) const { return value(at, parameters.flat); }

  template <class T = double>
  std::vector<double> tangent() const {
    const std::vector<T> rounded = rounded_to<T>(parameters.flat);
    LayerWeights<const T> weights;
    weights.reaction = parameters.view<const T>(rounded.data(), &parameters.flat.back());
    std::vector<double> out(u.size());
    Reaction<T>(context, settings).add_tangent(weights, u.data(), v.data(), 1, out.data());
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
        .add_adjoint(weights, u.data(), w.data(), scale, bar.u_bar.data(),
                     with_parameters ? &gradient : nullptr);
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
  reaction.add_rhs(weights, u.data(), -0.7, out.data());
  reaction.add_tangent(weights, u.data(), v.data(), -0.7, tangent_out.data());
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
  if (smooth()) {
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
  const std::vector<std::size_t> begin = parameters.offsets();
  const double h = smooth() ? 1e-5 : 1e-7;
  for (std::size_t part = 0; part + 1 < begin.size(); ++part) {
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
  if (!smooth()) return;
  EXPECT_LE(relative_difference(tangent<float>(), tangent()), tolerance);
  const Adjoint single = adjoint<float>(), exact = adjoint();
  EXPECT_LE(relative_difference(single.u_bar, exact.u_bar), tolerance);
  for (std::size_t part = 0; part < ReactionParameters::names().size(); ++part)
    EXPECT_LE(relative_difference(parameters.part(single.flat, part), parameters.part(exact.flat, part)),
              tolerance)
        << ReactionParameters::names()[part];
}

std::string case_name(const testing::TestParamInfo<ReactionTerm::ParamType>& tested) {
  const auto& [size, activation, normalised] = tested.param;
  const char* names[] = {"gelu_erf", "gelu_tanh", "relu"};
  return std::to_string(size.tokens * size.samples) + "_rows_hidden_" + std::to_string(size.hidden) + '_' +
         names[static_cast<int>(activation)] + (normalised ? "_normalised" : "_plain");
}

// 553 rows of width 5: more than one block, the last one not full; hidden 1201: small blocks.
INSTANTIATE_TEST_SUITE_P(
    Sizes, ReactionTerm,
    testing::Combine(testing::Values(ReactionCase{3, 1, 5, 7}, ReactionCase{7, 79, 5, 7},
                                     ReactionCase{5, 13, 9, 1201}, ReactionCase{1, 1, 3, 1}),
                     testing::Values(Activation::gelu_erf, Activation::gelu_tanh, Activation::relu),
                     testing::Bool()),
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
    const ReactionSettings settings{7, Activation::gelu_erf, true, first_half};
    std::vector<double> out(u.size());
    Reaction<double>(context, settings).add_rhs(weights, u.data(), 1, out.data());
    const auto& used = first_half ? weights.first_reaction : weights.reaction;
    EXPECT_LE(relative_difference(out, reference::feed_forward(u, 5, settings, used)), 1e-14);
  }
}

TEST(Reaction, passes_a_nan_on) {
  const TokenLine line = TokenLine::even(MPI_COMM_SELF, 2, 1);
  const SlabContext context{&line, 1, 5};
  const ReactionParameters parameters(5, 7, 1);
  LayerWeights<const double> weights;
  weights.reaction = parameters.view<const double>(parameters.flat.data(), &parameters.flat.back());
  for (const Activation activation : {Activation::gelu_erf, Activation::gelu_tanh, Activation::relu}) {
    std::vector<double> u = random_vector(10, 3), out(10);
    u[2] = NAN;
    Reaction<double>(context, {7, activation, true, false}).add_rhs(weights, u.data(), 1, out.data());
    EXPECT_TRUE(std::isnan(out[0]));
    EXPECT_FALSE(std::isnan(out[5]));  // the other token
  }
}

}  // namespace
}  // namespace fluxformer
