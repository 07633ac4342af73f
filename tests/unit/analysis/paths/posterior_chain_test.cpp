// Draws of weights against draws of order parameters, and both against the theory (docs/model.md,
// sections 11.7 to 11.9).

#include <gtest/gtest.h>
#include <cmath>

#include "analysis/paths/markov_task.hpp"
#include "analysis/paths/path_kernels.hpp"
#include "analysis/paths/posterior_chain.hpp"
#include "analysis/paths/task_theory.hpp"
#include "base/error.hpp"
#include "tests/unit/analysis/paths/random_paths.hpp"

namespace fluxformer::paths {
namespace {

using namespace test;
using Eigen::VectorXd;

double mean_of(const std::vector<double>& x) {
  return Eigen::Map<const VectorXd>(x.data(), static_cast<Eigen::Index>(x.size())).mean();
}
const std::vector<double>& trace_of(const PosteriorChain& chain, DrawnQuantity quantity) {
  return chain.traces[static_cast<std::size_t>(quantity)];
}

TEST(PosteriorChain, of_weights_and_of_order_parameters_are_one_posterior) {
  // Two paths, six units: 78 weights against four coordinates.
  const auto network = network_of_width({2}, 6);
  // The first path shows the target under noise, the second one the noise: U is negative off its diagonal.
  auto examples = random_examples(12, 2, 6, 3);
  examples.inputs.rightCols(6) = examples.inputs.leftCols(6);
  examples.inputs.col(0) += examples.targets;
  const PathKernels kernels(examples.inputs, 2);
  const PosteriorTarget posterior{network, examples, kernels, 0.1};
  constexpr int draws = 3000;
  const auto weights = weight_chain(posterior, {.warm_up = 300, .draws = draws, .steps = 30});
  const auto orders = order_chain(posterior, {.warm_up = 300, .draws = draws, .steps = 25});
  EXPECT_GT(weights.acceptance, 0.6);
  EXPECT_LT(weights.divergent, 0.01 * draws);
  EXPECT_TRUE(std::isnan(orders.step));

  // Every quantity that both know, within four standard errors of its own chains.
  const auto error_of = [](const std::vector<double>& x) {
    const auto count = static_cast<Eigen::Index>(x.size());
    const Eigen::Map<const VectorXd> all(x.data(), count);
    const double variance = (all.array() - all.mean()).square().mean();
    return std::sqrt(variance / effective_draws({x}));
  };
  for (const auto quantity :
       {DrawnQuantity::readout, DrawnQuantity::trace, DrawnQuantity::energy, DrawnQuantity::data_virial}) {
    const auto &a = trace_of(weights, quantity), &b = trace_of(orders, quantity);
    ASSERT_EQ(a.size(), std::size_t{draws});
    ASSERT_EQ(b.size(), std::size_t{draws});
    EXPECT_GT(effective_draws({a}), 200);  // else the comparison says little
    EXPECT_GT(effective_draws({b}), 200);
    EXPECT_LT(split_r_hat({a, b}), 1.05);
    EXPECT_NEAR(mean_of(a), mean_of(b), 4 * std::hypot(error_of(a), error_of(b)));
  }
  const double trace_error = 4 * std::hypot(error_of(trace_of(weights, DrawnQuantity::trace)),
                                            error_of(trace_of(orders, DrawnQuantity::trace)));
  EXPECT_LT((weights.order.u[0] - orders.order.u[0]).cwiseAbs().maxCoeff(), trace_error);
  EXPECT_LT(orders.order.u[0](0, 1), -2 * trace_error);  // it would not be noticed otherwise
  EXPECT_NEAR(weights.order.readout, mean_of(trace_of(weights, DrawnQuantity::readout)), 1e-12);

  // Targets are of size 1; the predictor's error is a share of it.
  const VectorXd f = outputs(examples.inputs, weights.input_weights),
                 g = outputs(examples.inputs, orders.input_weights);
  EXPECT_LT((f - g).cwiseAbs().mean(), 0.03);
  EXPECT_GT(g.cwiseAbs().mean(), 0.5);

  // The virials of all blocks are one number in the mean. V_0 has 36 weights, whose square varies by
  // sqrt(72); a tenth of the draws as independent ones.
  const double z = mean_of(trace_of(orders, DrawnQuantity::data_virial));
  EXPECT_NEAR(6 * (orders.order.readout - 1), z,
              4 * 6 * error_of(trace_of(orders, DrawnQuantity::readout)) + 4 * 0.05);
  ASSERT_EQ(weights.virials.size(), 3u);
  for (const double block : weights.virials) EXPECT_NEAR(block, z, 4 * std::sqrt(72 / (draws / 10.0)));
}

TEST(PosteriorChain, agrees_with_the_predictor_of_the_theory) {
  const auto task = markov_task(published_markov(MarkovVariant::two_paths));
  const TaskTheory theory(task);
  const auto network = network_of_width(task.heads, 10);
  constexpr double temperature = 0.01;
  const auto chain = order_chain({network, task.train, theory.kernels(), temperature},
                                 {.warm_up = 200, .draws = 600, .steps = 25});
  const auto judged = theory.evaluate(theory.solve(network, temperature).order.u[0], temperature);
  const auto limit = theory.evaluate(Eigen::MatrixXd::Identity(2, 2), temperature);
  const VectorXd mean = outputs(task.test.inputs, chain.input_weights);
  // Table of section 5.4: 0.0044 from the theory, 0.390 from the Gaussian process; 15 000 steps instead of
  // 100 000 and more.
  EXPECT_LT((mean - judged.prediction.mean).cwiseAbs().mean(), 0.02);
  EXPECT_NEAR((mean - limit.prediction.mean).cwiseAbs().mean(), 0.390, 0.02);
  EXPECT_NEAR(accuracy(mean, task.test.targets), judged.accuracy, 0.02);
}

TEST(PosteriorChain, is_the_same_for_the_same_seed) {
  const auto network = network_of_width({2}, 3);
  const auto examples = random_examples(6, 2, 3, 5);
  const PathKernels kernels(examples.inputs, 2);
  const PosteriorTarget posterior{network, examples, kernels, 0.5};
  for (const auto chain : {weight_chain, order_chain}) {
    const auto traces = [&](std::uint64_t seed) {
      return chain(posterior, {.warm_up = 5, .draws = 10, .steps = 5, .seed = seed}).traces;
    };
    EXPECT_EQ(traces(1), traces(1));
    EXPECT_NE(traces(1), traces(2));
  }
}

TEST(PosteriorChain, refuses_networks_that_its_sampler_cannot_draw) {
  const auto examples = random_examples(6, 2, 3, 5);
  const PathKernels kernels(examples.inputs, 2);
  const auto narrow = network_of_width({2}, 1), uneven = network_of_width({2}, 2.5);
  EXPECT_THROW(order_chain({narrow, examples, kernels, 1}, {}), BadInput);
  EXPECT_THROW(weight_chain({uneven, examples, kernels, 1}, {}), BadInput);
}

// Made-up chains, whose means and errors are known by hand.

using namespace test;
using Eigen::MatrixXd;
using Eigen::VectorXd;

PosteriorChain made_up(double factor) {
  PosteriorChain chain;
  chain.order = {.u = {factor * random_covariance(4, 1), factor * random_covariance(2, 2)},
                 .readout = factor};
  chain.input_weights = factor * random_matrix(4, 3, 5);
  for (std::size_t q = 0; q < drawn_quantities; ++q)
    chain.traces[q] = {factor, factor + 1, factor - 1, factor + 0.5};
  return chain;
}

TEST(SampledPosterior, is_the_mean_of_its_chains_with_their_spread) {
  const RowMatrix inputs = random_matrix(5, 12, 3);
  const auto all = sampled_posterior({made_up(1), made_up(2), made_up(6)}, inputs);
  // The mean of 1, 2 and 6 is 3, the standard error of the mean sqrt((4 + 1 + 9)/2/3) = 1.5275.
  const double error = std::sqrt(14.0 / 6);
  EXPECT_NEAR(all.order.readout, 3, 1e-14);
  EXPECT_LT((all.order.u[0] - 3 * random_covariance(4, 1)).norm(), 1e-13);
  EXPECT_LT((all.order.u[1] - 3 * random_covariance(2, 2)).norm(), 1e-13);
  EXPECT_NEAR(all.order_error, error / 3, 1e-14);
  const VectorXd one = outputs(inputs, random_matrix(4, 3, 5));
  EXPECT_LT((all.mean - 3 * one).norm(), 1e-13);
  EXPECT_NEAR(all.mean_error, error * one.cwiseAbs().mean(), 1e-13);
  EXPECT_GT(all.r_hat[2], 1.1);
  EXPECT_TRUE(std::isfinite(all.effective_draws[4]));
  EXPECT_TRUE(std::isnan(sampled_posterior({made_up(1)}, inputs).order_error));
}

TEST(TheoryError, is_relative_to_the_draws) {
  const RowMatrix inputs = random_matrix(5, 12, 3);
  const auto all = sampled_posterior({made_up(1), made_up(3)}, inputs);  // mean 2, standard error 1
  const MatrixXd u = 1.5 * random_covariance(4, 1);
  const VectorXd mean = -2 * all.mean;
  const auto error = theory_error(all, u, mean, 10);
  EXPECT_NEAR(error.order, 0.25, 1e-14);
  EXPECT_NEAR(error.excess, 0.25 - (4.0 / 20 + 4 * 0.5), 1e-13);
  EXPECT_NEAR(error.mean, 3 * all.mean.cwiseAbs().mean(), 1e-13);
  EXPECT_NEAR(error.correlation, -1, 1e-13);
  EXPECT_TRUE(std::isnan(theory_error(all, u, mean, 3.9).excess));
  EXPECT_FALSE(std::isnan(theory_error(all, u, mean, 4).excess));
}

}  // namespace
}  // namespace fluxformer::paths
