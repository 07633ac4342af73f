// The layer map with a tape on a distributed token line: value and adjoint agree with the map without a tape.

#include <gtest/gtest.h>

#include "tests/support/small_problem.hpp"
#include "tests/support/test_vectors.hpp"

namespace fluxformer::tapes_do_not_mind_ranks {
namespace {

using namespace test;

ProblemSpec split(Normalisation normalisation, Kernel kernel, const TokenMask& mask, int ranks) {
  ProblemSpec spec;
  spec.model = small_model(2);
  spec.model.attention.kernel = kernel;
  spec.model.attention.normalisation = normalisation;
  spec.model.attention.sinkhorn_iterations = normalisation == Normalisation::sinkhorn ? 3 : 1;
  spec.mesh = small_mesh(2);
  spec.mesh.ranks_depth = 1;
  spec.mesh.ranks_token = ranks;
  spec.kappa = mask.causal ? 0 : 0.2;
  spec.mask = mask;
  return spec;
}

TEST(Tape, of_a_split_line_gives_the_adjoint_of_the_map_without_it) {
  int ranks = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const DepthPoint at{2, 1.0};
  TokenMask padding, causal;
  padding.length = {5, 12};
  causal.causal = true;
  for (const auto normalisation : {Normalisation::softmax, Normalisation::sinkhorn})
    for (const auto kernel : {Kernel::dot, Kernel::l2})
      for (const auto& mask : {TokenMask{}, padding, causal}) {
        if (mask.causal && normalisation == Normalisation::sinkhorn) continue;
        Problem problem(MPI_COMM_WORLD, split(normalisation, kernel, mask, ranks));
        auto& model = *problem.model;
        const auto u = problem.local(random_vector(problem.whole_slab(), 6));
        const auto w = problem.local(random_vector(problem.whole_slab(), 7));
        std::vector<double> value(u.size()), expected(u.size()), bar(u.size()), expected_bar(u.size());
        std::vector<double> gradient(problem.parameters.values.size()), expected_gradient = gradient;
        const auto tape = model.make_tape(Order::first);
        model.map(at, 1, u.data(), value.data(), tape.get());
        model.pull(at, 1, u.data(), w.data(), bar.data(), gradient, tape.get(), Order::first);
        model.map(at, 1, u.data(), expected.data(), nullptr);
        model.pull(at, 1, u.data(), w.data(), expected_bar.data(), expected_gradient, nullptr, Order::first);
        // Whole slabs, so that ranks agree.
        EXPECT_EQ(problem.whole(value.data()), problem.whole(expected.data()));
        EXPECT_EQ(problem.whole(bar.data()), problem.whole(expected_bar.data()));
        EXPECT_EQ(gradient, expected_gradient);
      }
}

}  // namespace
}  // namespace fluxformer::tapes_do_not_mind_ranks
