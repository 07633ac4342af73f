// T1: one forward Euler step of `shift` with dt = h/c moves every row one layer on, so that after M steps row
// i is the hidden state of the Transformer after layer i, whatever the start.
// Ranks: 1 2 3 4.

#include <gtest/gtest.h>

#include <string>

#include "tests/support/every_rank.hpp"
#include "tests/support/lattices.hpp"
#include "tests/support/reached.hpp"
#include "tests/support/small_problem.hpp"
#include "tests/support/test_vectors.hpp"

namespace fluxformer::transformer_is_the_cfl_one_scheme {
namespace {

using namespace test;

// Round-off of M = 6 layers of sums of some ten products, on starts ten times the size of the inflow.
constexpr double round_off = 1e-13;

/// Layer by layer, adding increments: the forward pass of a Transformer.
Whole forward_pass(Problem& problem, const Whole& inflow) {
  auto u = problem.local(inflow);
  std::vector<double> increment(u.size());
  Whole rows;
  for (int cell = 1; cell <= problem.depth.cells; ++cell) {
    problem.model->increment(problem.depth.entry(cell),
                             problem.depth.length(1) / problem.equation->spec().speed, u.data(),
                             increment.data());
    u = plus(u, 1, increment);
    const auto row = problem.whole(u.data());
    rows.insert(rows.end(), row.begin(), row.end());
  }
  return rows;
}

void expect_the_cfl_one_scheme(const ProblemSpec& spec, const std::string& what) {
  Problem problem(MPI_COMM_WORLD, spec);
  const auto inflow = random_vector(problem.whole_slab(), 5);
  double size = 0;
  for (const double e : inflow) size = std::max(size, std::abs(e));
  auto start = random_vector(problem.whole_size(), 6, 5 * size);
  for (double& u : start) u = std::clamp(u, -10 * size, 10 * size);

  const double dt = problem.depth.length(1) / spec.speed;
  EvolveSettings settings;
  settings.method = "euler";
  settings.dt = dt;
  settings.time = dt * problem.depth.cells;
  const auto rows = evolve(problem, settings, start, inflow);
  const auto where = what + ", depth ranks " + std::to_string(problem.mesh.grid().depth);
  const auto slab = problem.whole_slab();
  EXPECT_LT(reached("evolve against layer by layer",
                    largest_row_difference(rows, forward_pass(problem, inflow), slab)),
            round_off)
      << where;
  EXPECT_LT(reached("evolve against march", largest_row_difference(rows, march_rows(problem, inflow), slab)),
            round_off)
      << where;
}

void expect_it_on_every_split(ProblemSpec spec, const std::string& what) {
  for (const auto& split : every_split(MPI_COMM_WORLD, spec.mesh)) {
    spec.mesh = split;
    expect_the_cfl_one_scheme(spec, what);
  }
}

ProblemSpec transformer() {
  ProblemSpec spec;
  spec.model = small_model(6);
  spec.mesh = small_mesh(6);
  return spec;
}

TEST(TransformerIsTheCflOneScheme, for_every_norm_order_and_residual) {
  const auto splits = every_split(MPI_COMM_WORLD, small_mesh(6));
  std::size_t next = 0;  // the splits take turns
  for (const auto norm : {Norm::pre, Norm::post, Norm::sphere, Norm::none})
    for (const auto order : {SubLayerOrder::sequential, SubLayerOrder::parallel, SubLayerOrder::macaron})
      for (const bool residual : {true, false}) {
        if (norm == Norm::sphere && order == SubLayerOrder::macaron && !residual) continue;  // not defined
        auto spec = transformer();
        spec.mesh = splits[next++ % splits.size()];
        spec.model.norm = norm;
        spec.model.attention.layer_norm = norm == Norm::pre;
        spec.model.order = order;
        spec.model.residual = residual;
        spec.model.own_halves = order == SubLayerOrder::macaron;
        if (norm == Norm::none) spec.weight_scale = 0.3;  // nothing bounds the state
        expect_the_cfl_one_scheme(
            spec, to_word(norm) + " " + to_word(order) + (residual ? "" : " without residual"));
      }
}

TEST(TransformerIsTheCflOneScheme, with_token_diffusion) {
  auto spec = transformer();
  spec.kappa = 0.2;
  expect_it_on_every_split(spec, "kappa = 0.2");
}

TEST(TransformerIsTheCflOneScheme, with_padding_and_a_causal_mask) {
  auto spec = transformer();
  spec.mask.causal = true;
  spec.mask.length = {12, 7};
  expect_it_on_every_split(spec, "causal, padded");
}

TEST(TransformerIsTheCflOneScheme, with_the_terms_of_language_models) {
  auto spec = transformer();
  spec.model = small_language_model(6);
  spec.mask.causal = true;
  spec.mask.length = {12, 7};
  expect_it_on_every_split(spec, "a language model");
}

TEST(TransformerIsTheCflOneScheme, for_the_pde_model_on_any_number_of_cells) {
  auto spec = transformer();
  spec.model.layers = 3;
  spec.model.knots = 2;
  spec.model.variation = DepthVariation::linear;
  spec.mesh.cells = 7;
  spec.speed = 1.7;
  spec.kappa = 0.3;
  expect_it_on_every_split(spec, "seven cells on three layers, c = 1.7");
}

TEST(TransformerIsTheCflOneScheme, one_step_too_few_is_not_enough) {
  // The test would be empty if the rows had been close to their final values from the start.
  auto spec = transformer();
  Problem problem(MPI_COMM_WORLD, spec);
  const auto inflow = random_vector(problem.whole_slab(), 5);
  EvolveSettings settings;
  settings.method = "euler";
  settings.dt = 1;
  settings.time = 5;
  const auto rows = evolve(problem, settings, random_vector(problem.whole_size(), 6), inflow);
  EXPECT_GT(largest_row_difference(rows, march_rows(problem, inflow), problem.whole_slab()), 1e-3);
}

}  // namespace
}  // namespace fluxformer::transformer_is_the_cfl_one_scheme
