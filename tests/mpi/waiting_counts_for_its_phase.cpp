// Time spent waiting for another rank is charged to the phase in which a rank waits.
//
// No rank is made late and no times are compared. This file stands between the program, PETSc and MPI (MPI's
// profiling interface, MPI 4.0, chapter 15) and reads the counts before and after each call that may wait:
// the time in between belongs to the current phase, however long it is.

#include <gtest/gtest.h>
#include <mpi.h>

#include <functional>
#include <vector>

#include "base/error.hpp"
#include "base/mpi.hpp"
#include "base/phases.hpp"
#include "mesh/ghosts.hpp"
#include "operators/attention/token_ring.hpp"
#include "tests/support/every_rank.hpp"
#include "training/trainer.hpp"

namespace fluxformer {
namespace {

/// Time of this rank within calls that may wait, by phase, while `watching`.
struct Waits {
  bool watching = false;
  WorkCounts within;
};
Waits waits;

template <class Call>
int watched(Call&& call) {
  if (!waits.watching) return call();
  const auto before = work_counts();
  const int code = call();
  const auto after = work_counts();
  for (std::size_t p = 0; p < phase_names.size(); ++p)
    waits.within.phases[p].seconds += after.phases[p].seconds - before.phases[p].seconds;
  return code;
}

}  // namespace
}  // namespace fluxformer

// What the tested code and PETSc's scatters wait in. PETSc's headers make macros of some of these names.
#undef MPI_Wait
#undef MPI_Waitall
#undef MPI_Waitany
#undef MPI_Recv
#undef MPI_Sendrecv
#undef MPI_Allreduce
#undef MPI_Bcast
#undef MPI_Barrier

using fluxformer::watched;

extern "C" {

int MPI_Wait(MPI_Request* request, MPI_Status* status) {
  return watched([&] { return PMPI_Wait(request, status); });
}

int MPI_Waitall(int count, MPI_Request* requests, MPI_Status* statuses) {
  return watched([&] { return PMPI_Waitall(count, requests, statuses); });
}

int MPI_Waitany(int count, MPI_Request* requests, int* index, MPI_Status* status) {
  return watched([&] { return PMPI_Waitany(count, requests, index, status); });
}

int MPI_Recv(void* data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Status* status) {
  return watched([&] { return PMPI_Recv(data, count, type, from, tag, comm, status); });
}

int MPI_Sendrecv(const void* data, int count, MPI_Datatype type, int to, int tag, void* other, int others,
                 MPI_Datatype other_type, int from, int other_tag, MPI_Comm comm, MPI_Status* status) {
  return watched([&] {
    return PMPI_Sendrecv(data, count, type, to, tag, other, others, other_type, from, other_tag, comm,
                         status);
  });
}

int MPI_Allreduce(const void* data, void* sum, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  return watched([&] { return PMPI_Allreduce(data, sum, count, type, op, comm); });
}

int MPI_Bcast(void* data, int count, MPI_Datatype type, int root, MPI_Comm comm) {
  return watched([&] { return PMPI_Bcast(data, count, type, root, comm); });
}

int MPI_Barrier(MPI_Comm comm) {
  return watched([&] { return PMPI_Barrier(comm); });
}

}  // extern "C"

namespace fluxformer {
namespace {

using namespace test;

/// Each rank waits in `phase` during `work`, and in no other; with one rank there may be nothing to wait for.
void expect_waiting(Phase phase, const std::function<void()>& work) {
  waits = {.watching = true, .within = {}};
  work();
  waits.watching = false;
  for (std::size_t p = 0; p < phase_names.size(); ++p) {
    const double longest = max_over(MPI_COMM_WORLD, waits.within.phases[p].seconds);
    if (p != static_cast<std::size_t>(phase)) {
      EXPECT_EQ(longest, 0) << phase_names[p];
    } else if (size_of(MPI_COMM_WORLD) > 1) {
      EXPECT_GT(longest, 0) << phase_names[p];
    }
  }
}

TEST(Waiting, for_a_slab_of_the_depth_before_is_ghosts) {
  const int ranks = size_of(MPI_COMM_WORLD);
  const Mesh mesh(MPI_COMM_WORLD, {.cells = ranks, .tokens_x = 2, .ranks_depth = ranks, .ranks_token = 1});
  DepthGhosts ghosts(mesh, 1, 0);
  const auto u = mesh.create_vector();
  expect_waiting(Phase::ghosts, [&] {
    ghosts.begin(u);
    ghosts.end();
  });
}

TEST(Waiting, for_rows_of_the_next_tokens_is_ghosts) {
  const int ranks = size_of(MPI_COMM_WORLD);
  const auto line = TokenLine::even(MPI_COMM_WORLD, 2 * ranks, 1, ranks, 1);
  const std::vector<double> slab(2, 1.0);
  TokenHalo halo;
  expect_waiting(Phase::ghosts, [&] {
    line.begin_halo(slab.data(), 1, halo);
    line.end_halo();
  });
  std::vector<double> sum(2, 0.0);
  expect_waiting(Phase::ghosts, [&] { line.add_halo_to_owners(halo, 1, sum.data()); });
}

TEST(Waiting, for_keys_and_values_is_ring) {
  const int ranks = size_of(MPI_COMM_WORLD);
  const auto line = TokenLine::even(MPI_COMM_WORLD, 2 * ranks, 1, ranks, 1);
  TokenRing<double> ring(line);
  const std::vector<double> own(2, 1.0);
  expect_waiting(Phase::ring, [&] { ring.visit(own.data(), 1, [](int, const double*) {}); });
  std::vector<double> bar(2, 0.0);
  expect_waiting(Phase::ring, [&] {
    ring.visit_and_collect(
        own.data(), 1, 1, [](int, const double*, double*) {}, bar.data());
  });
}

TEST(Waiting, for_a_sum_is_reduction) {
  std::vector<double> numbers(3, 1.0);
  expect_waiting(Phase::reduction, [&] { sum_over_ranks(numbers, MPI_COMM_WORLD); });
  expect_waiting(Phase::reduction, [&] { agree(MPI_COMM_WORLD, true, ""); });
}

TEST(Waiting, for_the_gradient_is_reduction) {
  std::vector<double> gradient(10, 1.0);
  GradientSum sum(MPI_COMM_WORLD, 4);
  expect_waiting(Phase::reduction, [&] {
    sum.add(gradient, 0, gradient.size());
    sum.finish();
  });
}

}  // namespace
}  // namespace fluxformer
