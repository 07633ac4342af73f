// The action of attention paths: its derivatives, its minimum without data, and how it is written in
// coordinates.

#include <gtest/gtest.h>

#include <Eigen/Cholesky>
#include <algorithm>
#include <cmath>

#include "analysis/paths/path_action.hpp"
#include "analysis/paths/path_kernels.hpp"
#include "base/error.hpp"
#include "tests/unit/analysis/paths/random_paths.hpp"

namespace fluxformer::paths {
namespace {

using namespace test;
using Eigen::MatrixXd;
using Eigen::VectorXd;

/// The largest difference of the gradient of f at x from central differences, over the largest entry.
/// Truncation and round-off are balanced at steps of eps^(1/3), which leaves about eps^(2/3) = 4e-11 times
/// third derivatives and the size of f.
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
      least += network.widths[l - 1] * network.order_size(l) * (1 - std::log(network.variances[l - 1]));
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

// The theory's order parameters: identities that hold at the minimum of the action, and closed forms
// (docs/model.md, section 11.5).

using namespace test;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr int count = 12, saddle_point_dimension = 9, saddle_point_others = 6;
constexpr double saddle_point_temperature = 0.05;
// Minima are polished until the gradient is round-off (1e-13 of the width); what follows from them is then as
// good.
constexpr double exact = 1e-11;

/// A network, the theory's answer for some examples, and what it predicts for others.
struct Solved {
  SaddlePoint point;
  MatrixXd kernel;
  Prediction prediction;
  std::vector<double> identities;
};

Solved solve(const PathNetwork& network, const PathExamples& known, const RowMatrix& unknown,
             double noise = saddle_point_temperature) {
  const PathKernels kernels(known.inputs, network.paths(), network.input_variance);
  const PathAction action(network, kernels, known.targets, noise);
  Solved solved{.point = saddle_point(action), .kernel = {}, .prediction = {}, .identities = {}};
  const auto& u = solved.point.order.u.front();
  solved.kernel = kernels.kernel(u);
  solved.prediction = predict(solved.kernel, known.targets, noise,
                              cross_kernel(unknown, known.inputs, u, network.input_variance),
                              own_kernel(unknown, u, network.input_variance));
  solved.identities = virials(action, solved.point.order);
  return solved;
}

Solved solve(const PathNetwork& network) {
  return solve(network, random_examples(count, network.paths(), saddle_point_dimension, 3),
               random_matrix(saddle_point_others, network.paths() * saddle_point_dimension, 4));
}

void expect_same(const Solved& one, const Solved& other) {
  EXPECT_NEAR(one.point.order.readout, other.point.order.readout, exact);
  EXPECT_LT((one.kernel - other.kernel).norm(), exact * one.kernel.norm());
  EXPECT_LT((one.prediction.mean - other.prediction.mean).norm(), exact * one.prediction.mean.norm());
  EXPECT_LT((one.prediction.variance - other.prediction.variance).norm(),
            exact * one.prediction.variance.norm());
}

TEST(SaddlePoint, has_equal_virials_in_all_layers_and_in_the_data) {
  auto uneven = uneven_network();
  for (const auto& network : {network_of_width({2, 2}, 10), network_of_width({2, 2}, 100),
                              network_of_width({2, 1}, 30), network_of_width({3}, 5), uneven}) {
    const auto z = solve(network).identities;
    ASSERT_EQ(z.size(), network.heads.size() + 2);
    for (const double one : z) EXPECT_NEAR(one, z.back(), exact * network.largest_width() * 100);
  }
}

TEST(SaddlePoint, is_reached_from_random_starts) {
  const auto network = network_of_width({2, 2}, 10);
  const auto known = random_examples(count, 4, saddle_point_dimension, 3);
  const PathKernels kernels(known.inputs, 4);
  const PathAction action(network, kernels, known.targets, saddle_point_temperature);
  const auto first = saddle_point(action);
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const auto again = saddle_point(action, {}, coordinates_of(random_order(network, seed)));
    EXPECT_NEAR(again.action, first.action, 1e-8);
    EXPECT_LT((again.order.u[0] - first.order.u[0]).norm(), 1e-8);
  }
}

/// xi^pi -> sum_pi' r^{pi pi'} xi^pi'
RowMatrix mixed(const RowMatrix& inputs, const MatrixXd& r) {
  const auto paths = r.rows(), d = inputs.cols() / paths;
  RowMatrix sum = RowMatrix::Zero(inputs.rows(), inputs.cols());
  for (Eigen::Index p = 0; p < paths; ++p)
    for (Eigen::Index q = 0; q < paths; ++q)
      sum.middleCols(p * d, d) += r(p, q) * inputs.middleCols(q * d, d);
  return sum;
}

MatrixXd kronecker(const MatrixXd& a, const MatrixXd& b) {
  MatrixXd all(a.rows() * b.rows(), a.cols() * b.cols());
  for (Eigen::Index i = 0; i < a.rows(); ++i)
    for (Eigen::Index j = 0; j < a.cols(); ++j)
      all.block(i * b.rows(), j * b.cols(), b.rows(), b.cols()) = a(i, j) * b;
  return all;
}

TEST(SaddlePoint, turns_with_the_heads) {
  const auto network = network_of_width({2, 3}, 10);
  const auto known = random_examples(count, 6, saddle_point_dimension, 3);
  const auto unknown = random_matrix(saddle_point_others, 6 * saddle_point_dimension, 4);
  const auto before = solve(network, known, unknown);
  MatrixXd swapped = MatrixXd::Zero(2, 2);
  swapped << 0, 1, 1, 0;
  for (const auto& r : {kronecker(random_rotation(2, 1), random_rotation(3, 2)),
                        kronecker(swapped, MatrixXd::Identity(3, 3))}) {
    const auto after = solve(network, {mixed(known.inputs, r), known.targets}, mixed(unknown, r));
    expect_same(before, after);
    EXPECT_LT((after.point.order.u[0] - r * before.point.order.u[0] * r.transpose()).norm(),
              exact * before.point.order.u[0].norm());
  }
}

TEST(SaddlePoint, does_not_mind_that_all_heads_of_a_layer_stand_twice) {
  const auto known = random_examples(count, 6, saddle_point_dimension, 3);
  const auto unknown = random_matrix(saddle_point_others, 6 * saddle_point_dimension, 4);
  const auto once = solve(network_of_width({2, 3}, 10), known, unknown);
  const PathTask task{.heads = {2, 3},
                      .dimension = saddle_point_dimension,
                      .path_names = std::vector<std::string>(6),
                      .train = known,
                      .test = {unknown, VectorXd::Ones(saddle_point_others)}};
  for (const auto& kept :
       {std::vector<std::vector<int>>{{0, 1, 0, 1}, {0, 1, 2}}, {{0, 1}, {0, 1, 2, 0, 1, 2}}}) {
    const auto twice = with_heads(task, kept);
    expect_same(once, solve(network_of_width(twice.heads, 10), twice.train, twice.test.inputs));
  }
}

/// The root > 0 of zeta^(L+2) - (1 - alpha) zeta^(L+1) - alpha r0 by bisection.
double zeta_of(int layers, double alpha, double r0) {
  const auto f = [&](double z) { return std::pow(z, layers + 1) * (z - (1 - alpha)) - alpha * r0; };
  double low = std::max(0.0, 1 - alpha), high = 1e3;
  while (high - low > 1e-15 * high) {
    const double middle = (low + high) / 2;
    if (middle <= low || middle >= high) break;
    (f(middle) < 0 ? low : high) = middle;
  }
  return (low + high) / 2;
}

TEST(SaddlePoint, of_single_heads_without_noise_is_the_root_of_a_polynomial) {
  for (const int layers : {1, 2, 3})
    for (const double width : {10.0, 100.0, 1000.0}) {
      auto network = network_of_width(std::vector<int>(static_cast<std::size_t>(layers), 1), width);
      for (int l = 0; l < layers; ++l) network.variances[l] = 0.8 + 0.3 * l;
      network.readout_variance = 1.4;
      const auto known = random_examples(count, 1, 20, 3);
      const MatrixXd c = PathKernels(known.inputs, 1).kernel(MatrixXd::Ones(1, 1));
      const double r0 = known.targets.dot(c.llt().solve(known.targets)) / count,
                   zeta = zeta_of(layers, count / width, r0 / network.prior_variance(1));
      const auto order = solve(network, known, random_matrix(saddle_point_others, 20, 4), 1e-12).point.order;
      EXPECT_NEAR(order.readout, network.readout_variance * zeta, 1e-9 * order.readout);
      for (int l = 1; l <= layers; ++l) {
        const double wanted = std::pow(zeta, layers + 2 - l) * network.prior_variance(l);
        EXPECT_NEAR(order.u[l - 1](0, 0), wanted, 1e-9 * wanted);
      }
    }
}

TEST(SaddlePoint, departs_from_the_gaussian_process_by_the_first_order_of_the_inverse_width) {
  const auto known = random_examples(count, 6, saddle_point_dimension, 3);
  const PathKernels kernels(known.inputs, 6);
  const MatrixXd one = MatrixXd::Identity(6, 6);
  const auto energy = kernel_energy_and_slope(kernels.kernel(one), known.targets, saddle_point_temperature);
  const MatrixXd g = kernels.contract(energy.slope);
  std::vector<double> left;
  for (const double width : {1e4, 1e5}) {
    // U_1 = I - sum_l (1/N_l) I (x) ptr(G) - tr(G)/N_a I; two layers of 2 and 3 heads
    const MatrixXd first =
        one - (g + kronecker(MatrixXd::Identity(2, 2), partial_trace(g, 2)) + g.trace() * one) / width;
    const PathAction action(network_of_width({2, 3}, width), kernels, known.targets,
                            saddle_point_temperature);
    left.push_back((saddle_point(action).order.u[0] - first).norm());
  }
  // What is left is O(1/N^2), up to O(1/N^3): a hundredth at ten times the width, off by some 1/N.
  EXPECT_NEAR(std::log10(left[0] / left[1]), 2, 0.01);
}

TEST(SaddlePoint, tells_when_it_was_not_found) {
  const auto known = random_examples(count, 4, saddle_point_dimension, 3);
  const PathKernels kernels(known.inputs, 4);
  const PathAction action(network_of_width({2, 2}, 10), kernels, known.targets, saddle_point_temperature);
  EXPECT_THROW(saddle_point(action, {.iterations = 1, .newton_steps = 0}), NumericalFailure);
}

}  // namespace
}  // namespace fluxformer::paths
