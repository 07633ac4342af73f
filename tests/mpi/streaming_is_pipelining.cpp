// T2: with an inflow that changes at every step of CFL 1, row i at step k holds layer i of sample k - i.

#include <gtest/gtest.h>

#include <map>

#include "tests/support/lattices.hpp"
#include "tests/support/reached.hpp"
#include "tests/support/small_problem.hpp"
#include "tests/support/test_vectors.hpp"

namespace fluxformer::streaming_is_pipelining {
namespace {

using namespace test;

constexpr int layers = 6;

void expect_pipelining(ProblemSpec spec) {
  constexpr int steps = 11;
  spec.mesh = small_mesh(layers);
  spec.speed =
      3;  // steps of 1/3, not a binary fraction: changes of the inflow must still coincide with steps
  spec.weight_scale = 0.7;
  for (const auto& split : every_split(MPI_COMM_WORLD, spec.mesh)) {
    spec.mesh = split;
    Problem problem(MPI_COMM_WORLD, spec);
    const auto sample = [&](long k) {
      return random_vector(problem.whole_slab(), static_cast<unsigned>(k) + 50);
    };
    std::vector<Whole> layers_of;
    for (int k = 0; k < steps; ++k) layers_of.push_back(march_rows(problem, sample(k)));

    EvolveSettings settings;
    settings.method = "euler";
    settings.dt = 1 / spec.speed;
    settings.inflow_every = 1 / spec.speed;
    settings.time = steps / spec.speed;
    Evolve solver(problem.mesh, *problem.equation, settings);
    solver.set_inflow([&](long block, double* slab) {
      const auto mine = problem.local(sample(block));
      std::copy(mine.begin(), mine.end(), slab);
    });
    double largest = 0;
    int compared = 0;
    solver.run([&](const Step& step) {
      const auto rows = problem.gather(step.u);
      const auto slab = static_cast<std::ptrdiff_t>(problem.whole_slab());
      for (int i = 1; i <= layers && step.clock.step - i >= 0; ++i) {
        const auto& reference = layers_of[static_cast<std::size_t>(step.clock.step - i)];
        const auto row = [&](const Whole& z) {
          return Whole(z.begin() + (i - 1) * slab, z.begin() + i * slab);
        };
        largest = std::max(largest, relative_difference(row(rows), row(reference)));
        ++compared;
      }
      return true;
    });
    EXPECT_LT(reached("row i at step k against layer i of sample k - i", largest), 1e-13)
        << split.ranks_depth << " depth ranks";  // round-off, as T1
    EXPECT_EQ(compared, 6 * 11 - 15);            // all rows the first sample has reached
  }
}

TEST(StreamingIsPipelining, row_i_at_step_k_is_layer_i_of_sample_k_minus_i) {
  expect_pipelining({.model = small_model(layers)});
}

TEST(StreamingIsPipelining, a_language_model_streams_layer_by_layer) {
  expect_pipelining({.model = small_language_model(layers), .mask = {.causal = true}});
}

}  // namespace
}  // namespace fluxformer::streaming_is_pipelining
