// Indicators of depth cells: exact sums, linear cases, and how fast the estimates become right.

#include "analysis/depth/refinement.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "analysis/depth/depth_limit.hpp"
#include "analysis/state_examples.hpp"
#include "model/tasks/word_targets.hpp"
#include "model/tasks/word_task.hpp"
#include "tests/support/small_problem.hpp"
#include "tests/support/test_vectors.hpp"
#include "tests/unit/analysis/probe_case.hpp"

namespace fluxformer::depth {
namespace {

using namespace test;

const std::vector<Goal> all_goals{Goal::loss, Goal::logit, Goal::margin, Goal::norm};
const std::vector<long> keys{0, 1, 2};  // of 12, 9 and 6 real tokens, in batches of 4

ProbeSpec pde(int cells) {
  return {.kind = ModelKind::pde, .layers = 2, .cells = cells};
}

/// A linear equation: diffusion over tokens alone.
ProbeSpec diffusion(int cells) {
  return {.norm = Norm::none,
          .kind = ModelKind::pde,
          .kappa = 0.1,
          .alpha = 0,
          .rho = 0,
          .layers = 2,
          .cells = cells};
}

/// A field so weak that errors show their order on few cells.
ProbeSpec weak(int cells) {
  auto spec = pde(cells);
  spec.alpha = spec.rho = 0.2;
  return spec;
}

/// Indicators of all samples of `keys` on the cells of `spec`, against twice as many: [sample][goal][cell].
std::vector<double> indicators(ProbeSpec spec, Weights weights, const std::vector<Goal>& goals = all_goals) {
  ProbeCase coarse(spec, 4);
  spec.cells *= 2;
  ProbeCase fine(spec, 4);
  const Goals measured(goals);
  DepthIndicators all(coarse.probe, fine.probe, measured, weights, std::ssize(keys));
  all.show(coarse.batch(keys));
  all.reduce(MPI_COMM_SELF);
  return all.by_sample();
}

/// J of all samples of `keys`, [sample][goal].
std::vector<double> values(const ProbeSpec& spec, const std::vector<Goal>& goals = all_goals) {
  ProbeCase one(spec, 4);
  const Goals measured(goals);
  GoalValues all(one.probe, measured, std::ssize(keys));
  all.show(one.batch(keys));
  all.reduce(MPI_COMM_SELF);
  return all.by_sample();
}

/// J(u_h) - J(u_{h/2}), [sample][goal].
std::vector<double> differences(ProbeSpec spec, const std::vector<Goal>& goals = all_goals) {
  auto difference = values(spec, goals);
  spec.cells *= 2;
  const auto fine = values(spec, goals);
  for (std::size_t k = 0; k < fine.size(); ++k) difference[k] -= fine[k];
  return difference;
}

/// Sums over the cells.
std::vector<double> summed(const std::vector<double>& each, int cells) {
  std::vector<double> sums;
  for (auto at = each.begin(); at != each.end(); at += cells)
    sums.push_back(std::accumulate(at, at + cells, 0.0));
  return sums;
}

void expect_near(const std::vector<double>& found, const std::vector<double>& expected, double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t k = 0; k < found.size(); ++k) EXPECT_NEAR(found[k], expected[k], tolerance) << k;
}

double mean(const std::vector<double>& of) {
  return std::accumulate(of.begin(), of.end(), 0.0) / static_cast<double>(of.size());
}

TEST(DepthIndicators, of_the_fan_add_up_to_the_change_of_the_goal) {
  for (const int cells : {1, 3, 6})  // each term is a difference of numbers of order 1
    expect_near(summed(indicators(pde(cells), Weights::exact), cells), differences(pde(cells)), 1e-13);
}

TEST(DepthIndicators, with_mean_weights_are_exact_for_a_linear_equation_and_goals_up_to_quadratic) {
  const std::vector<Goal> goals{Goal::logit, Goal::norm};
  const auto change = differences(diffusion(3), goals);
  expect_near(summed(indicators(diffusion(3), Weights::mean, goals), 3), change, 1e-14);
  EXPECT_GT(std::abs(change[1]), 1e-5);  // there is something to be estimated
  // The march's own weights are off, by the first order in h.
  EXPECT_GT(std::abs(summed(indicators(diffusion(3), Weights::coarse, goals), 3)[1] - change[1]),
            1e-3 * std::abs(change[1]));
}

TEST(DepthIndicators, are_zero_where_there_is_no_field) {
  auto still = diffusion(4);
  still.kappa = 0;
  for (const auto weights : {Weights::coarse, Weights::mean, Weights::exact})
    for (const double eta : indicators(still, weights)) EXPECT_EQ(eta, 0);
}

TEST(DepthIndicators, become_right_with_the_length_of_the_cells) {
  // Error of the sums of the indicators over the changes of the loss, in sums over the samples: a single change may be near 0.
  const auto off = [](int cells, Weights weights) {
    const auto sums = summed(indicators(weak(cells), weights, {Goal::loss}), cells);
    const auto change = differences(weak(cells), {Goal::loss});
    double error = 0, all = 0;
    for (std::size_t k = 0; k < sums.size(); ++k) {
      error += std::abs(sums[k] - change[k]);
      all += std::abs(change[k]);
    }
    return error / all;
  };
  const double first = std::log2(off(32, Weights::coarse) / off(64, Weights::coarse)),
               second = std::log2(off(32, Weights::mean) / off(64, Weights::mean));
  EXPECT_NEAR(first, 1, 0.2);
  EXPECT_GT(second, 1.8);
  EXPECT_LT(off(32, Weights::mean), off(32, Weights::coarse));
}

TEST(GoalValues, converge_with_order_one_where_weights_are_smooth) {
  for (const auto goal : {Goal::loss, Goal::logit}) {
    std::vector<double> course;
    for (const int cells : {32, 64, 128, 256}) course.push_back(mean(values(weak(cells), {goal})));
    EXPECT_NEAR(depth_limit(course, 1).order, 1, 0.05);
  }
}

TEST(GoalValues, of_diffusion_alone_are_those_of_a_cosine_mode_that_decays) {
  const int cells = 5;
  ProbeCase one(diffusion(cells), 4);
  auto batch = one.batch(keys, true);
  std::vector<double> u;
  one.probe.embed(batch, u);
  // cos(pi (x + 1/2) / 4) cos(pi 2 (y + 1/2) / 3) on 4 x 3 tokens: an eigenvector of the second differences.
  const double pi = std::numbers::pi, mu = 2 - 2 * std::cos(pi / 4) + 2 - 2 * std::cos(2 * pi / 3);
  const int samples = one.probe.context().samples, width = one.probe.spec().width;
  for (int t = 0; t < 12; ++t)
    for (int k = 0; k < samples * width; ++k)
      u[static_cast<std::size_t>(t * samples * width + k)] =
          std::cos(pi * (t % 4 + 0.5) / 4) * std::cos(2 * pi * (t / 4 + 0.5) / 3);
  const auto mode = u;
  one.probe.forward(u);
  const double decay = std::pow(1 - 0.1 * mu * 2 / cells, cells);  // kappa = 0.1, h = 2 / cells
  for (std::size_t j = 0; j < u.size(); ++j) EXPECT_NEAR(u[j], decay * mode[j], 1e-13);
}

TEST(DepthIndicators, do_not_depend_on_the_other_samples_of_a_batch) {
  const auto together = indicators(pde(3), Weights::coarse);
  const Index of_sample = std::ssize(together) / std::ssize(keys);
  for (const long key : keys) {
    ProbeCase coarse(pde(3), 1), fine(pde(6), 1);
    const Goals goals(all_goals);
    DepthIndicators alone(coarse.probe, fine.probe, goals, Weights::coarse, 1);
    auto batch = coarse.batch({key});
    batch.key = {0};
    alone.show(batch);
    alone.reduce(MPI_COMM_SELF);
    expect_near(alone.by_sample(),
                {together.begin() + key * of_sample, together.begin() + (key + 1) * of_sample}, 1e-14);
  }
}

TEST(DepthIndicators, have_means_of_numbers_and_of_sizes) {
  ProbeCase coarse(pde(2), 4), fine(pde(4), 4);
  const Goals goals({Goal::loss});
  DepthIndicators all(coarse.probe, fine.probe, goals, Weights::coarse, std::ssize(keys));
  all.show(coarse.batch(keys));
  all.reduce(MPI_COMM_SELF);
  const auto& eta = all.by_sample();
  for (int cell = 0; cell < 2; ++cell) {
    EXPECT_NEAR(all.mean(0)[cell], (eta[cell] + eta[2 + cell] + eta[4 + cell]) / 3, 1e-16);
    EXPECT_NEAR(all.mean_size(0)[cell],
                (std::abs(eta[cell]) + std::abs(eta[2 + cell]) + std::abs(eta[4 + cell])) / 3, 1e-16);
  }
}

TEST(Goals, have_the_derivatives_of_their_values) {
  ProbeCase one(pde(2), 4);
  const auto batch = one.batch(keys);
  const Goals goals(all_goals);
  std::vector<double> u, slope, above, below;
  one.probe.embed(batch, u);
  one.probe.forward(u);
  slope.resize(u.size());
  const auto direction = test::random_vector(u.size(), 7);
  const double e = 1e-5;
  for (Index goal = 0; goal < goals.count(); ++goal) {
    goals.derivative(one.probe, batch, goal, u.data(), slope.data());
    auto up = u, down = u;
    for (std::size_t j = 0; j < u.size(); ++j) up[j] += e * direction[j], down[j] -= e * direction[j];
    goals.values(one.probe, batch, up.data(), above);
    goals.values(one.probe, batch, down.data(), below);
    double difference = 0;
    for (std::size_t b = 0; b < keys.size(); ++b)
      difference += above[b * goals.count() + goal] - below[b * goals.count() + goal];
    const double product = std::inner_product(slope.begin(), slope.end(), direction.begin(), 0.0);
    EXPECT_NEAR(difference / (2 * e), product, 1e-8 * std::abs(product) + 1e-9);  // e^2 and round-off / e
  }
}

/// A model that guesses masked words, with a batch of them.
struct Words {
  Words() : one(spec(), 4, parameters()), batch(one.batch({0, 1, 3})) {
    batch.targets = {{0, 1, 4, 0.3}, {0, 7, 2, 0.2}, {1, 8, 5, 0.3}, {2, 0, 3, 0.2}};
    one.probe.embed(batch, u);
    one.probe.forward(u);
  }
  static ProbeSpec spec() {
    return {.kind = ModelKind::pde, .layers = 2, .cells = 4, .vocabulary = 9, .classes = 0};
  }
  static Parameters parameters() {
    auto model = probe_parameters(spec()).spec;
    model.word_head.present = true;
    return random_parameters({.model = model});
  }
  /// The loss of each masked word by its logits, with its weight.
  std::vector<double> losses(const std::vector<double>& at) const {
    std::vector<double> found;
    for (const auto& [sample, token, word, weight] : batch.targets) {
      std::vector<double> z(9);
      WordLogits(one.probe.parameters(), Precision::float64)(
          1, at.data() + (token * 4 + sample) * one.probe.spec().width, z.data());
      found.push_back(weight * loss_of({}, z.data(), 9, word, 1, nullptr));
    }
    return found;
  }
  ProbeCase one;
  Batch batch;
  std::vector<double> u;
};

TEST(Goals, of_masked_words_are_the_shares_of_samples_in_their_loss) {
  Words words;
  const Goals goals({Goal::loss, Goal::norm});
  std::vector<double> value;
  goals.values(words.one.probe, words.batch, words.u.data(), value);
  const auto losses = words.losses(words.u);
  const auto& weight = words.batch.weight;
  EXPECT_NEAR(value[0], (losses[0] + losses[1]) / weight[0], 1e-13);
  EXPECT_NEAR(value[2], losses[2] / weight[1], 1e-13);
  EXPECT_NEAR(value[4], losses[3] / weight[2], 1e-13);
}

TEST(Goals, of_masked_words_have_the_derivatives_of_their_values) {
  Words words;
  const Goals goals({Goal::loss});
  std::vector<double> slope(words.u.size()), above, below;
  goals.derivative(words.one.probe, words.batch, 0, words.u.data(), slope.data());
  const auto direction = random_vector(words.u.size(), 7);
  const double e = 1e-5;
  auto up = words.u, down = words.u;
  for (std::size_t j = 0; j < up.size(); ++j) up[j] += e * direction[j], down[j] -= e * direction[j];
  goals.values(words.one.probe, words.batch, up.data(), above);
  goals.values(words.one.probe, words.batch, down.data(), below);
  double difference = 0;
  for (std::size_t b = 0; b < 3; ++b) difference += (above[b] - below[b]) / (2 * e);
  const double product = std::inner_product(slope.begin(), slope.end(), direction.begin(), 0.0);
  EXPECT_NEAR(difference, product, 1e-8 * std::abs(product) + 1e-9);  // e^2 and round-off / e
}

TEST(DepthIndicators, of_the_fan_add_up_for_masked_words_on_unequal_cells) {
  Words words;
  auto parameters = Words::parameters();
  parameters.spec.set_depth(DepthCells::between(2, {0, 0.2, 0.9, 1.3, 2}));
  ProbeCase coarse(Words::spec(), 4, parameters);
  parameters.spec.set_depth(parameters.spec.depth().divided(2));
  ProbeCase fine(Words::spec(), 4, parameters);
  const Goals goals({Goal::loss});
  GoalValues on_coarse(coarse.probe, goals, 4), on_fine(fine.probe, goals, 4, &on_coarse);
  DepthIndicators eta(coarse.probe, fine.probe, goals, Weights::exact, 4);
  on_coarse.show(words.batch);
  on_fine.show(words.batch);
  eta.show(words.batch);
  eta.reduce(MPI_COMM_SELF);
  on_coarse.reduce(MPI_COMM_SELF);
  on_fine.reduce(MPI_COMM_SELF);
  const auto found = eta.mean(0);
  EXPECT_NEAR(std::accumulate(found.begin(), found.end(), 0.0), on_coarse.mean(0) - on_fine.mean(0), 1e-12);
  EXPECT_EQ(on_coarse.state_distance(), 0);
  EXPECT_GT(on_fine.state_distance(), 1e-3);
  EXPECT_GT(on_coarse.accuracy() + 1, 0.5);  // a number
  words.batch.targets.clear();               // a batch of texts without any
  EXPECT_EQ(goals.correct(words.one.probe, words.batch, words.u.data()), 0);
}

TEST(GoalValues, say_how_far_last_states_and_logits_move) {
  ProbeCase own(pde(2), 4), other(pde(4), 4);
  const auto batch = own.batch(keys);
  const Goals goals({Goal::loss});
  GoalValues at(own.probe, goals, 3), moved(other.probe, goals, 3, &at);
  at.show(batch);
  moved.show(batch);
  moved.reduce(MPI_COMM_SELF);
  std::vector<double> first, u, v;
  own.probe.embed(batch, first);
  u = v = first;
  other.probe.embed(batch, v);
  const auto z = own.probe.forward(u), w = other.probe.forward(v);
  double states = 0, logits = 0;
  for (std::size_t b = 0; b < keys.size(); ++b) {
    const auto norm = [&](const std::vector<double>& x, const std::vector<double>& y) {
      return (sample_of(own.probe.counted(), x.data(), static_cast<int>(b)) -
              sample_of(own.probe.counted(), y.data(), static_cast<int>(b)))
          .norm();
    };
    states += batch.weight[b] * norm(v, u) / norm(u, first);
    double apart = 0, size = 0;
    for (std::size_t c = 4 * b; c < 4 * b + 4; ++c)
      apart += (w[c] - z[c]) * (w[c] - z[c]), size += z[c] * z[c];
    logits += batch.weight[b] * std::sqrt(apart / size);
  }
  EXPECT_NEAR(moved.state_distance(), states, 1e-13);
  EXPECT_NEAR(moved.logit_distance(), logits, 1e-13);
}

TEST(DepthIndicators, refuse_cells_that_do_not_divide) {
  ProbeCase coarse(pde(2), 1), fine(pde(3), 1);
  const Goals goals({Goal::loss});
  EXPECT_THROW(DepthIndicators(coarse.probe, fine.probe, goals, Weights::mean, 1), std::invalid_argument);
}

}  // namespace
}  // namespace fluxformer::depth
