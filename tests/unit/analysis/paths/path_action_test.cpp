// The action of attention paths: its derivatives, its minimum without data, and how it is written in coordinates.

#include "analysis/paths/path_action.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "analysis/paths/kernel_energy.hpp"
#include "base/error.hpp"
#include "tests/unit/analysis/paths/random_paths.hpp"

namespace fluxformer::paths {
namespace {

using namespace test;
using Eigen::MatrixXd;
using Eigen::VectorXd;

/// The largest difference of the gradient of f at x from central differences, over the largest entry. Truncation and
/// round-off are balanced at steps of eps^(1/3), which leaves about eps^(2/3) = 4e-11 times third derivatives and the size of f.
template <class F>
double gradient_error(F&& f, const std::vector<double>& x) {
  std::vector<double> gradient, unused;
  f(x, gradient);
  double error = 0, most = 0;
  for (std::size_t k = 0; k < x.size(); ++k) {
    auto after = x, before = x;
    const double step = 6e-6 * std::max(1.0, std::abs(x[k]));
    after[k] += step;
    before[k] -= step;
    error = std::max(error, std::abs((f(after, unused) - f(before, unused)) / (2 * step) - gradient[k]));
    most = std::max(most, std::abs(gradient[k]));
  }
  return error / most;
}

struct Case {
  PathNetwork network;
  PathExamples examples;
  PathKernels kernels;
  PathAction action;
  Case(const PathNetwork& of, int count, int dimension)
      : network(of),
        examples(random_examples(count, network.paths(), dimension, 3)),
        kernels(examples.inputs, network.paths(), network.input_variance),
        action(network, kernels, examples.targets, 0.05) {}
};

TEST(PathAction, has_the_gradient_of_central_differences) {
  for (const auto& network : {uneven_network(), network_of_width({3}, 5), network_of_width({2, 2}, 10)}) {
    const Case one(network, 12, 9);
    const auto x = coordinates_of(random_order(network, 7));
    ASSERT_EQ(static_cast<int>(x.size()), coordinate_count(network));
    const auto f = [&](const std::vector<double>& at, std::vector<double>& gradient) {
      return one.action.value(at, gradient);
    };
    EXPECT_LT(gradient_error(f, x), 1e-7);
  }
}

TEST(PathAction, has_slopes_in_every_entry_of_its_order_parameters) {
  const auto network = uneven_network();
  const Case one(network, 12, 9);
  const auto order = random_order(network, 11);
  const auto part = one.action.at(order);
  double error = 0, most = 0;
  for (std::size_t l = 0; l < order.u.size(); ++l)
    for (Eigen::Index i = 0; i < order.u[l].rows(); ++i)
      for (Eigen::Index j = 0; j <= i; ++j) {
        // Both of (i, j) and (j, i) are moved, so that U stays symmetric; u_a follows (its own slope is 0).
        const auto moved = [&](double by) {
          auto other = order;
          other.u[l](i, j) += by;
          if (i != j) other.u[l](j, i) += by;
          other.readout = best_readout(network, other.u.back());
          return one.action.at(other).value;
        };
        const double slope = (moved(3e-6) - moved(-3e-6)) / 6e-6,
                     wanted = part.slopes[l](i, j) * (i == j ? 1 : 2);
        error = std::max(error, std::abs(slope - wanted));
        most = std::max(most, std::abs(wanted));
        EXPECT_NEAR(part.slopes[l](i, j), part.slopes[l](j, i), 1e-13 * part.slopes[l].norm());  // round-off
      }
  EXPECT_LT(error / most, 1e-7);
}

TEST(KernelEnergy, has_the_slope_of_central_differences) {
  const MatrixXd k = random_covariance(8, 5);
  const VectorXd y = random_matrix(8, 1, 6);
  const auto energy = kernel_energy_and_slope(k, y, 0.2);
  EXPECT_DOUBLE_EQ(energy.value, kernel_energy(k, y, 0.2).value);
  for (int i = 0; i < 8; ++i)
    for (int j = 0; j <= i; ++j) {
      const auto moved = [&](double by) {
        MatrixXd other = k;
        other(i, j) += by;
        if (i != j) other(j, i) += by;
        return kernel_energy(other, y, 0.2).value;
      };
      EXPECT_NEAR((moved(1e-6) - moved(-1e-6)) / 2e-6, energy.slope(i, j) * (i == j ? 1 : 2), 1e-7);
    }
}

TEST(PriorAction, is_least_at_the_gaussian_process) {
  for (const auto& network : {uneven_network(), network_of_width({2, 2}, 10), network_of_width({3}, 5)}) {
    const auto part = prior_action(network, gaussian_process_point(network));
    double least = network.readout_width() * (1 - std::log(network.readout_variance));
    for (int l = 1; l <= network.layers(); ++l)
      least += network.widths[static_cast<std::size_t>(l - 1)] * network.order_size(l) *
               (1 - std::log(network.variances[static_cast<std::size_t>(l - 1)]));
    EXPECT_NEAR(part.value, least, 1e-12 * std::abs(least));  // some ten roundings of sums of this size
    for (const auto& slope : part.slopes)
      EXPECT_LT(slope.cwiseAbs().maxCoeff(), 1e-12 * network.largest_width());
    for (std::uint64_t seed = 0; seed < 5; ++seed)
      EXPECT_GT(prior_action(network, random_order(network, seed)).value, least);
  }
}

TEST(PriorAction, is_7_N_for_four_paths_and_4_N_for_two) {
  const auto at_rest = [](const std::vector<int>& heads) {
    const auto network = network_of_width(heads, 10);
    return prior_action(network, gaussian_process_point(network)).value;
  };
  EXPECT_NEAR(at_rest({2, 2}), 70, 1e-12);
  EXPECT_NEAR(at_rest({2, 1}), 40, 1e-12);
}

TEST(PriorAction, is_infinite_where_an_order_parameter_is_not_positive) {
  const auto network = network_of_width({2, 2}, 10);
  auto order = gaussian_process_point(network);
  order.u[0](1, 1) = -1;
  EXPECT_TRUE(std::isinf(prior_action(network, order).value));
}

TEST(OrderParameters, come_back_from_their_coordinates) {
  const auto network = uneven_network();
  const auto order = random_order(network, 3);
  const auto again = order_at(network, coordinates_of(order));
  for (std::size_t l = 0; l < order.u.size(); ++l)
    EXPECT_LT((order.u[l] - again.u[l]).norm(),
              1e-14 * order.u[l].norm() * static_cast<double>(order.u[l].rows()));
  EXPECT_NEAR(order.readout, again.readout, 1e-14);
}

TEST(OrderParameters, give_the_readout_that_makes_the_action_least) {
  for (const auto& network : {uneven_network(), network_of_width({2, 2}, 10), network_of_width({1}, 10)}) {
    auto order = random_order(network, 9);
    const double best = order.readout, least = prior_action(network, order).value;
    for (const double factor : {0.9, 0.999, 1.001, 1.1}) {
      order.readout = factor * best;
      EXPECT_GT(prior_action(network, order).value, least);
    }
  }
}

TEST(OrderParameters, are_traced_over_their_slowest_index) {
  MatrixXd u = MatrixXd::Zero(4, 4);
  u << 1, 2, 0, 9, 2, 3, 9, 0, 0, 9, 10, 20, 9, 0, 20, 30;
  MatrixXd wanted(2, 2);
  wanted << 11, 22, 22, 33;
  EXPECT_EQ(partial_trace(u, 2), wanted);
}

TEST(PathAction, refuses_what_does_not_fit) {
  const auto examples = random_examples(6, 4, 3, 1);
  const PathKernels kernels(examples.inputs, 4);
  const auto network = network_of_width({2, 2}, 10);
  EXPECT_THROW(PathAction(network, kernels, examples.targets, 0), BadInput);
  EXPECT_THROW(PathAction(network, kernels, examples.targets, -1), BadInput);
  EXPECT_THROW(PathAction(network, kernels, examples.targets, NAN), BadInput);
  EXPECT_THROW(PathAction(network, kernels, examples.targets.head(5), 1), BadInput);
  EXPECT_THROW(PathAction(network_of_width({3}, 10), kernels, examples.targets, 1), BadInput);
  EXPECT_THROW(PathAction(network_of_width({2, 2}, 0), kernels, examples.targets, 1), BadInput);
  EXPECT_THROW(PathAction(network_of_width({}, 1), kernels, examples.targets, 1), BadInput);
}

TEST(PathAction, is_infinite_beyond_the_range_of_numbers) {
  const Case one(network_of_width({2, 2}, 10), 12, 9);
  auto x = coordinates_of(random_order(one.network, 7));
  x[0] = 1e6;  // the logarithm of an entry of R
  std::vector<double> gradient;
  EXPECT_FALSE(one.action.value(x, gradient) < 1e10);
}

}  // namespace
}  // namespace fluxformer::paths
