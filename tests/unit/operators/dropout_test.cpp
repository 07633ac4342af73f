// Dropout: the fraction dropped, the scaling of the rest, and a term with dropout, its tangent and adjoints.

#include "operators/dropout.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "model/depth_weights.hpp"
#include "operators/reaction/reaction.hpp"
#include "tests/support/small_problem.hpp"
#include "tests/support/test_vectors.hpp"

namespace fluxformer {
namespace {

using namespace test;

constexpr double rate = 0.3;

class Case {
 public:
  Case()
      : dropout(rate, 3),
        line(TokenLine::even(MPI_COMM_SELF, 5, 3)),
        parameters(random_parameters({.model = small_model(2)})),
        context{&line, 4, parameters.spec.width, {}, &dropout},
        weights(parameters) {
    dropout.set_keys({11, 12, 13, 14});
  }
  Dropout dropout;
  TokenLine line;
  Parameters parameters;
  SlabContext context;
  DepthWeights<double> weights;
};

TEST(Dropout, drops_its_share_and_divides_the_rest) {
  Case c;
  double dropped = 0, all = 0;
  for (std::uint64_t site = 0; site < 20; ++site) {
    std::vector<double> ones(c.context.size(), 1.0);
    c.dropout.apply(c.context, site, ones.data());
    for (const double value : ones) {
      if (value == 0)
        dropped += 1;
      else
        EXPECT_EQ(value, 1 / (1 - rate));
      all += 1;
    }
  }
  // Binomial: five standard deviations.
  EXPECT_NEAR(dropped / all, rate, 5 * std::sqrt(rate * (1 - rate) / all));
}

TEST(Dropout, depends_on_the_key_of_a_sample_and_not_on_its_place) {
  Case c;
  const std::size_t row = c.context.row(), width = static_cast<std::size_t>(c.context.width);
  std::vector<double> first(c.context.size(), 1.0), second = first, other_site = first;
  c.dropout.apply(c.context, 5, first.data());
  c.dropout.apply(c.context, 6, other_site.data());
  EXPECT_NE(first, other_site);
  c.dropout.set_keys({14, 13, 12, 11});
  c.dropout.apply(c.context, 5, second.data());
  for (std::size_t j = 0; j < first.size(); ++j) {
    const std::size_t sample = j % row / width;
    EXPECT_EQ(second[j - sample * width + (3 - sample) * width], first[j]);
  }
  c.dropout.set_keys({});
  std::vector<double> untouched(c.context.size(), 1.0);
  c.dropout.apply(c.context, 5, untouched.data());
  EXPECT_EQ(untouched, std::vector<double>(c.context.size(), 1.0));
}

TEST(DroppedTerm, is_the_masked_term_with_its_derivatives) {
  Case c;
  Reaction<double> reaction(c.context, {.hidden = c.parameters.spec.ffn});
  int layer = 2;
  DroppedTerm<double> term(reaction, c.context, layer, 1);
  const auto w = c.weights.at({1, 0});
  const std::size_t size = c.context.size();
  const auto u = random_vector(size, 1), v = random_vector(size, 2), z = random_vector(size, 3);

  std::vector<double> plain(size, 0.0), value(size, 0.0), kept_value(size);
  reaction.apply(w, u.data(), add_to(plain.data(), 0.7), nullptr);
  c.dropout.apply(c.context, 4 * 2 + 1, plain.data());
  term.apply(w, u.data(), add_to(value.data(), 0.7), nullptr);
  EXPECT_EQ(value, plain);
  const auto kept = term.make_tape(Order::first);
  const std::vector<double> zero(size, 0.0);
  term.apply(w, u.data(), {0.7, zero.data(), kept_value.data()}, kept.get());
  EXPECT_LT(relative_difference(kept_value, value), 1e-14);  // the same sums, with the zero added elsewhere

  std::vector<double> tangent(size, 0.0), adjoint(size, 0.0), kept_adjoint(size);
  term.push(w, nullptr, {u.data(), v.data()}, add_to(tangent.data(), 0.7), nullptr);
  term.pull(w, u.data(), z.data(), add_to(adjoint.data(), 0.7), nullptr, nullptr);
  term.pull(w, u.data(), z.data(), {0.7, zero.data(), kept_adjoint.data()}, nullptr, kept.get());
  EXPECT_NEAR(dot(tangent, z), dot(v, adjoint), 1e-12 * norm(v) * norm(adjoint));
  EXPECT_LT(relative_difference(kept_adjoint, adjoint), 1e-13);

  layer = 1;
  std::vector<double> elsewhere(size, 0.0);
  term.apply(w, u.data(), add_to(elsewhere.data(), 0.7), nullptr);
  EXPECT_NE(elsewhere, value) << "each layer has a mask of its own";
}

}  // namespace
}  // namespace fluxformer
