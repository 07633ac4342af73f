// Windows of the layers of a model: the domain of dependence after some depth cells.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/reached.hpp"
#include "tests/support/reference_model.hpp"
#include "tests/support/small_problem.hpp"
#include "tests/support/test_vectors.hpp"

namespace fluxformer {
namespace {

using namespace test;

/// Three layers of different windows, the last two of two cells each, on a line of 24 tokens.
ProblemSpec layers_with_windows(bool causal) {
  ProblemSpec spec;
  spec.model = small_model(3);
  spec.model.causal = spec.mask.causal = causal;
  spec.model.windows = {2, 4, 1};
  spec.mesh = {.cells = 5, .tokens_x = 24, .tokens_y = 1, .samples = 1};
  spec.edges = {0, 1, 1.5, 2, 2.5, 3};
  return spec;
}

TEST(WindowsOfLayers, are_those_of_the_plain_formula) {
  for (const bool causal : {false, true}) {
    const ProblemSpec spec = layers_with_windows(causal);
    Problem problem(MPI_COMM_WORLD, spec);
    const naive::Tokens tokens{24, 1, 1, spec.model.width, false, spec.mask};
    const Whole u = random_vector(problem.whole_slab(), 6);
    for (int cell = 1; cell <= 5; ++cell) {
      const DepthPoint at = problem.depth.entry(cell);
      const double h = problem.depth.length(cell);
      Whole out(u.size());
      problem.model->map(at, h, u.data(), out.data(), nullptr);
      EXPECT_LT(relative_difference(out, naive::layer_map(tokens, problem.parameters, at, h, u)), 1e-13);
    }
  }
}

// A cell carries a causal token's effect over W - 1 tokens, another one's over W tokens to each side: five
// cells with the windows 2, 4, 4, 1, 1 over 7 and 12.
TEST(WindowsOfLayers, bound_what_a_token_hears_after_some_cells) {
  for (const bool causal : {false, true}) {
    Problem problem(MPI_COMM_WORLD, layers_with_windows(causal));
    const std::size_t d = 6;
    Whole u = random_vector(problem.whole_slab(), 6), v(u.size(), 0.0);
    const Whole along = random_vector(d, 8);
    std::copy(along.begin(), along.end(), v.begin());  // of token 0
    std::size_t reach = 0;
    for (int cell = 1; cell <= 5; ++cell) {
      const DepthPoint at = problem.depth.entry(cell);
      reach += static_cast<std::size_t>(problem.parameters.spec.window(at.layer) - (causal ? 1 : 0));
      Whole next(u.size()), next_v(u.size());
      problem.model->map(at, problem.depth.length(cell), u.data(), next.data(), nullptr);
      problem.model->push(at, problem.depth.length(cell), {u.data(), v.data()}, {}, next_v.data(), nullptr);
      u = next, v = next_v;
      for (std::size_t x = 0; x < 24; ++x)
        for (std::size_t c = 0; c < d; ++c)
          EXPECT_EQ(v[x * d + c] != 0, x <= reach) << "cell " << cell << ", token " << x;
    }
    EXPECT_EQ(reach, causal ? 7U : 12U);
  }
}

}  // namespace
}  // namespace fluxformer
