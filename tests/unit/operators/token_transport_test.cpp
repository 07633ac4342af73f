// Properties of one-sided transport over tokens.

#include "operators/token_transport.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "base/random.hpp"
#include "operators/kept_tokens.hpp"
#include "tests/support/reached.hpp"

namespace fluxformer {
namespace {

using test::reached;

/// A line on one rank, one coefficient per channel or for all.
struct TransportProblem {
  TransportProblem(int tokens, std::vector<double> coefficients, bool periodic = false, int samples = 1,
                   int width = 1, std::vector<int> length = {})
      : line(TokenLine::even(MPI_COMM_SELF, tokens, 1, 1, 1, periodic)), nu(std::move(coefficients)) {
    context = {.line = &line, .samples = samples, .width = width};
    context.mask.length = std::move(length);
    weights.transport = {nu.data(), nu.size() > 1};
  }
  /// u + h T u
  std::vector<double> euler(const std::vector<double>& u, double h) {
    TokenTransport<double> term(context);
    std::vector<double> out(u.size());
    term.apply(weights, u.data(), {h, u.data(), out.data()}, nullptr);
    return out;
  }

  TokenLine line;
  std::vector<double> nu;
  SlabContext context;
  LayerWeights<const double> weights;
};

std::vector<double> random_line(std::size_t size) {
  const RandomStream stream(7, "transport test");
  std::vector<double> u(size);
  for (std::size_t i = 0; i < size; ++i) u[i] = stream.normal(i);
  return u;
}

double largest_of(const std::vector<double>& u) {
  double found = 0;
  for (const double x : u) found = std::max(found, std::abs(x));
  return found;
}

TEST(TokenTransport, shifts_by_one_token_where_h_nu_is_1) {
  TransportProblem open(5, {4.0}), circle(5, {4.0}, true);
  const std::vector<double> u = {3, -1, 4, 1, -5};  // whole numbers: differences are exact
  EXPECT_EQ(open.euler(u, 0.25), std::vector<double>({3, 3, -1, 4, 1}));
  EXPECT_EQ(circle.euler(u, 0.25), std::vector<double>({-5, 3, -1, 4, 1}));
}

TEST(TokenTransport, the_largest_norm_never_grows_up_to_the_limit) {
  for (const bool periodic : {false, true})
    for (const double share : {0.1, 0.5, 0.9, 1.0}) {
      TransportProblem problem(17, {0.8}, periodic);
      auto u = random_line(17);
      for (int step = 0; step < 100; ++step) {
        const double before = largest_of(u);
        u = problem.euler(u, share / 0.8);
        // A product and two sums round by less than 3 units of 2^-53 of numbers below twice the norm.
        EXPECT_LE(reached("token transport: largest norm after over before", largest_of(u) / before),
                  1 + 1e-15);
      }
    }
}

TEST(TokenTransport, the_largest_norm_grows_beyond_the_limit) {
  TransportProblem problem(33, {1.0}, true);
  std::vector<double> u;
  for (int x = 0; x < 33; ++x) u.push_back(x % 2 == 0 ? 1 : -1);
  // Opposite signs: |1 - 2 h nu| = 1.1 a step.
  for (int step = 0; step < 100; ++step) u = problem.euler(u, 1.05);
  EXPECT_GT(largest_of(u), 100);
}

// M steps spread a token over those behind it by the binomial distribution of hops with probability h nu.
TEST(TokenTransport, steps_are_hops_of_the_binomial_distribution) {
  const int tokens = 20, from = 2, steps = 9;
  const double p = 0.3;
  TransportProblem problem(tokens, {0.6});
  std::vector<double> u(tokens, 0.0), exact(tokens, 0.0);
  u[from] = 1;
  for (int step = 0; step < steps; ++step) u = problem.euler(u, p / 0.6);
  double choices = 1;
  for (int hops = 0; hops <= steps; ++hops) {
    exact[from + hops] = choices * std::pow(p, hops) * std::pow(1 - p, steps - hops);
    choices *= static_cast<double>(steps - hops) / (hops + 1);
  }
  for (int x = 0; x < tokens; ++x) EXPECT_NEAR(u[x], exact[x], 1e-15) << x;  // nine roundings below 0.3
}

TEST(TokenTransport, a_constant_state_does_not_move_at_all) {
  TransportProblem problem(12, {0.37});
  EXPECT_EQ(problem.euler(std::vector<double>(12, 1.0 / 3), 1), std::vector<double>(12, 1.0 / 3));
}

TEST(TokenTransport, a_token_depends_on_none_behind_it) {
  TransportProblem problem(9, {0.4, 0.7}, false, 1, 2);
  problem.context.mask.causal = true;
  auto u = random_line(18);
  const auto before = problem.euler(u, 1);
  u[2 * 5] += 1;
  const auto after = problem.euler(u, 1);
  for (std::size_t i = 0; i < 2 * 5; ++i) EXPECT_EQ(after[i], before[i]);
  EXPECT_NE(after[2 * 5], before[2 * 5]);
  EXPECT_NE(after[2 * 6], before[2 * 6]);
  EXPECT_EQ(after[2 * 7], before[2 * 7]);
}

TEST(TokenTransport, leaves_padding_as_it_is_and_each_sample_has_its_own) {
  TransportProblem problem(4, {1.0}, false, 2, 1, {4, 2});
  //            token 0        1        2        3
  EXPECT_EQ(problem.euler({1, 10, /**/ 2, 20, /**/ 3, 30, /**/ 4, 40}, 1),
            std::vector<double>({1, 10, /**/ 1, 10, /**/ 2, 30, /**/ 3, 40}));
  TransportProblem circle(4, {1.0}, true, 1, 1, {3});  // nothing wraps around out of padding
  EXPECT_EQ(circle.euler({1, 2, 3, 4}, 1), std::vector<double>({1, 1, 2, 4}));
}

TEST(TokenTransport, goes_along_the_rows_of_a_grid) {
  TransportProblem problem(1, {1.0});
  problem.line = TokenLine::even(MPI_COMM_SELF, 3, 2);
  EXPECT_EQ(problem.euler({1, 2, 3, /**/ 4, 5, 6}, 1), std::vector<double>({1, 1, 2, /**/ 4, 4, 5}));
}

TEST(TokenTransport, a_stretch_takes_from_the_token_that_was_kept) {
  TransportProblem problem(6, {0.25, 0.5}, false, 3, 2);
  problem.context.mask.causal = true;
  const auto u = random_line(36), whole = problem.euler(u, 1);
  KeptTokens kept(6, 3);
  std::vector<double> read;
  for (const auto& [first, count] : {std::pair{0, 2}, {2, 1}, {3, 3}}) {
    auto line = TokenLine::stretch(MPI_COMM_SELF, 6, count);
    line.move_to(first);
    SlabContext context = problem.context;
    context.line = &line;
    context.kept = &kept;
    kept.begin_march();
    TokenTransport<double> term(context);
    const double* const from = u.data() + first * context.row();
    std::vector<double> out(context.size());
    term.apply(problem.weights, from, {1, from, out.data()}, nullptr);
    read.insert(read.end(), out.begin(), out.end());
  }
  EXPECT_EQ(read, whole);
}

TEST(TokenTransport, refuses_a_causal_circle) {
  TransportProblem problem(4, {1.0}, true);
  problem.context.mask.causal = true;
  EXPECT_THROW(TokenTransport<double>{problem.context}, BadInput);
}

}  // namespace
}  // namespace fluxformer
