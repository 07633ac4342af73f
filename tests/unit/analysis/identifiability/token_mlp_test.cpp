// The map with one hidden layer: its gradient, what it learns, and that the order of samples does not matter.

#include "analysis/identifiability/token_mlp_training.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "tests/support/test_matrices.hpp"
#include "tests/unit/analysis/identifiability/token_case.hpp"

namespace fluxformer::identifiability {
namespace {

constexpr int d = 4;

/// Samples whose states are a rotation of their tokens, each channel bent by x + bend x^3.
TokenExamples bent_tokens(std::size_t samples, unsigned seed, double curvature) {
  const Matrix q = test::orthogonal_factor(normal_matrix(d, d, 5));
  TokenExamples set{samples, {}};
  for (std::size_t s = 0; s < samples; ++s) {
    const Matrix x = normal_matrix(6 + static_cast<int>(s % 3), d, seed + static_cast<unsigned>(s));
    const Matrix turned = test::product(x, q);
    set.samples.push_back({s, (turned.array() + curvature * turned.array().cube()).matrix(), x});
  }
  return set;
}

RidgeSums moments_of(const TokenExamples& set) {
  RidgeSums sums(d, static_cast<int>(set.samples[0].descriptions.cols()));
  for (const auto& sample : set.samples) sums.add(sample.states, sample.descriptions);
  sums.reduce(MPI_COMM_SELF);
  return sums;
}

double rate_of(const TokenExamples& set, const auto& map, TokenDistance distance) {
  RateSums sums;
  for (const auto& sample : set.samples)
    sums.add(nearest_tokens(map(sample.states), sample.descriptions, distance));
  sums.reduce(MPI_COMM_SELF);
  return sums.rate();
}

MlpSettings quick() {
  MlpSettings settings;
  settings.hidden = 24;
  settings.epochs = 40;
  settings.batch = 8;
  settings.rate = 2e-2;
  return settings;
}

TEST(MlpMap, has_the_gradient_of_its_loss) {
  const auto set = bent_tokens(3, 1, 0.3);
  for (const auto distance : {TokenDistance::l2, TokenDistance::cosine}) {
    MlpMap map(moments_of(set), 5, 3);
    ASSERT_EQ(map.size(), 4u * 5 + 5 + 5 * 4 + 4);
    for (std::size_t k = 0; k < map.size(); ++k)
      map.weights()[k] += 0.1 * std::sin(1.0 + static_cast<double>(k));
    std::vector<double> gradient(map.size(), 1.0);  // it is added to what is there
    const double loss = map.add_gradient(set.samples[1], distance, gradient);
    EXPECT_DOUBLE_EQ(loss, map.loss(set.samples[1], distance));
    for (std::size_t k = 0; k < map.size(); ++k) {
      constexpr double step = 1e-5;
      MlpMap above = map, below = map;
      above.weights()[k] += step, below.weights()[k] -= step;
      const double slope =
          (above.loss(set.samples[1], distance) - below.loss(set.samples[1], distance)) / (2 * step);
      // Central differences: third derivatives of the order of 10 times step^2 / 6, and round-off 1e-15 * 10 / step.
      EXPECT_NEAR(gradient[k] - 1, slope, 3e-9) << k;
    }
  }
}

TEST(MlpMap, is_the_formula) {
  const auto set = bent_tokens(5, 1, 0.1);
  const auto moments = moments_of(set);
  MlpMap map(moments, 2, 1);
  for (std::size_t k = 0; k < map.size(); ++k) map.weights()[k] = 0.1 * static_cast<double>(k) - 1;
  const auto w = [](std::size_t k) { return 0.1 * static_cast<double>(k) - 1; };
  const Matrix& u = set.samples[0].states;
  const Matrix found = map(u);
  for (int t = 0; t < u.rows(); ++t)
    for (std::size_t m = 0; m < 4; ++m) {
      double sum = w(18 + m);  // W_1: 0-7, b_1: 8-9, W_2: 10-17, b_2: 18-21
      for (std::size_t h = 0; h < 2; ++h) {
        double inner = w(8 + h);
        for (std::size_t k = 0; k < 4; ++k) {
          const auto channel = static_cast<Eigen::Index>(k);
          inner += (u(t, channel) - moments.mean_state()[channel]) / std::sqrt(moments.state_variance()) *
                   w(2 * k + h);
        }
        sum += std::tanh(inner) * w(10 + 4 * h + m);
      }
      const auto channel = static_cast<Eigen::Index>(m);
      EXPECT_NEAR(found(t, channel),
                  moments.mean_description()[channel] + std::sqrt(moments.description_variance()) * sum,
                  1e-13);
    }
  EXPECT_EQ(map.decays(),
            (std::vector<char>{1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0}));
}

TEST(MlpMap, of_constant_tokens_has_the_loss_1) {
  // The unit of the loss: what the mean of the descriptions, the best constant, leaves.
  auto set = bent_tokens(40, 1, 0.1);
  MlpMap map(moments_of(set), 3, 1);
  std::fill(map.weights().begin(), map.weights().end(), 0.0);
  double sum = 0, tokens = 0;
  for (const auto& sample : set.samples) {
    sum += map.loss(sample, TokenDistance::l2);
    tokens += static_cast<double>(sample.states.rows());
  }
  EXPECT_NEAR(sum / tokens, 1, 1e-12);
}

TEST(MlpTraining, learns_a_mildly_bent_map_better_than_a_line) {
  const auto training = bent_tokens(120, 1, 1), validation = bent_tokens(20, 1000, 1),
             test = bent_tokens(60, 2000, 1);
  const auto line = moments_of(training).solve({0})[0];
  for (const auto distance : {TokenDistance::l2, TokenDistance::cosine}) {
    const auto trained = train_token_mlp(training, validation, distance, quick(), MPI_COMM_SELF);
    EXPECT_GT(rate_of(test, trained.map, distance), rate_of(test, line, distance))
        << rate_of(test, trained.map, distance);
    EXPECT_GT(rate_of(test, trained.map, distance), 0.97);
    EXPECT_LT(trained.validation, 0.05);
    EXPECT_LT(trained.training, 0.05);
  }
}

TEST(MlpTraining, does_not_depend_on_the_order_in_which_samples_are_held) {
  const auto training = bent_tokens(30, 1, 0.5), validation = bent_tokens(10, 1000, 0.5);
  auto turned = training;
  std::reverse(turned.samples.begin(), turned.samples.end());
  auto settings = quick();
  settings.epochs = 5;
  const auto one = train_token_mlp(training, validation, TokenDistance::l2, settings, MPI_COMM_SELF),
             other = train_token_mlp(turned, validation, TokenDistance::l2, settings, MPI_COMM_SELF);
  // The order of sums: moments to 1e-16, carried on by 20 steps.
  EXPECT_LT(test::relative_difference(one.map.weights(), other.map.weights()), 1e-11);
  settings.seed = 2;
  const auto third = train_token_mlp(training, validation, TokenDistance::l2, settings, MPI_COMM_SELF);
  EXPECT_GT(test::relative_difference(third.map.weights(), one.map.weights()), 0.1);
}

TEST(MlpTraining, keeps_the_weights_that_were_best_on_the_validation_samples) {
  // Descriptions without any relation to the states: more training only fits the noise.
  auto training = bent_tokens(12, 1, 0), validation = bent_tokens(12, 1000, 0);
  for (auto* const set : {&training, &validation})
    for (auto& sample : set->samples)
      sample.descriptions =
          normal_matrix(static_cast<int>(sample.states.rows()), d,
                        (set == &training ? 5000u : 6000u) + static_cast<unsigned>(sample.place));
  auto settings = quick();
  settings.patience = 3;
  const auto trained = train_token_mlp(training, validation, TokenDistance::l2, settings, MPI_COMM_SELF);
  EXPECT_EQ(trained.epochs, trained.best + 3);
  EXPECT_LT(trained.epochs, settings.epochs);
  double sum = 0, tokens = 0;
  for (const auto& sample : validation.samples) {
    sum += trained.map.loss(sample, TokenDistance::l2);
    tokens += static_cast<double>(sample.states.rows());
  }
  EXPECT_NEAR(trained.validation, sum / tokens, 1e-13);
}

TEST(MlpTraining, of_no_samples_or_settings_without_sense_is_refused) {
  const auto set = bent_tokens(4, 1, 0);
  const auto refused = [&](const auto& change) {
    auto settings = quick();
    change(settings);
    EXPECT_THROW(train_token_mlp(set, set, TokenDistance::l2, settings, MPI_COMM_SELF), BadInput);
  };
  refused([](MlpSettings& s) { s.hidden = 0; });
  refused([](MlpSettings& s) { s.batch = 0; });
  refused([](MlpSettings& s) { s.epochs = 0; });
  refused([](MlpSettings& s) { s.patience = 0; });
  EXPECT_THROW(train_token_mlp({}, set, TokenDistance::l2, quick(), MPI_COMM_SELF), BadInput);
  EXPECT_THROW(train_token_mlp(set, {}, TokenDistance::l2, quick(), MPI_COMM_SELF), BadInput);
  auto broken = set;
  broken.samples[0].states(0, 0) = NAN;
  EXPECT_THROW(train_token_mlp(broken, set, TokenDistance::l2, quick(), MPI_COMM_SELF), NumericalFailure);
  EXPECT_THROW(train_token_mlp(set, broken, TokenDistance::l2, quick(), MPI_COMM_SELF), NumericalFailure);
}

}  // namespace
}  // namespace fluxformer::identifiability
