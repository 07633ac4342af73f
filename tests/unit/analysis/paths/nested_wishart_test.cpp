// The exact posterior of the order parameters: its prior moments, and the theory beside it. Specification of attention paths,
// section 5.4.

#include "analysis/paths/nested_wishart.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "analysis/paths/kernel_energy.hpp"
#include "analysis/paths/markov_task.hpp"
#include "analysis/paths/task_theory.hpp"
#include "base/error.hpp"
#include "solvers/sampling/adaptive_metropolis.hpp"
#include "tests/unit/analysis/paths/random_paths.hpp"

namespace fluxformer::paths {
namespace {

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
          x.push_back(i == j ? log_chi(network.widths[static_cast<std::size_t>(l - 1)] - i)
                             : numbers.normal(used++));
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
  // Half of Hs/N, and four Monte-Carlo errors: half-chains of 100 000 steps differ by 1.3 %, 30 000 steps by twice as much.
  EXPECT_LT((u - saddle).norm() / u.norm(), 0.5 * 4 / 10 + 4 * 0.013);
  EXPECT_GT((u - saddle).norm() / u.norm(),
            0.03);  // the theory is not exact: 0.099 was found with long chains
  // Values of long chains, specification: 14.78, -5.92, 7.20; four Monte-Carlo errors.
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
