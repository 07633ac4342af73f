// The layer map with a tape: the same value, and the adjoint of increment_adjoint, for every setting.

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "tests/support/small_problem.hpp"
#include "tests/support/test_vectors.hpp"
#include "tests/unit/model/layer_settings.hpp"

namespace fluxformer {
namespace {

using namespace test;

/// G(u) and its adjoint by the functions without a tape.
struct Plain {
  Plain(Problem& problem, const Whole& u, const Whole& w)
      : value(u.size()), bar(w), gradient(problem.parameters.values.size(), 0.25) {
    problem.model->increment(at, h, u.data(), value.data());
    for (std::size_t j = 0; j < u.size(); ++j) value[j] += u[j];
    problem.model->increment_adjoint(at, h, u.data(), w.data(), bar.data(), gradient);
  }
  Whole value, bar, gradient;
};

struct Taped {
  Taped(Problem& problem, Tape& tape, const Whole& u, const Whole& w)
      : value(u.size(), 7.0), bar(u.size(), 7.0), gradient(problem.parameters.values.size(), 0.25) {
    problem.model->map_keeping(at, h, u.data(), value.data(), tape);
    problem.model->map_adjoint(at, h, u.data(), tape, w.data(), bar.data(), gradient);
  }
  Whole value, bar, gradient;
};

void expect_near(const Taped& taped, const Plain& plain, double tolerance) {
  EXPECT_LT(relative_difference(taped.value, plain.value), tolerance);
  EXPECT_LT(relative_difference(taped.bar, plain.bar), tolerance);
  EXPECT_LT(relative_difference(taped.gradient, plain.gradient), tolerance);
}

// The same operations on the same numbers; only sums with the state u are in a different order: a few units
// of round-off in double, which a single-precision kernel either rounds away or turns into one unit of its
// own.
constexpr double double_round_off = 1e-14;
constexpr double single_round_off = 1e-5;

class TapeOfLayer : public testing::TestWithParam<Setting> {};

TEST_P(TapeOfLayer, gives_the_value_and_the_adjoint_of_the_map_without_it) {
  for (const auto precision : {Precision::float64, Precision::float32}) {
    auto spec = problem_of(GetParam());
    spec.precision = precision;
    Problem problem(MPI_COMM_WORLD, spec);
    const auto tape = problem.model->make_tape();
    const std::size_t size = problem.context.size();
    // Twice, since tapes are reused.
    for (const unsigned seed : {6u, 16u}) {
      const Whole u = random_vector(size, seed), w = random_vector(size, seed + 1);
      const Taped taped(problem, *tape, u, w);
      expect_near(taped, Plain(problem, u, w),
                  precision == Precision::float64 ? double_round_off : single_round_off);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EverySetting, TapeOfLayer, testing::ValuesIn(every_setting()),
                         [](const auto& setting) { return name_of(setting.param); });

TEST(Tape, holds_memory_from_the_first_use_on_and_no_more_later) {
  Problem problem(MPI_COMM_WORLD, problem_of({Norm::post, SubLayerOrder::sequential, true,
                                              SubLayerIntegrator::euler, false}));
  const auto tape = problem.model->make_tape();
  EXPECT_EQ(tape->bytes(), 0u);
  const Whole u = random_vector(problem.context.size(), 6);
  Whole v(u.size());
  problem.model->map_keeping(at, h, u.data(), v.data(), *tape);
  const std::size_t held = tape->bytes();
  // The input of the second sub-layer and two sums before normalisation, and what the terms keep.
  EXPECT_GT(held, 3 * u.size() * sizeof(double));
  problem.model->map_keeping(at, h, u.data(), v.data(), *tape);
  EXPECT_EQ(tape->bytes(), held);
}

/// A pre-norm layer with this kernel and mask.
ProblemSpec kernel_problem(Kernel kernel, int iterations, const TokenMask& mask) {
  auto spec = problem_of({Norm::pre, SubLayerOrder::sequential, true, SubLayerIntegrator::euler, false});
  spec.model.attention.kernel = kernel;
  if (iterations > 0) spec.model.attention.normalisation = Normalisation::sinkhorn;
  spec.model.attention.sinkhorn_iterations = std::max(1, iterations);
  spec.mask = mask;
  if (mask.causal) spec.kappa = 0;
  return spec;
}

TEST(Tape, serves_every_kernel_and_mask) {
  TokenMask padding, causal, both;
  padding.length = {4, 6};
  causal.causal = true;
  both.length = {3, 5};
  both.causal = true;
  for (const auto kernel : {Kernel::dot, Kernel::l2})
    for (const int iterations : {0, 1, 2, 3, 4})
      for (const auto& mask : {TokenMask{}, padding, causal, both}) {
        if (iterations > 0 && mask.causal) continue;
        Problem problem(MPI_COMM_WORLD, kernel_problem(kernel, iterations, mask));
        const auto tape = problem.model->make_tape();
        const Whole u = random_vector(problem.context.size(), 6), w = random_vector(u.size(), 7);
        const Taped taped(problem, *tape, u, w);
        expect_near(taped, Plain(problem, u, w), double_round_off);
      }
}

TEST(Tape, of_one_layer_does_not_mind_what_the_model_does_in_between) {
  Problem problem(MPI_COMM_WORLD,
                  problem_of({Norm::post, SubLayerOrder::macaron, true, SubLayerIntegrator::euler, true}));
  const std::size_t size = problem.context.size();
  const Whole u = random_vector(size, 6), w = random_vector(size, 7), other = random_vector(size, 8);
  const Plain plain(problem, u, w);
  const auto tape = problem.model->make_tape(), second = problem.model->make_tape();
  Whole value(size), bar(size), gradient(plain.gradient.size(), 0.25);
  problem.model->map_keeping(at, h, u.data(), value.data(), *tape);
  const Taped later(problem, *second, other, w);
  const Plain without(problem, other, w);
  // Twice from one tape, which does not change.
  for (int k = 0; k < 2; ++k) {
    std::fill(gradient.begin(), gradient.end(), 0.25);
    problem.model->map_adjoint(at, h, u.data(), *tape, w.data(), bar.data(), gradient);
    EXPECT_LT(relative_difference(bar, plain.bar), double_round_off);
    EXPECT_LT(relative_difference(gradient, plain.gradient), double_round_off);
  }
  // Without parameters.
  Whole alone(size);
  problem.model->map_adjoint(at, h, u.data(), *tape, w.data(), alone.data(), {});
  EXPECT_EQ(alone, bar);
}

}  // namespace
}  // namespace fluxformer
