// The posterior of the weights: against the network token by token, finite differences and its prior
// (docs/model.md, section 11.7).

#include <gtest/gtest.h>
#include <cmath>

#include "analysis/paths/frozen_attention.hpp"
#include "analysis/paths/markov_task.hpp"
#include "analysis/paths/path_kernels.hpp"
#include "analysis/paths/path_posterior.hpp"
#include "analysis/paths/task_theory.hpp"
#include "base/error.hpp"
#include "solvers/sampling/adaptive_metropolis.hpp"
#include "tests/unit/analysis/paths/random_paths.hpp"

namespace fluxformer::paths {
namespace {

using namespace test;
using Eigen::MatrixXd;
using Eigen::VectorXd;

std::vector<double> random_weights(std::size_t count, std::uint64_t seed) {
  const auto all = random_matrix(1, static_cast<Eigen::Index>(count), seed);
  return {all.data(), all.data() + count};
}

/// Reads matrices from whitened weights, one after another.
class Reader {
 public:
  explicit Reader(const std::vector<double>& q) : at_(q.data()) {}
  MatrixXd next(double rows, double columns, double variance) {
    const Eigen::Map<const RowMatrix> read(at_, static_cast<Eigen::Index>(rows),
                                           static_cast<Eigen::Index>(columns));
    at_ += read.size();
    return std::sqrt(variance) * read;
  }

 private:
  const double* at_;
};

/// f(x) by section 1.1, from the tokens and one attention matrix after another.
double token_by_token(const PathNetwork& network, const FrozenAttention& attention,
                      const std::vector<double>& q, const MatrixXd& x) {
  Reader weights(q);
  MatrixXd z = weights.next(network.widths[0], static_cast<double>(x.rows()), network.input_variance) * x /
               std::sqrt(x.rows());
  for (int l = 0; l < network.layers(); ++l) {
    const auto at = static_cast<std::size_t>(l);
    MatrixXd sum = MatrixXd::Zero(static_cast<Eigen::Index>(network.widths[at + 1]), x.cols());
    for (int h = 0; h < network.heads[at]; ++h)
      sum += weights.next(network.widths[at + 1], network.widths[at], network.variances[at]) * z *
             attention_columns(attention.head(l, h), x, x);
    z = sum / std::sqrt(network.heads[at] * network.widths[at]);
  }
  const MatrixXd a = weights.next(1, network.readout_width(), network.readout_variance);
  return (a * z.rightCols(1)).value() / std::sqrt(network.readout_width());
}

TEST(PathPosterior, is_the_network_of_the_tokens) {
  constexpr int dimension = 5, tokens = 4, examples = 3;
  const auto whole = uneven_network();
  for (std::size_t layers = 1; layers <= 3; ++layers) {
    PathNetwork network = whole;
    network.heads.resize(layers);
    network.variances.resize(layers);
    network.widths.resize(layers + 1);
    std::vector<std::vector<FrozenHead>> heads(layers);
    std::uint64_t seed = 10 * layers;
    for (std::size_t l = 0; l < layers; ++l)
      for (int h = 0; h < network.heads[l]; ++h)
        heads[l].emplace_back(BilinearHead{random_matrix(dimension, dimension, ++seed)});
    const FrozenAttention attention(heads, ReadOut::last_token);
    const auto x = [&](int k) -> MatrixXd {
      return random_matrix(dimension, tokens, 100 + static_cast<std::uint64_t>(k));
    };
    const PathExamples all{attentioned_inputs(attention, examples, x), VectorXd::Ones(examples)};
    PathPosterior posterior(network, all, 0.5);
    const auto q = random_weights(posterior.weights(), 7);
    const VectorXd f = outputs(all.inputs, posterior.input_weights(q));
    double squares = 0;
    for (int k = 0; k < examples; ++k) {
      const double expected = token_by_token(network, attention, q, x(k));
      squares += (expected - 1) * (expected - 1);
      EXPECT_NEAR(f[k], expected, 1e-13 * std::max(1.0, std::abs(expected)))
          << layers;  // sums of some 1000 products
    }
    std::vector<double> slope(q.size());
    const VectorXd weights = Eigen::Map<const VectorXd>(q.data(), static_cast<Eigen::Index>(q.size()));
    EXPECT_NEAR(posterior.value(q, slope), weights.squaredNorm() / 2 + squares / (2 * 0.5), 1e-10);
  }
}

TEST(PathPosterior, has_the_gradient_of_its_value) {
  const auto network = uneven_network();
  const auto examples = random_examples(9, network.paths(), 4, 3);
  PathPosterior posterior(network, examples, 0.3);
  auto q = random_weights(posterior.weights(), 5);
  std::vector<double> slope(q.size()), scratch(q.size());
  posterior.value(q, slope);
  for (std::uint64_t trial = 0; trial < 5; ++trial) {
    const auto direction = random_weights(q.size(), 20 + trial);
    constexpr double h = 1e-5;
    double expected = 0;
    auto moved = q;
    for (std::size_t k = 0; k < q.size(); ++k) expected += slope[k] * direction[k];
    const auto at = [&](double step) {
      for (std::size_t k = 0; k < q.size(); ++k) moved[k] = q[k] + step * direction[k];
      return posterior.value(moved, scratch);
    };
    // Central differences: h^2 of third derivatives, and round-off of 1e3 over h: 1e-8 of the largest of
    // them.
    EXPECT_NEAR((at(h) - at(-h)) / (2 * h), expected, 1e-7 * std::max(1.0, std::abs(expected)));
  }
  // One by one, the first and the last of every matrix.
  for (std::size_t k = 0; k < q.size(); k += k < 60 ? 1 : 37) {
    const double here = q[k];
    q[k] = here + 1e-5;
    const double up = posterior.value(q, scratch);
    q[k] = here - 1e-5;
    const double down = posterior.value(q, scratch);
    q[k] = here;
    EXPECT_NEAR((up - down) / 2e-5, slope[k], 1e-6 * std::max(1.0, std::abs(slope[k]))) << k;
  }
}

TEST(PathPosterior, has_the_order_parameters_of_the_prior_without_data) {
  const auto network = uneven_network();
  auto examples = random_examples(2, network.paths(), 3, 3);
  examples.inputs.setZero();
  PathPosterior posterior(network, examples, 1);
  const auto rest = gaussian_process_point(network);
  std::vector<MatrixXd> mean;
  for (const auto& u : rest.u) mean.push_back(MatrixXd::Zero(u.rows(), u.cols()));
  double readout = 0;
  constexpr int draws = 4000;
  for (int draw = 0; draw < draws; ++draw) {
    const auto order = posterior.order(random_weights(posterior.weights(), static_cast<std::uint64_t>(draw)));
    for (std::size_t l = 0; l < mean.size(); ++l) mean[l] += order.u[l] / draws;
    readout += order.readout / draws;
  }
  // Entries vary by about their size: standard error 0.016.
  EXPECT_NEAR(readout, rest.readout, 4 * rest.readout * std::sqrt(2.0 / 15 / draws));
  for (std::size_t l = 0; l < mean.size(); ++l)
    EXPECT_LT((mean[l] - rest.u[l]).cwiseAbs().maxCoeff(),
              0.08 * network.prior_variance(static_cast<int>(l) + 1));
}

TEST(PathPosterior, refuses_what_does_not_fit) {
  const auto network = network_of_width({2}, 4);
  const auto examples = random_examples(3, 2, 2, 1);
  EXPECT_THROW(PathPosterior(network, examples, 0), BadInput);
  EXPECT_THROW(PathPosterior(network_of_width({2}, 4.5), examples, 1), BadInput);
  EXPECT_THROW(PathPosterior(network_of_width({3}, 4), examples, 1), BadInput);
}

// The exact posterior of the order parameters: its prior moments, and the theory beside it (docs/model.md,
// section 11.8).

using namespace test;
using Eigen::MatrixXd;
using Eigen::VectorXd;

TEST(NestedWishart, has_the_order_parameters_of_the_prior_in_the_mean) {
  const auto network = uneven_network();
  const NestedWishart wishart(network);
  const auto rest = gaussian_process_point(network);
  const RandomStream stream(3, "chi");
  constexpr int draws = 20000;
  std::vector<MatrixXd> mean;
  for (const auto& u : rest.u) mean.push_back(MatrixXd::Zero(u.rows(), u.cols()));
  double readout = 0;
  for (int draw = 0; draw < draws; ++draw) {
    // chi(k) as the root of a sum of k squares.
    std::uint64_t used = 0;
    const auto numbers = stream.item(static_cast<std::uint64_t>(draw));
    const auto log_chi = [&](double k) {
      double sum = 0;
      for (int i = 0; i < static_cast<int>(k); ++i) sum += std::pow(numbers.normal(used++), 2);
      return std::log(sum) / 2;
    };
    std::vector<double> x = {log_chi(network.readout_width())};
    for (int l = network.layers(); l >= 1; --l)
      for (int i = 0; i < network.order_size(l); ++i)
        for (int j = 0; j <= i; ++j)
          x.push_back(i == j ? log_chi(network.widths[l - 1] - i) : numbers.normal(used++));
    ASSERT_EQ(static_cast<int>(x.size()), wishart.coordinates());
    const auto order = wishart.order(x);
    for (std::size_t l = 0; l < mean.size(); ++l) mean[l] += order.u[l] / draws;
    readout += order.readout / draws;
  }
  EXPECT_NEAR(readout, rest.readout, 0.02 * rest.readout);  // standard error sqrt(2/15/20000) = 0.0026
  for (std::size_t l = 0; l < mean.size(); ++l)
    // Entries vary by about their size (widths from 7 on, three factors): standard error 0.007.
    EXPECT_LT((mean[l] - rest.u[l]).cwiseAbs().maxCoeff(),
              0.04 * network.prior_variance(static_cast<int>(l) + 1));
}

TEST(NestedWishart, has_the_density_that_its_walk_draws_from) {
  const auto network = network_of_width({2}, 5);
  const NestedWishart wishart(network);
  const auto density = [&](std::span<const double> x) { return wishart.log_prior(x); };
  MatrixXd mean = MatrixXd::Zero(2, 2);
  double squares = 0;
  constexpr int steps = 100000;
  sampling::random_walk(density, wishart.start(), {.warm_up = 5000, .steps = steps},
                        [&](std::span<const double> x) {
                          const auto order = wishart.order(x);
                          mean += order.u[0] / steps;
                          squares += order.readout * order.readout / steps;
                        });
  // Some 20 steps are correlated: standard errors of about 0.015, and 0.02 for the square.
  EXPECT_LT((mean - MatrixXd::Identity(2, 2)).cwiseAbs().maxCoeff(), 0.06);
  EXPECT_NEAR(squares, 1 + 2.0 / 5, 0.08);  // <u_a^2> = 1 + 2/N_a
}

TEST(NestedWishart, agrees_with_the_theory_up_to_paths_over_width) {
  const auto task = markov_task(published_markov(MarkovVariant::four_paths));
  const TaskTheory theory(task);
  const auto network = network_of_width(task.heads, 10);
  const NestedWishart wishart(network);
  constexpr double temperature = 0.01;
  const auto density = [&](std::span<const double> x) {
    const auto kernel = theory.kernels().kernel(wishart.order(x).u[0]);
    return wishart.log_prior(x) - kernel_energy(kernel, task.train.targets, temperature).value / 2;
  };
  constexpr int steps = 30000;
  MatrixXd u = MatrixXd::Zero(4, 4);
  double z = 0;
  sampling::random_walk(density, wishart.start(), {.warm_up = 15000, .steps = steps},
                        [&](std::span<const double> x) {
                          const auto order = wishart.order(x);
                          u += order.u[0] / steps;
                          z += 10 * (order.readout - 1) / steps;
                        });
  const MatrixXd saddle = theory.solve(network, temperature).order.u[0];
  // Half of Hs/N, and four Monte-Carlo errors: half-chains of 100 000 steps differ by 1.3 %, 30 000 steps by
  // twice as much.
  EXPECT_LT((u - saddle).norm() / u.norm(), 0.5 * 4 / 10 + 4 * 0.013);
  EXPECT_GT((u - saddle).norm() / u.norm(),
            0.03);  // the theory is not exact: 0.099 was found with long chains
  // Values of long chains: 14.78, -5.92, 7.20; four Monte-Carlo errors.
  EXPECT_NEAR(u(0, 0), 14.78, 0.1 * 14.78);
  EXPECT_NEAR(u(0, 2), -5.92, 0.1 * 5.92);
  EXPECT_NEAR(u(2, 2), 7.20, 0.1 * 7.20);
  EXPECT_NEAR(z, 11.8, 0.5);  // 11.75 to 11.93; the theory has 10.23
}

TEST(NestedWishart, needs_as_much_width_as_paths) {
  EXPECT_THROW(NestedWishart(network_of_width({2, 2}, 3)), BadInput);
  EXPECT_EQ(NestedWishart(network_of_width({2, 2}, 4)).coordinates(), 14);
  EXPECT_EQ(NestedWishart(network_of_width({2, 1}, 4)).coordinates(), 5);
}

}  // namespace
}  // namespace fluxformer::paths
