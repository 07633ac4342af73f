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
        std::vector<double> value(u.size()), expected(u.size()), bar(u.size()), expected_bar = w;
        std::vector<double> gradient(problem.parameters.values.size()), expected_gradient = gradient;
        const auto tape = model.make_tape();
        model.map_keeping(at, 1, u.data(), value.data(), *tape);
        model.map_adjoint(at, 1, u.data(), *tape, w.data(), bar.data(), gradient);
        model.increment(at, 1, u.data(), expected.data());
        model.increment_adjoint(at, 1, u.data(), w.data(), expected_bar.data(), expected_gradient);
        // Sums with u and w in a different order: a few units of round-off. Whole slabs, so that ranks agree.
        const auto x = problem.whole(value.data()), y = problem.whole(plus(u, 1, expected).data());
        EXPECT_LT(relative_difference(x, y), 1e-14);
        EXPECT_LT(relative_difference(problem.whole(bar.data()), problem.whole(expected_bar.data())), 1e-14);
        EXPECT_LT(relative_difference(gradient, expected_gradient), 1e-14);
      }
}

}  // namespace
}  // namespace fluxformer::tapes_do_not_mind_ranks
