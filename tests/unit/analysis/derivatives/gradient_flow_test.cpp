// Gradient flow where it is known from theory: token diffusion alone, whose modes are cosines with the gain
// g_k = 1 - 4 a sin^2(pi k / 2n) per step, a = kappa h; attention alone, which cannot grow faster than
// exp(t); a causal mask. All through the layer map of a real model.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>

#include "analysis/derivatives/jacobian_spectra.hpp"
#include "analysis/derivatives/layer_jacobians.hpp"
#include "analysis/derivatives/loss_gradients.hpp"
#include "model/initialise.hpp"
#include "tests/support/small_problem.hpp"
#include "tests/support/test_matrices.hpp"
#include "tests/support/test_vectors.hpp"

namespace fluxformer::derivatives {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr int n = 64;
constexpr double rounding = 1e-13;  // of a dense SVD: a small multiple of n times 1e-16

/// Gains of one step, in descending order for a <= 1/4.
double gain(int k, double a) {
  return 1 - 4 * a * std::pow(std::sin(std::numbers::pi * k / (2 * n)), 2);
}

/// n tokens of one channel, Neumann ends, layers of length 1; the head makes logits (u, 2 u) of the mean.
struct Diffusion {
  Diffusion(double a, int layers, int samples)
      : line(TokenLine::even(MPI_COMM_SELF, n, 1)),
        probe(test::on_cells(parameters(a, layers), layers), line, samples, Precision::float64),
        jacobian(probe) {}

  static Parameters parameters(double a, int layers) {
    ModelSpec spec;
    spec.kind = ModelKind::pde;
    spec.variation = DepthVariation::linear;
    spec.norm = Norm::none;
    spec.attention.layer_norm = false;
    spec.layers = layers;
    spec.classes = 2;
    Parameters p(spec);
    p.view("layers/1/kappa")[0] = a;
    p.view("head/W")[0] = 1;
    p.view("head/W")[1] = 2;
    return p;
  }
  void march(std::vector<double>& u, Keep keep = Keep::nothing) {
    probe.forward(u, keep, [&](int row, const double* state) { jacobian.keep(row, state); });
  }

  TokenLine line;
  ModelProbe probe;
  ProbeJacobian jacobian;
};

/// A slab of n samples, sample b being 1 at token b and 0 elsewhere: [token][sample] is then the matrix of a
/// linear map of tokens.
std::vector<double> unit_vectors() {
  std::vector<double> u(n * n, 0.0);
  for (std::size_t b = 0; b < n; ++b) u[b * n + b] = 1;
  return u;
}

TEST(PureDiffusion, keeps_the_known_part_of_the_energy_of_white_noise) {
  Diffusion diffusion(0.1, 10, n);
  auto u = unit_vectors();
  diffusion.march(u);
  // The mean of |J u|^2 / |u|^2 over white noise is |J|_F^2 / n.
  EXPECT_NEAR(test::dot(u, u) / n, 0.21029398831423, 1e-14);  // to the digits given
}

TEST(PureDiffusion, has_powers_of_the_gains_for_singular_values) {
  for (const double a : {0.1, 0.5}) {
    Diffusion diffusion(a, 10, n);
    auto u = unit_vectors();
    diffusion.march(u);
    for (const int m : {1, 2, 7, 10}) {
      MatrixXd jacobian(n, n);
      diffusion.jacobian.derivative(0, m)(unit_vectors().data(), jacobian.data());
      const VectorXd found = test::singular_values(jacobian);
      std::vector<double> expected;
      for (int k = 0; k < n; ++k) expected.push_back(std::pow(std::abs(gain(k, a)), m));
      std::sort(expected.begin(), expected.end(), std::greater<>());
      for (int k = 0; k < n; ++k) EXPECT_NEAR(found(k), expected[k], rounding) << k;
      EXPECT_NEAR(found(0), 1, rounding);  // mode 0 is kept
    }
  }
}

TEST(PureDiffusion, shows_its_extreme_gains_to_few_products) {
  Diffusion diffusion(0.1, 10, 1);
  std::vector<double> u(n, 1.0);
  diffusion.march(u);
  for (const int m : {1, 10}) {
    const auto range = singular_ranges(diffusion.probe.counted(), diffusion.jacobian.derivative(10 - m, 10),
                                       diffusion.jacobian.transposed(10 - m, 10), 30,
                                       RandomStream(1, "gradient flow"), std::vector<long>{0})
                           .front();
    EXPECT_NEAR(range.largest, 1, range.largest_error + 1e-14);
    EXPECT_NEAR(range.smallest, std::pow(gain(n - 1, 0.1), m), range.smallest_error + 1e-14);
    EXPECT_LT(range.largest_error, 0.01);
    EXPECT_LT(range.smallest_error, 0.05);  // powers lie close together at the lower end
  }
}

TEST(PureDiffusion, never_lets_a_gradient_grow_up_to_one_half_and_does_beyond) {
  constexpr int layers = 10;
  for (const double a : {0.1, 0.35, 0.5, 0.6}) {
    Diffusion diffusion(a, layers, 1);
    std::vector<double> u(n, 1.0);
    diffusion.march(u);
    std::vector<double> w = test::random_vector(n, 3), next(n);
    GradientAccumulator meter(layers + 1, diffusion.probe.counted());
    meter.add(layers, w.data());
    for (int i = layers; i-- > 0; w = next) {
      diffusion.jacobian.transposed(i, i + 1)(w.data(), next.data());
      meter.add(i, next.data());
    }
    meter.reduce(MPI_COMM_SELF);
    const auto ratio = meter.result().ratio;
    const double largest = *std::max_element(ratio.begin(), ratio.end() - 1);
    if (a <= 0.5)
      EXPECT_LE(largest, 1) << a;
    else
      EXPECT_GT(largest, 1.2) << a;  // tends to |g_{n-1}| = 1.4
  }
}

TEST(PureDiffusion, leaves_the_gradient_through_the_mean_as_it_is) {
  // The mean over tokens is mode 0.
  Diffusion diffusion(0.3, 10, 1);
  std::vector<double> u = test::random_vector(n, 4), u_bar;
  diffusion.march(u, Keep::activations);
  GradientAccumulator meter(11, diffusion.probe.counted());
  diffusion.probe.adjoint({1, -3}, u_bar, {}, [&](int i, const double* at) { meter.add(i, at); });
  meter.reduce(MPI_COMM_SELF);
  const auto m = meter.result();
  for (const double norm : m.norm)
    EXPECT_NEAR(norm, 5 / std::sqrt(n), 1e-14);  // |1 - 3 * 2| on each of n, / n
  EXPECT_NEAR(m.disparity, 1, 1e-13);
}

TEST(PureAttention, with_values_of_one_grows_no_faster_than_exp_t) {
  // x + h * (a mean of the x) is at most (1 + h) max |x|, whatever the logits, in any dimension; one head.
  ModelSpec spec;
  spec.kind = ModelKind::pde;
  spec.variation = DepthVariation::linear;
  spec.norm = Norm::none;
  spec.attention.layer_norm = false;
  spec.layers = 3;
  spec.width = 5;
  spec.ffn = 10;
  spec.activation = Activation::relu;
  spec.classes = 2;
  constexpr int tokens = 9, cells = 24;
  const auto line = TokenLine::even(MPI_COMM_SELF, tokens, 1);
  const auto largest = [](const double* u) {
    double most = 0;
    for (int x = 0; x < tokens; ++x) most = std::max(most, Eigen::Map<const VectorXd>(u + 5 * x, 5).norm());
    return most;
  };
  for (const double query_key : {0.0, 1.0, 3.0}) {
    Parameters p(spec);
    initialise_scaled_identity(p, query_key, 1);
    ModelProbe probe(test::on_cells(p, cells), line, 1, Precision::float64);
    auto u = test::random_vector(tokens * 5, 6, 1, 0.5);
    const double start = largest(u.data());
    probe.forward(u, Keep::nothing, [&](int row, const double* state) {
      EXPECT_LE(largest(state), std::pow(1 + 3.0 / cells, row) * start * (1 + 1e-14));
      EXPECT_LE(largest(state), std::exp(probe.depth().depth(row)) * start);
    });
    // It is nearly reached when tokens attend only to themselves.
    const double reached = largest(u.data()) / (std::pow(1 + 3.0 / cells, cells) * start);
    EXPECT_GT(reached, query_key == 3 ? 0.9 : 0) << query_key;
  }
}

TEST(CausalModel, shows_nothing_of_later_tokens_at_any_depth_and_nothing_goes_back) {
  ModelSpec spec;
  spec.layers = spec.knots = 3;
  spec.width = 6;
  spec.ffn = 7;
  spec.attention.heads = 2;
  spec.classes = 2;
  spec.causal = true;
  Parameters p(spec);
  initialise_standard(p, 1, 0, 1, 1);
  constexpr int tokens = 7, x = 3;
  const auto line = TokenLine::even(MPI_COMM_SELF, tokens, 1);
  ModelProbe probe(test::on_cells(p, 3), line, 1, Precision::float64);
  ProbeJacobian jacobian(probe);
  constexpr std::size_t seen = (x + 1) * 6;
  const auto states = [&](std::vector<double> u) {
    std::vector<double> all;
    probe.forward(u, Keep::nothing, [&](int row, const double* state) {
      all.insert(all.end(), state, state + seen);
      jacobian.keep(row, state);
    });
    return all;
  };
  auto u = test::random_vector(tokens * 6, 8);
  auto changed = u;
  for (std::size_t j = seen; j < u.size(); ++j) changed[j] = 40 * std::sin(static_cast<double>(j));
  EXPECT_EQ(states(u), states(changed));

  std::vector<double> w = test::random_vector(u.size(), 9), back(u.size());
  std::fill(w.begin() + seen, w.end(), 0.0);
  jacobian.transposed(0, 3)(w.data(), back.data());
  for (std::size_t j = 0; j < back.size(); ++j) EXPECT_EQ(back[j] == 0, j >= seen) << j;
}

}  // namespace
}  // namespace fluxformer::derivatives
