// T8: a distributed problem has the same solution as on one rank, and repeated runs on the same split give
// the same bits.
// Ranks: 1 2 3 4.

#include <gtest/gtest.h>

#include <string>

#include "model/embedding.hpp"
#include "tests/support/every_rank.hpp"
#include "tests/support/lattices.hpp"
#include "tests/support/reached.hpp"
#include "tests/support/small_problem.hpp"
#include "tests/support/test_vectors.hpp"

namespace fluxformer::ranks_do_not_matter {
namespace {

using namespace test;

struct Case {
  std::string name;
  ProblemSpec spec;
  EvolveSettings settings;
  double tolerance = 1e-12;  // round-off of sums in another order, over a hundred evaluations
};

EvolveSettings with(const std::string& method, const std::string& variant, double dt, double time) {
  EvolveSettings settings;
  settings.method = method;
  settings.variant = variant;
  settings.dt = dt;
  settings.time = time;
  return settings;
}

std::vector<Case> cases() {
  ProblemSpec shift;
  shift.model = small_model(7);  // prime: some ranks hold more cells than others
  shift.mesh = {.cells = 7, .tokens_x = 5, .tokens_y = 3, .samples = 2};
  shift.kappa = 0.2;
  auto upwind = shift;
  upwind.scheme = DepthScheme::upwind;
  upwind.epsilon = 0.2;
  auto upwind2 = shift;
  upwind2.scheme = DepthScheme::upwind2;
  upwind2.mesh.periodic = true;
  upwind2.model.order = SubLayerOrder::macaron;
  auto single = upwind;
  single.precision = Precision::float32;
  auto mixed = upwind;
  mixed.precision = Precision::mixed_emulated;
  auto unequal = shift;
  unequal.model.variation = DepthVariation::linear;
  unequal.kappa = 0.1;
  unequal.edges = {0, 0.5, 1.25, 2, 3.5, 4.25, 6, 7};
  auto language = shift;
  language.kappa = 0;
  language.model = small_language_model(7);
  language.mask = {.length = {15, 9}, .causal = true, .weight = {}};
  std::vector<Case> all{
      {"shift euler", shift, with("euler", "", 0.5, 6)},
      {"shift on unequal cells", unequal, with("euler", "", 0.25, 6)},
      {"a language model", language, with("euler", "", 0.5, 6)},
      {"upwind ssp", upwind, with("ssp", "", 0.4, 6)},
      {"upwind2 rk", upwind2, with("rk", "4", 0.4, 6)},
      {"upwind arkimex", upwind, with("arkimex", "3", 0.5, 4), 1e-9},  // linear solves to 1e-12
      // Weights and kernels in float: sums in another order differ by its round-off.
      {"single precision", single, with("ssp", "", 0.5, 3), 1e-5},
      // These carry some factors over the middle between two bfloat16 numbers; half of the rounding of all of
      // them, 2^-8.
      {"mixed precision", mixed, with("ssp", "", 0.5, 3), 0x1p-9}};
  return all;
}

TEST(RanksDoNotMatter, every_split_gives_the_solution_of_one_rank) {
  for (const auto& test_case : cases()) {
    auto alone = test_case.spec;
    Problem one(MPI_COMM_SELF, alone);
    const auto inflow = random_vector(one.whole_slab(), 5);
    const auto start = random_vector(one.whole_size(), 6);
    const auto expected = evolve(one, test_case.settings, start, inflow);
    for (const auto& split : every_split(MPI_COMM_WORLD, test_case.spec.mesh)) {
      auto spread = test_case.spec;
      spread.mesh = split;
      Problem several(MPI_COMM_WORLD, spread);
      const auto found = evolve(several, test_case.settings, start, inflow);
      const auto where = test_case.name + ", depth ranks " + std::to_string(split.ranks_depth);
      EXPECT_LT(reached(test_case.name, relative_difference(found, expected)), test_case.tolerance) << where;
      EXPECT_EQ(found, evolve(several, test_case.settings, start, inflow))
          << where << ": not the same bits twice";
    }
  }
}

TEST(RanksDoNotMatter, not_even_for_adaptive_steps) {
  auto test_case = cases()[1];
  test_case.settings.method = "rk";
  test_case.settings.dt = 0.1;
  test_case.settings.time = 2;
  test_case.settings.adaptive_tolerance = 1e-8;
  Problem one(MPI_COMM_SELF, test_case.spec);
  const auto inflow = random_vector(one.whole_slab(), 5);
  const Whole start(one.whole_size(), 0.0);
  const auto expected = evolve(one, test_case.settings, start, inflow);
  Problem several(MPI_COMM_WORLD, test_case.spec);
  const auto found = evolve(several, test_case.settings, start, inflow);
  EXPECT_LT(reached("error-controlled rk, tolerance 1e-8", relative_difference(found, expected)), 1e-8);
}

TEST(RanksDoNotMatter, nor_for_the_embedding_and_its_gradient) {
  auto spec = cases()[0].spec;
  spec.model.features = 4;
  spec.model.tokens = 15;
  Problem one(MPI_COMM_SELF, spec);
  const auto input = random_vector(2 * 15 * 4, 3);
  const auto bar = random_vector(one.whole_slab(), 4);
  const auto embedded = [&](const Problem& problem) {
    std::vector<double> slab(problem.context.size());
    embed(problem.parameters, problem.context, input.data(), slab.data());
    return problem.whole(slab.data());
  };
  const auto gradient = [&](const Problem& problem) {
    std::vector<double> mine(problem.parameters.values.size(), 0.0);
    Embedding(problem.parameters, problem.context).pull(input.data(), problem.local(bar).data(), mine, {});
    return sum_over(problem.mesh.token_line().comm(), std::move(mine));
  };
  for (const auto& split : every_split(MPI_COMM_WORLD, spec.mesh)) {
    spec.mesh = split;
    Problem several(MPI_COMM_WORLD, spec);
    EXPECT_EQ(several.parameters.values, one.parameters.values);
    EXPECT_LT(relative_difference(embedded(several), embedded(one)), 1e-14);
    EXPECT_LT(relative_difference(gradient(several), gradient(one)), 1e-13);
  }
}

}  // namespace
}  // namespace fluxformer::ranks_do_not_matter
