// The variables of an optimiser: which entries move, which decay, and kappa as a softplus.

#include "training/trainable.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>

#include "base/error.hpp"
#include "tests/support/small_problem.hpp"
#include "tests/support/test_vectors.hpp"

namespace fluxformer {
namespace {

using namespace test;
constexpr CoefficientLimits no_cap;
constexpr TrainedCoefficients everything{true, true, true};

Parameters parameters(double kappa, bool with_words = false) {
  auto model = small_model(2);
  model.kappa_per_channel = true;
  model.classes = 3;
  model.tokens = 4;
  (with_words ? model.vocabulary : model.features) = 5;
  return random_parameters({.model = model, .kappa = kappa, .alpha = 0.9, .rho = 1.1});
}

std::set<std::string> decaying(const Parameters& p, const Trainable& trainable) {
  std::set<std::string> names;
  for (const auto& view : p.layout.views()) {
    int count = 0;
    for (Index j = view.offset; j < view.offset + view.size(); ++j) count += trainable.decays(j) ? 1 : 0;
    EXPECT_TRUE(count == 0 || count == view.size()) << view.path();
    if (count > 0) names.insert(view.group.substr(0, 6) + "/" + view.name);
  }
  return names;
}

TEST(Trainable, decays_matrices_only) {
  const auto numbers = parameters(0.1), of_words = parameters(0.1, true);
  EXPECT_EQ(decaying(numbers, Trainable(numbers, everything)),
            (std::set<std::string>{"embedd/W", "layers/W_Q", "layers/W_K", "layers/W_V", "layers/W_O",
                                   "layers/W_1", "layers/W_2", "head/W"}));
  EXPECT_TRUE(decaying(of_words, Trainable(of_words, {})).contains("embedd/words"));
}

TEST(Trainable, holds_the_coefficients_that_are_not_asked_for) {
  const auto p = parameters(0.1);
  const Index all = p.values.size(), kappas = 2 * 6;
  EXPECT_EQ(Trainable(p, {}).trained(), all - kappas - 2);
  EXPECT_EQ(Trainable(p, {.kappa = true}).trained(), all - 2);
  EXPECT_EQ(Trainable(p, {.alpha = true}).trained(), all - kappas - 1);
  EXPECT_EQ(Trainable(p, everything).trained(), all);

  const Trainable trainable(p, {.rho = true});
  auto gradient = random_vector(all, 3), raw = random_vector(all, 4), values = p.values;
  const auto before = gradient;
  trainable.pull(p.values, gradient);
  trainable.apply(raw, values, no_cap);
  for (const auto& view : p.layout.views()) {
    const bool frozen = view.name == "kappa" || view.name == "alpha";
    for (Index j = view.offset; j < view.offset + view.size(); ++j) {
      EXPECT_EQ(gradient[j], frozen ? 0 : before[j]) << view.path();
      EXPECT_EQ(values[j] == p.values[j], frozen) << view.path();
    }
  }
}

TEST(Trainable, gives_back_the_values_of_its_variables) {
  // Half a unit of the exponential and of the logarithm each, both of condition number at most about 1: for
  // small kappa raw = log kappa, which as a number is large.
  for (const double kappa : {1e-12, 1e-3, 0.1, 1.0, 30.0, 800.0}) {
    auto p = parameters(kappa);
    const Trainable trainable(p, everything);
    auto raw = trainable.raw(p.values);
    auto values = std::vector<double>(p.values.size(), 0.0);
    trainable.apply(raw, values, no_cap);
    for (std::size_t j = 0; j < values.size(); ++j)
      EXPECT_NEAR(values[j], p.values[j], 1e-14 * std::abs(p.values[j])) << "kappa " << kappa;
  }
}

TEST(Trainable, kappa_is_the_softplus_of_its_variable) {
  auto p = parameters(std::log(2));
  const Trainable trainable(p, everything);
  const auto at = p.layout.at("layers/2/kappa").offset;
  auto raw = trainable.raw(p.values);
  EXPECT_NEAR(raw[at], 0, 1e-15);
  raw[at] = std::log(3);  // log(1 + 3)
  raw[at + 1] = -40;      // effectively exp
  raw[at + 2] = 900;      // effectively the identity
  trainable.apply(raw, p.values, no_cap);
  EXPECT_DOUBLE_EQ(p.values[at], std::log(4));
  EXPECT_DOUBLE_EQ(p.values[at + 1], std::exp(-40));
  EXPECT_DOUBLE_EQ(p.values[at + 2], 900);
}

TEST(Trainable, pulls_the_gradient_of_differences) {
  // f(values) = sum of a_j values_j^2 / 2 as a function of the variables.
  auto p = parameters(0.4);
  const Trainable trainable(p, everything);
  const auto a = random_vector(p.values.size(), 5);
  const auto f = [&](std::vector<double> raw) {
    std::vector<double> values(raw.size());
    trainable.apply(raw, values, no_cap);
    double sum = 0;
    for (std::size_t j = 0; j < values.size(); ++j) sum += a[j] * values[j] * values[j] / 2;
    return sum;
  };
  const auto raw = trainable.raw(p.values);
  std::vector<double> gradient(a.size());
  for (std::size_t j = 0; j < a.size(); ++j) gradient[j] = a[j] * p.values[j];
  trainable.pull(p.values, gradient);
  // Central differences: step^2 times third derivatives below 1, round-off of a sum below 100 over the step.
  constexpr double step = 1e-4, tolerance = step * step + 1e-13 / step;
  for (const char* path : {"layers/1/kappa", "layers/2/kappa", "equation/alpha", "equation/rho", "head/b"}) {
    const auto& view = p.layout.at(path);
    for (Index j = view.offset; j < view.offset + view.size(); ++j) {
      auto up = raw, down = raw;
      up[j] += step;
      down[j] -= step;
      EXPECT_NEAR(gradient[j], (f(up) - f(down)) / (2 * step), tolerance) << path;
    }
  }
}

TEST(Trainable, keeps_kappa_and_its_variable_at_the_cap) {
  auto p = parameters(0.4);
  const Trainable trainable(p, everything);
  const auto at = p.layout.at("layers/1/kappa").offset;
  auto raw = trainable.raw(p.values);
  raw[at] = 3;
  trainable.apply(raw, p.values, {.kappa = 0.5});
  EXPECT_EQ(p.values[at], 0.5);
  EXPECT_DOUBLE_EQ(raw[at], std::log(std::exp(0.5) - 1));
  EXPECT_DOUBLE_EQ(p.values[at + 1], 0.4);
  // From there one small step down goes below immediately.
  raw[at] -= 0.01;
  trainable.apply(raw, p.values, {.kappa = 0.5});
  EXPECT_LT(p.values[at], 0.5);
  EXPECT_GT(p.values[at], 0.49);
  // The variable alone reproduces the value bit for bit: a restart has nothing else.
  for (double cap = 0.05; cap < 0.5; cap *= 1.03) {
    raw[at] = 3;
    trainable.apply(raw, p.values, {.kappa = cap});
    const double kept = p.values[at];
    trainable.apply(raw, p.values, {.kappa = cap});
    EXPECT_EQ(p.values[at], kept) << cap;
  }
}

TEST(Trainable, nu_is_a_softplus_with_a_cap_of_its_own) {
  auto model = small_model(2);
  model.causal = model.transport = true;
  auto p = random_parameters({.model = model, .nu = 0.4});
  const auto at = p.layout.at("layers/2/nu").offset;
  EXPECT_FALSE(Trainable(p, {.alpha = true}).moves(at));
  const Trainable trainable(p, {.nu = true});
  auto raw = trainable.raw(p.values);
  EXPECT_NEAR(raw[at], std::log(std::exp(0.4) - 1), 1e-15);
  EXPECT_FALSE(trainable.decays(at));
  raw[at] = 3;
  trainable.apply(raw, p.values, {.kappa = 0.1, .nu = 0.75});
  EXPECT_EQ(p.values[at], 0.75);
  std::vector<double> gradient(p.values.size(), 1.0);
  trainable.pull(p.values, gradient);
  EXPECT_DOUBLE_EQ(gradient[at], 1 - std::exp(-0.75));  // the sigmoid of the variable
  p.values[at] = 0;
  EXPECT_THAT([&] { const Trainable refused(p, {.nu = true}); },
              testing::ThrowsMessage<BadInput>(testing::HasSubstr("equation.nu > 0")));
}

TEST(Trainable, refuses_a_kappa_of_zero_to_be_trained) {
  auto p = parameters(0.4);
  p.view("layers/2/kappa")[3] = 0;
  EXPECT_NO_THROW(Trainable(p, {.alpha = true}));
  try {
    const Trainable refused(p, {.kappa = true});
    FAIL();
  } catch (const BadInput& error) {
    EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr("train.coefficients"),
                                             testing::HasSubstr("equation.kappa > 0")));
  }
}

}  // namespace
}  // namespace fluxformer
