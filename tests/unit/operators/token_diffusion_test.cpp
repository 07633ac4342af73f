// T6: properties of diffusion over tokens, on a line and on a grid.

#include "operators/token_diffusion.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <numeric>

#include "base/error.hpp"
#include "base/random.hpp"
#include "tests/support/reached.hpp"

namespace fluxformer {
namespace {

using test::reached;

constexpr double pi = std::numbers::pi;

/// A lattice on one rank, one diffusion coefficient per channel or for all.
struct Problem {
  Problem(int tokens_x, int tokens_y, std::vector<double> coefficients, bool periodic = false,
          int samples = 1, int width = 1, std::vector<int> length = {})
      : line(TokenLine::even(MPI_COMM_SELF, tokens_x, tokens_y, 1, 1, periodic)),
        kappa(std::move(coefficients)) {
    context = {.line = &line, .samples = samples, .width = width};
    context.mask.length = std::move(length);
    weights.diffusion = {kappa.data(), kappa.size() > 1};
  }
  std::vector<double> rhs(const std::vector<double>& u) {
    TokenDiffusion<double> term(context);
    std::vector<double> out(u.size(), 0.0);
    term.apply(weights, u.data(), add_to(out.data()), nullptr);
    return out;
  }
  std::vector<double> euler(std::vector<double> u, double dt) {
    const std::vector<double> f = rhs(u);
    for (std::size_t i = 0; i < u.size(); ++i) u[i] += dt * f[i];
    return u;
  }
  /// Half the sum of squared differences of neighbours, each pair once (zero flux).
  double energy(const std::vector<double>& u) const {
    const auto at = [&](int x, int y) { return u[y * line.tokens_x() + x]; };
    double sum = 0;
    for (int y = 0; y < line.tokens_y(); ++y)
      for (int x = 0; x < line.tokens_x(); ++x) {
        if (x > 0) sum += std::pow(at(x, y) - at(x - 1, y), 2);
        if (y > 0) sum += std::pow(at(x, y) - at(x, y - 1), 2);
      }
    return sum / 2;
  }

  TokenLine line;
  std::vector<double> kappa;
  SlabContext context;
  LayerWeights<const double> weights;
};

std::vector<double> noise(std::size_t size) {
  const RandomStream stream(7, "diffusion test");
  std::vector<double> u(size);
  for (std::size_t i = 0; i < size; ++i) u[i] = stream.normal(i);
  return u;
}

void expect_decay(double rate_of_change, double decay) {
  EXPECT_LE(reached("token diffusion: decay of modes", std::abs(rate_of_change + decay)),
            1e-14);  // a few additions below 4
}

TEST(TokenDiffusion, neumann_modes_decay_with_4_kappa_sin2) {
  const int n = 13;
  const double kappa = 0.7;
  Problem problem(n, 1, {kappa});
  for (int k = 0; k < n; ++k) {
    std::vector<double> mode(n);
    for (int j = 0; j < n; ++j) mode[j] = std::cos(pi * k * (j + 0.5) / n);
    const double rate = 4 * kappa * std::pow(std::sin(pi * k / (2.0 * n)), 2);
    const std::vector<double> f = problem.rhs(mode);
    for (std::size_t j = 0; j < f.size(); ++j) expect_decay(f[j], rate * mode[j]);
  }
}

TEST(TokenDiffusion, rates_of_modes_on_a_grid_add_up) {
  const int nx = 5, ny = 7;
  Problem problem(nx, ny, {1.0});
  for (int k = 0; k < nx; ++k)
    for (int l = 0; l < ny; ++l) {
      std::vector<double> mode;
      for (int y = 0; y < ny; ++y)
        for (int x = 0; x < nx; ++x)
          mode.push_back(std::cos(pi * k * (x + 0.5) / nx) * std::cos(pi * l * (y + 0.5) / ny));
      const double rate =
          4 * (std::pow(std::sin(pi * k / (2.0 * nx)), 2) + std::pow(std::sin(pi * l / (2.0 * ny)), 2));
      const std::vector<double> f = problem.rhs(mode);
      for (std::size_t j = 0; j < f.size(); ++j) expect_decay(f[j], rate * mode[j]);
    }
}

TEST(TokenDiffusion, periodic_modes_decay_with_4_kappa_sin2) {
  const int n = 9;
  Problem problem(n, 1, {0.3}, true);
  for (int k = 0; k < n; ++k) {
    std::vector<double> mode;
    for (int j = 0; j < n; ++j) mode.push_back(std::sin(2 * pi * k * j / n + 0.4));
    const double rate = 4 * 0.3 * std::pow(std::sin(pi * k / n), 2);
    const std::vector<double> f = problem.rhs(mode);
    for (std::size_t j = 0; j < f.size(); ++j) expect_decay(f[j], rate * mode[j]);
  }
}

TEST(TokenDiffusion, conserves_the_mean_of_each_channel_and_sample) {
  for (const bool periodic : {false, true}) {
    const int samples = 2, width = 3;
    Problem problem(4, 5, {0.1, 2.0, 0.5}, periodic, samples, width, {20, 13});
    const std::vector<double> f = problem.rhs(noise(4 * 5 * samples * width));
    for (std::size_t k = 0; k < samples * width; ++k) {
      double sum = 0;
      for (std::size_t token = 0; token < 20; ++token) sum += f[token * samples * width + k];
      EXPECT_LE(reached("token diffusion: mean", std::abs(sum)), 1e-13);  // 80 differences of size 10
    }
  }
}

TEST(TokenDiffusion, a_constant_state_does_not_move_at_all) {
  Problem problem(4, 3, {0.37});
  for (const double f : problem.rhs(std::vector<double>(12, 1.0 / 3))) EXPECT_EQ(f, 0);
}

TEST(TokenDiffusion, energy_never_grows_up_to_the_limit) {
  for (const auto& [x, y] : {std::pair{17, 1}, {1, 17}, {6, 7}}) {
    Problem problem(x, y, {0.8});
    const double limit = 0.5 / 0.8 / ((x > 1) + (y > 1));
    std::vector<double> u = noise(static_cast<std::size_t>(x * y));
    double before = problem.energy(u);
    for (int step = 0; step < 200; ++step) {
      u = problem.euler(u, limit);
      const double after = problem.energy(u);
      EXPECT_LE(reached("token diffusion: energy after over before, at the limit", after / before),
                1 + 1e-14);
      before = after;
    }
  }
}

// Beyond the limit the fastest mode grows by |1 - dt rate| per step: 1.05 times the limit and long lines
// (rate close to 4 kappa per axis) give about 1.1. On a grid the limit of a single axis is twice too much.
TEST(TokenDiffusion, energy_grows_beyond_the_limit_in_one_and_two_dimensions) {
  Problem on_line(32, 1, {0.8}), on_grid(16, 16, {0.8});
  for (auto& [problem, dt] :
       {std::pair{&on_line, 1.05 * 0.5 / 0.8}, {&on_grid, 1.05 * 0.25 / 0.8}, {&on_grid, 0.5 / 0.8}}) {
    std::vector<double> u = noise(static_cast<std::size_t>(problem->line.tokens()));
    const double before = problem->energy(u);
    for (int step = 0; step < 200; ++step) u = problem->euler(u, dt);
    EXPECT_GT(problem->energy(u), 10 * before);
  }
}

TEST(TokenDiffusion, a_periodic_axis_of_one_token_has_no_flux_and_one_of_two_counts_its_neighbour_twice) {
  Problem one(1, 1, {1.0}, true), two(2, 1, {1.0}, true);
  EXPECT_EQ(one.rhs({3.0}), std::vector<double>({0.0}));
  EXPECT_EQ(two.rhs({1.0, 4.0}), std::vector<double>({6.0, -6.0}));
}

TEST(TokenDiffusion, padding_is_the_boundary) {
  const std::vector<double> u = {1, 5, 2, 100, -100};
  Problem padded(5, 1, {1.0}, false, 1, 1, {3}), real(3, 1, {1.0});
  std::vector<double> expected = real.rhs({1, 5, 2});
  expected.resize(5, 0.0);
  EXPECT_EQ(padded.rhs(u), expected);
  Problem circle(5, 1, {1.0}, true, 1, 1, {3});  // nothing wraps around into padding
  EXPECT_EQ(circle.rhs(u), expected);
}

TEST(TokenDiffusion, each_sample_has_its_own_padding) {
  Problem problem(3, 1, {1.0}, false, 2, 1, {3, 2});
  //                                       token 0   1      2
  EXPECT_EQ(problem.rhs({1, 1, /**/ 5, 5, /**/ 7, 7}), std::vector<double>({4, 4, /**/ -2, -4, /**/ -2, 0}));
}

TEST(TokenDiffusion, the_diagonal_is_what_a_unit_vector_feels_at_its_place) {
  for (const bool periodic : {false, true}) {
    const int samples = 2, width = 2;
    Problem problem(4, 2, {0.3, 0.9}, periodic, samples, width, {8, 5});
    const std::size_t size = 8 * samples * width;
    std::vector<double> diagonal(size, 1.0);
    TokenDiffusion<double>(problem.context).add_diagonal(problem.weights, 2.0, diagonal.data());
    for (std::size_t i = 0; i < size; ++i) {
      std::vector<double> unit(size, 0.0);
      unit[i] = 1;
      EXPECT_NEAR(diagonal[i], 1 + 2 * problem.rhs(unit)[i], 1e-15);
    }
  }
}

TEST(TokenDiffusion, refuses_a_causal_mask) {
  Problem problem(4, 1, {1.0});
  problem.context.mask.causal = true;
  EXPECT_THROW(TokenDiffusion<double>{problem.context}, BadInput);
}

}  // namespace
}  // namespace fluxformer
