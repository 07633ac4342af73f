// The gradient of the march through depth over a token line of ranks agrees with that of one rank and with
// finite differences (T7, T8).

#include <gtest/gtest.h>

#include "model/depth_march.hpp"
#include "tests/support/adjoint_case.hpp"
#include "tests/support/every_rank.hpp"

namespace fluxformer::march_has_an_adjoint {
namespace {

using namespace test;

const MPI_Comm world = MPI_COMM_WORLD;

/// All ranks along the tokens.
ProblemSpec over_tokens(MPI_Comm comm, ProblemSpec spec) {
  spec.mesh.ranks_depth = 1;
  spec.mesh.ranks_token = size_of(comm);
  return spec;
}

/// Sum over the ranks that share the tokens.
Whole gradient_on(MPI_Comm comm, const ProblemSpec& spec, const AdjointSettings& settings) {
  AdjointCase c(comm, over_tokens(comm, spec));
  c.depth_loss = std::make_unique<SquaredNorm>(c.problem.context.size(), std::vector<int>{1, 3}, 0.02);
  return sum_over(comm, c.gradient(settings));
}

class MarchOverRanks : public testing::TestWithParam<std::string> {};

TEST_P(MarchOverRanks, has_the_gradient_of_one_rank) {
  // Explicit methods differ by the order of sums over tokens, implicit ones by the solver tolerance.
  const double tolerance = GetParam() == "cn" ? 1e-9 : 1e-12;
  const auto alone = gradient_on(MPI_COMM_SELF, adjoint_pde(), adjoint_by(GetParam()));
  const auto whole = gradient_on(world, adjoint_pde(), adjoint_by(GetParam()));
  EXPECT_LT(relative_difference(whole, alone), tolerance);
  EXPECT_EQ(gradient_on(world, adjoint_pde(), adjoint_by(GetParam(), 2, true)), whole)
      << "checkpoints on disk";
}

TEST_P(MarchOverRanks, has_the_slope_of_differences) {
  AdjointCase c(world, over_tokens(world, adjoint_pde_on_unequal_cells()));
  const auto march = c.march(adjoint_by(GetParam()));
  const auto evaluator = c.evaluator(*march);
  const auto gradient = sum_over(world, c.gradient(*march));
  const auto direction = random_vector(gradient.size(), 33, 0.1);
  // The loss is the same on every rank of the line.
  const double by_differences = slope([&](double step) { return c.loss(*evaluator, step, direction); }, 2e-4);
  EXPECT_NEAR(dot(gradient, direction) / by_differences, 1, 1e-7);
}

INSTANTIATE_TEST_SUITE_P(Methods, MarchOverRanks, testing::Values("1fe", "2b", "4", "cn"),
                         [](const auto& method) { return "by_" + method.param; });

TEST(MarchOverRanks, by_1fe_is_back_propagation) {
  AdjointCase c(world, over_tokens(world, adjoint_transformer(3)));
  Backpropagation direct(*c.problem.model, c.problem.depth, 1);
  const auto expected = sum_over(world, c.gradient(direct));
  EXPECT_LT(relative_difference(sum_over(world, c.gradient(adjoint_by("1fe"))), expected), 1e-12);
}

}  // namespace
}  // namespace fluxformer::march_has_an_adjoint
