// Time spent waiting for a late rank is charged to the phase in which the others wait.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "base/phases.hpp"
#include "base/reductions.hpp"
#include "mesh/ghosts.hpp"
#include "operators/attention/token_ring.hpp"
#include "tests/support/every_rank.hpp"
#include "training/gradient_sum.hpp"

namespace fluxformer {
namespace {

using namespace test;

constexpr double late = 0.1;  // seconds

/// The longest time that a rank other than the first spends in `phase` during `work`, which the first rank
/// starts late. Best of three, since a rank without a free core starts late itself.
double waited(Phase phase, const std::function<void()>& work) {
  double longest = 0;
  for (int trial = 0; trial < 3; ++trial) {
    MPI_Barrier(MPI_COMM_WORLD);
    reset_work_counts();
    if (rank_in(MPI_COMM_WORLD) == 0) std::this_thread::sleep_for(std::chrono::duration<double>(late));
    work();
    const auto counts = work_counts();
    longest = std::max(longest, rank_in(MPI_COMM_WORLD) == 0 ? 0 : counts.at(phase).seconds);
  }
  return max_over(MPI_COMM_WORLD, longest);
}

/// At least half of it; with one rank there is no waiting.
void expect_waiting(double seconds) {
  if (size_of(MPI_COMM_WORLD) == 1)
    EXPECT_EQ(seconds, 0);
  else
    EXPECT_GT(seconds, late / 2);
}

TEST(Waiting, for_a_slab_of_the_depth_before_is_ghosts) {
  const int ranks = size_of(MPI_COMM_WORLD);
  const Mesh mesh(MPI_COMM_WORLD, {.cells = ranks, .tokens_x = 2, .ranks_depth = ranks, .ranks_token = 1});
  DepthGhosts ghosts(mesh, 1, 0);
  const auto u = mesh.create_vector();
  expect_waiting(waited(Phase::ghosts, [&] {
    ghosts.begin(u);
    ghosts.end();
  }));
}

TEST(Waiting, for_rows_of_the_next_tokens_is_ghosts) {
  const int ranks = size_of(MPI_COMM_WORLD);
  const auto line = TokenLine::even(MPI_COMM_WORLD, 2 * ranks, 1, ranks, 1);
  const std::vector<double> slab(2, 1.0);
  TokenHalo halo;
  expect_waiting(waited(Phase::ghosts, [&] {
    line.begin_halo(slab.data(), 1, halo);
    line.end_halo();
  }));
  std::vector<double> sum(2, 0.0);
  expect_waiting(waited(Phase::ghosts, [&] { line.add_halo_to_owners(halo, 1, sum.data()); }));
}

TEST(Waiting, for_keys_and_values_is_ring) {
  const int ranks = size_of(MPI_COMM_WORLD);
  const auto line = TokenLine::even(MPI_COMM_WORLD, 2 * ranks, 1, ranks, 1);
  TokenRing<double> ring(line);
  const std::vector<double> own(2, 1.0);
  expect_waiting(waited(Phase::ring, [&] { ring.visit(own.data(), 1, [](int, const double*) {}); }));
  std::vector<double> bar(2, 0.0);
  expect_waiting(waited(Phase::ring, [&] {
    ring.visit_and_collect(
        own.data(), 1, 1, [](int, const double*, double*) {}, bar.data());
  }));
}

TEST(Waiting, for_a_sum_is_reduction) {
  std::vector<double> numbers(3, 1.0);
  expect_waiting(waited(Phase::reduction, [&] { sum_over_ranks(numbers, MPI_COMM_WORLD); }));
  expect_waiting(waited(Phase::reduction, [&] { agree(MPI_COMM_WORLD, true, ""); }));
}

TEST(Waiting, for_the_gradient_is_reduction) {
  std::vector<double> gradient(10, 1.0);
  GradientSum sum(MPI_COMM_WORLD, 4);
  expect_waiting(waited(Phase::reduction, [&] {
    sum.add(gradient, 0, gradient.size());
    sum.finish();
  }));
}

}  // namespace
}  // namespace fluxformer
