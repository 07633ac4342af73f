// Ridge regression with intercept: exact maps, the normal equations, shrinkage.

#include <gtest/gtest.h>
#include <algorithm>
#include <cmath>

#include "analysis/identifiability/nearest_tokens.hpp"
#include "analysis/identifiability/token_map.hpp"
#include "base/error.hpp"
#include "tests/support/test_matrices.hpp"
#include "tests/unit/analysis/identifiability/token_case.hpp"

namespace fluxformer::identifiability {
namespace {

Matrix product(const Matrix& a, const Matrix& b) {
  return fluxformer::test::product(a, b);
}

/// The moments of samples of 10, 20, 30, ... tokens.
RidgeSums sums_of(const Matrix& u, const Matrix& x) {
  RidgeSums sums(static_cast<int>(u.cols()), static_cast<int>(x.cols()));
  Eigen::Index first = 0;
  for (Eigen::Index count = 10; first < u.rows(); first += count, count += 10) {
    count = std::min(count, u.rows() - first);
    sums.add(u.middleRows(first, count), x.middleRows(first, count));
  }
  sums.reduce(MPI_COMM_SELF);
  return sums;
}

double mean_square(const LinearMap& map, const Matrix& u, const Matrix& x) {
  return (map(u) - x).squaredNorm() / static_cast<double>(u.rows());
}

/// A square matrix with singular values from 1 down to 1/condition.
Matrix with_condition(int d, double condition) {
  const Matrix left = fluxformer::test::orthogonal_factor(normal_matrix(d, d, 11)),
               right = fluxformer::test::orthogonal_factor(normal_matrix(d, d, 12));
  Eigen::VectorXd values(d);
  for (int k = 0; k < d; ++k) values[k] = std::pow(condition, -k / (d - 1.0));
  return product(left * values.asDiagonal(), right);
}

TEST(LinearMap, without_ridge_undoes_an_invertible_map) {
  constexpr int d = 12;
  for (const double condition : {1.0, 30.0, 1e3}) {
    const Matrix x = normal_matrix(400, d, 1).rowwise() + 2 * normal_matrix(1, d, 2).row(0);
    const Matrix u = product(x, with_condition(d, condition)).rowwise() + normal_matrix(1, d, 3).row(0);
    const auto map = sums_of(u, x).solve({0})[0];
    // eps cond(U)^2 times the number of channels, times 1 + |mean|^2 / variance, about 10, times the
    // round-off of sums of 400 tokens, about 10.
    const double bound = 2.2e-16 * condition * condition * d * 100;
    const Matrix fresh = normal_matrix(50, d, 4);
    const Matrix moved =
        product(fresh, with_condition(d, condition)).rowwise() + normal_matrix(1, d, 3).row(0);
    EXPECT_LT((map(moved) - fresh).norm() / fresh.norm(), bound) << condition;
    EXPECT_EQ(nearest_tokens(map(moved), fresh, TokenDistance::l2).rate, 1);
    EXPECT_LT(nearest_tokens(moved, fresh, TokenDistance::l2).rate, 0.9);
  }
}

TEST(LinearMap, solves_the_normal_equations_for_every_lambda) {
  const Matrix u = normal_matrix(90, 6, 1).array() + 0.7,
               x = product(u, normal_matrix(6, 4, 2)) + normal_matrix(90, 4, 3);
  const std::vector<double> lambdas{0, 1e-3, 0.1, 10};
  const auto maps = sums_of(u, x).solve(lambdas);
  const Matrix uc = u.rowwise() - u.colwise().mean(), xc = x.rowwise() - x.colwise().mean();
  const Matrix c = product(uc.transpose(), uc) / 90, b = product(uc.transpose(), xc) / 90;
  for (std::size_t k = 0; k < lambdas.size(); ++k) {
    const Matrix& g = maps[k].slope;
    // 90 tokens and 6 channels of the order of 1: some tens of round-offs.
    EXPECT_LT((product(c, g) + lambdas[k] * c.trace() / 6 * g - b).norm(), 1e-13) << lambdas[k];
    EXPECT_LT((maps[k](u).colwise().mean() - x.colwise().mean()).norm(), 1e-13);
    if (k == 0) continue;
    EXPECT_LT(g.norm(), maps[k - 1].slope.norm());
    EXPECT_GT(mean_square(maps[k], u, x), mean_square(maps[k - 1], u, x));
  }
}

TEST(LinearMap, of_states_without_direction_has_the_least_norm) {
  // The third channel is the sum of the others: C is singular, and G has nothing along (1, 1, -1).
  Matrix u = normal_matrix(60, 3, 1);
  u.col(2) = u.col(0) + u.col(1);
  const Matrix x = product(u, normal_matrix(3, 2, 2));
  const auto map = sums_of(u, x).solve({0})[0];
  EXPECT_LT(std::sqrt(mean_square(map, u, x)), 1e-13);
  EXPECT_LT((map.slope.row(0) + map.slope.row(1) - map.slope.row(2)).norm(), 1e-13);
}

TEST(LinearMap, of_constant_states_is_the_mean) {
  const Matrix u = Matrix::Constant(40, 3, 1), x = normal_matrix(40, 2, 1);
  const auto maps = sums_of(u, x).solve({0, 1});
  for (const auto& map : maps) EXPECT_LT((map(u).row(0) - x.colwise().mean()).norm(), 1e-14);
}

TEST(LinearMap, with_much_ridge_is_the_mean) {
  const Matrix u = normal_matrix(40, 3, 1), x = normal_matrix(40, 2, 2);
  const auto map = sums_of(u, x).solve({1e12})[0];
  EXPECT_LT(map.slope.norm(), 1e-11);
}

TEST(LinearMap, does_not_depend_on_units) {
  const Matrix u = normal_matrix(80, 5, 1), x = normal_matrix(80, 3, 2);
  const auto one = sums_of(u, x).solve({0.3})[0], other = sums_of(1e6 * u, x).solve({0.3})[0];
  EXPECT_LT((one(u) - other(1e6 * u)).norm(), 1e-12);
}

TEST(RidgeSums, about_the_mean_lose_no_digits_to_it) {
  const Matrix x = normal_matrix(200, 3, 1);
  const Matrix u = product(x, normal_matrix(3, 3, 2)).array() + 1e6;
  RidgeSums about_mean(u.colwise().mean(), x.colwise().mean());
  about_mean.add(u, x);
  about_mean.reduce(MPI_COMM_SELF);
  const auto error = [&](const RidgeSums& sums) { return std::sqrt(mean_square(sums.solve({0})[0], u, x)); };
  // The states themselves are rounded to 1e-10; moments about 0 have 1e12 eps = 1e-4.
  EXPECT_LT(error(about_mean), 1e-8);
  EXPECT_GT(error(sums_of(u, x)), 1e-6);
}

TEST(RidgeSums, know_means_and_variances) {
  const Matrix u = 3 * normal_matrix(50, 4, 1), x = normal_matrix(50, 2, 2).array() + 5;
  const auto sums = sums_of(u, x);
  const auto variance = [](const Matrix& m) {
    return (m.rowwise() - m.colwise().mean()).squaredNorm() / static_cast<double>(m.size());
  };
  EXPECT_EQ(sums.tokens(), 50);
  EXPECT_LT((sums.mean_state() - u.colwise().mean()).norm(), 1e-14);
  EXPECT_LT((sums.mean_description() - x.colwise().mean()).norm(), 1e-14);
  EXPECT_NEAR(sums.state_variance(), variance(u), 1e-13);
  EXPECT_NEAR(sums.description_variance(), variance(x), 1e-13);
}

TEST(RidgeSums, refuse_what_does_not_fit) {
  RidgeSums sums(3, 2);
  EXPECT_THROW(sums.add(normal_matrix(5, 4, 1), normal_matrix(5, 2, 1)), BadInput);
  EXPECT_THROW(sums.add(normal_matrix(5, 3, 1), normal_matrix(4, 2, 1)), BadInput);
  sums.reduce(MPI_COMM_SELF);
  EXPECT_THROW(sums.solve({0}), NumericalFailure);  // no tokens
  EXPECT_THROW(sums_of(normal_matrix(9, 3, 1), normal_matrix(9, 2, 1)).solve({-1}), BadInput);
  EXPECT_THROW(sums_of(normal_matrix(9, 3, 1), normal_matrix(9, 2, 1)).solve({NAN}), BadInput);
  EXPECT_THROW(sums_of(Matrix::Constant(9, 3, NAN), normal_matrix(9, 2, 1)).solve({0}), NumericalFailure);
}

// The map with one hidden layer: its gradient, what it learns, and that the order of samples does not matter.

constexpr int d = 4;

/// Samples whose states are a rotation of their tokens, each channel bent by x + bend x^3.
TokenExamples bent_tokens(Index samples, unsigned seed, double curvature) {
  const Matrix q = fluxformer::test::orthogonal_factor(normal_matrix(d, d, 5));
  TokenExamples set{samples, {}};
  for (Index s = 0; s < samples; ++s) {
    const Matrix x = normal_matrix(6 + static_cast<int>(s % 3), d, seed + static_cast<unsigned>(s));
    const Matrix turned = fluxformer::test::product(x, q);
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
      // Central differences: third derivatives of the order of 10 times step^2 / 6, and round-off 1e-15 * 10
      // / step.
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
  EXPECT_LT(fluxformer::test::relative_difference(one.map.weights(), other.map.weights()), 1e-11);
  settings.seed = 2;
  const auto third = train_token_mlp(training, validation, TokenDistance::l2, settings, MPI_COMM_SELF);
  EXPECT_GT(fluxformer::test::relative_difference(third.map.weights(), one.map.weights()), 0.1);
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
