// Layers on the sphere never raise N_2 (their energy never falls): x -> (x + h y) / |x + h y| for any h >= 0, without residual connection,
// and along the tangential velocity for h up to 2.

#include "drivers/clusters/sphere_layer.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "analysis/clusters/sphere.hpp"

namespace fluxformer {
namespace {

/// N_2 by its definition, from differences, which are exact for tokens that have met.
double number_2_of(const std::vector<double>& x, int dimension, double beta) {
  const Index n = std::ssize(x) / dimension;
  double sum = 0;
  for (Index i = 0; i < n; ++i)
    for (Index j = 0; j < n; ++j) {
      double apart = 0;  // <x, y> - 1 = -|x - y|^2 / 2
      for (int c = 0; c < dimension; ++c) apart += std::pow(x[i * dimension + c] - x[j * dimension + c], 2);
      sum += std::exp(-beta * apart / 2);
    }
  return static_cast<double>(n * n) / sum;
}

/// The tokens (x + h dx/dt) / |x + h dx/dt|.
std::vector<double> along_velocity(const clusters::Tokens& tokens, double beta, double step,
                                   const std::vector<double>& x) {
  clusters::SphereAttention attention(tokens.count(), tokens.dimension, beta, MPI_COMM_SELF);
  std::vector<double> next(x.size());
  attention.velocity(x, next);
  for (std::size_t k = 0; k < x.size(); ++k) next[k] = x[k] + step * next[k];
  for (std::size_t row = 0; row < x.size(); row += tokens.dimension) {
    double square = 0;
    for (int c = 0; c < tokens.dimension; ++c) square += next[row + c] * next[row + c];
    for (int c = 0; c < tokens.dimension; ++c) next[row + c] /= std::sqrt(square);
  }
  return next;
}

/// Applies a layer again and again.
void expect_never_rises(const clusters::Tokens& tokens, double beta,
                        const std::function<std::vector<double>(const std::vector<double>&)>& layer) {
  auto x = tokens.x;
  const double first = number_2_of(x, tokens.dimension, beta);
  double before = first;
  for (int depth = 1; depth <= 12; ++depth) {
    x = layer(x);
    const double now = number_2_of(x, tokens.dimension, beta);
    // Roundings of n^2 exponentials, each of them beta times some units of 1e-16.
    EXPECT_LE(now, before * (1 + 2e-14)) << "depth " << depth;
    before = now;
  }
  if (beta == 0) return;  // all tokens are one cluster for a kernel without width
  EXPECT_LT(before, first * (1 - 1e-6));
}

/// Calls body(tokens, beta) for random tokens.
template <class Body>
void for_random_tokens(Body&& body) {
  for (const int dimension : {2, 3, 8})
    for (const double beta : {0.0, 1.0, 9.0})
      for (const std::uint64_t seed : {1, 2}) {
        SCOPED_TRACE("d = " + std::to_string(dimension) + ", beta = " + std::to_string(beta));
        body(clusters::random_tokens(0, 60, dimension, seed), beta);
      }
}

TEST(SphereLayer, never_raises_the_number_of_clusters_for_any_step) {
  for_random_tokens([](const clusters::Tokens& tokens, double beta) {
    SphereLayer layer(tokens, beta, 1, true);
    for (const double step : {0.1, 1.0, 10.0}) {
      SCOPED_TRACE(step);
      expect_never_rises(tokens, beta, [&](const std::vector<double>& x) { return layer.layer(x, step); });
    }
  });
}

TEST(SphereLayer, without_residual_never_raises_it_either) {
  for_random_tokens([](const clusters::Tokens& tokens, double beta) {
    SphereLayer layer(tokens, beta, 1, false);
    expect_never_rises(tokens, beta, [&](const std::vector<double>& x) { return layer.layer(x, 1); });
  });
}

TEST(SphereLayer, along_the_tangential_velocity_never_raises_it_up_to_a_step_of_2) {
  for_random_tokens([](const clusters::Tokens& tokens, double beta) {
    for (const double step : {0.1, 1.0, 2.0}) {
      SCOPED_TRACE(step);
      expect_never_rises(tokens, beta,
                         [&](const std::vector<double>& x) { return along_velocity(tokens, beta, step, x); });
    }
  });
  // Longer steps overshoot: two tokens at an angle of 1 have w = e^{cos 1 - 1} and turn by atan(10 w sin 1 / (1 + w)) each.
  const clusters::Tokens two{2, {1, 0, std::cos(1.0), std::sin(1.0)}};
  const double w = std::exp(std::cos(1.0) - 1), turned = std::atan(10 * w * std::sin(1.0) / (1 + w)),
               number = 2 / (1 + std::exp(std::cos(1 - 2 * turned) - 1));
  EXPECT_NEAR(number_2_of(along_velocity(two, 1, 10, two.x), 2, 1), number, 1e-14);
  EXPECT_GT(number, number_2_of(two.x, 2, 1) + 0.2);
}

}  // namespace
}  // namespace fluxformer
