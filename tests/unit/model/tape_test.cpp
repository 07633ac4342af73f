// The layer map with a tape: the bits of value and adjoint without one, and second derivatives, for every
// setting.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>

#include "base/error.hpp"
#include "tests/support/reached.hpp"
#include "tests/support/richardson.hpp"
#include "tests/support/small_problem.hpp"
#include "tests/support/test_vectors.hpp"
#include "tests/unit/model/layer_settings.hpp"

namespace fluxformer {
namespace {

using namespace test;

/// G(u) and its adjoint, with a tape or (null) without.
struct Swept {
  Swept(Problem& problem, Tape* tape, const Whole& u, const Whole& w)
      : value(u.size(), 7.0), bar(u.size(), 7.0), gradient(problem.parameters.values.size(), 0.25) {
    problem.model->map(at, h, u.data(), value.data(), tape);
    problem.model->pull(at, h, u.data(), w.data(), bar.data(), gradient, tape, Order::first);
  }
  bool operator==(const Swept&) const = default;
  Whole value, bar, gradient;
};

class TapeOfLayer : public testing::TestWithParam<Setting> {};

TEST_P(TapeOfLayer, gives_the_value_and_the_adjoint_of_the_map_without_it_to_the_bit) {
  for (const auto precision : {Precision::float64, Precision::float32}) {
    auto spec = problem_of(GetParam());
    spec.precision = precision;
    Problem problem(MPI_COMM_WORLD, spec);
    const auto tape = problem.model->make_tape(Order::first);
    const std::size_t size = problem.context.size();
    // Twice, since tapes are reused.
    for (const unsigned seed : {6u, 16u}) {
      const Whole u = random_vector(size, seed), w = random_vector(size, seed + 1);
      const Swept taped(problem, tape.get(), u, w);
      EXPECT_TRUE(taped == Swept(problem, nullptr, u, w));
      // In another order where a residual is added.
      Whole increment(size);
      problem.model->increment(at, h, u.data(), increment.data());
      EXPECT_LT(relative_difference(plus(u, 1, increment), taped.value),
                precision == Precision::float64 ? 1e-14 : 1e-5);
    }
  }
}

/// A point and a direction: parameters, state, and the adjoint's vector.
struct Whereabouts {
  Whole parameters, u, w;
};

// Richardson's and round-off's errors are both near 1e-11 of derivatives that LayerNorm makes large.
TEST_P(TapeOfLayer, of_second_order_gives_the_derivatives_of_value_and_adjoint) {
  Problem problem(MPI_COMM_WORLD, problem_of(GetParam()));
  auto& model = *problem.model;
  auto& values = problem.parameters.values;
  const std::size_t size = problem.context.size();
  const Whereabouts here{values, random_vector(size, 6), random_vector(size, 7)};
  const Whereabouts along{random_vector(values.size(), 8, 0.1), random_vector(size, 9),
                          random_vector(size, 10)};
  const auto tape = model.make_tape(Order::second);
  Whole v(size), bar(size), v_dot(size, 7.0), bar_dot(size, 7.0), newton(size, 7.0);
  Whole gradient(values.size(), 0.0), gradient_dot = gradient, newton_gradient = gradient;
  const Point point{here.u.data(), along.u.data()};
  model.map(at, h, here.u.data(), v.data(), tape.get());
  model.pull(at, h, here.u.data(), here.w.data(), bar.data(), gradient, tape.get(), Order::second);
  // A product with the Gauss-Newton matrix before the direction and one after it, and a tangent of the state
  // alone: neither disturbs what the Hessian product reads.
  for (int k = 0; k < 2; ++k) {
    std::ranges::fill(newton_gradient, 0.0);
    model.pull(at, h, here.u.data(), along.w.data(), newton.data(), newton_gradient, tape.get(),
               Order::first);
    if (k == 0) model.push(at, h, point, along.parameters, v_dot.data(), tape.get());
  }
  Whole state_alone(size);
  model.push(at, h, {here.u.data(), here.w.data()}, {}, state_alone.data(), tape.get());
  model.pull_along(at, h, point, along.w.data(), along.parameters, bar_dot.data(), gradient_dot, *tape);

  Whole again(size, 7.0);
  model.push(at, h, point, along.parameters, again.data(), nullptr);
  EXPECT_EQ(again, v_dot);
  Whole other_bar(size, 7.0), other_gradient(values.size(), 0.0);
  model.pull(at, h, here.u.data(), along.w.data(), other_bar.data(), other_gradient, nullptr, Order::first);
  EXPECT_EQ(newton, other_bar);
  EXPECT_EQ(newton_gradient, other_gradient);

  const auto moved = [&](double e) {
    values = plus(here.parameters, e, along.parameters);
    model.refresh();
    Whole value(size), its_bar(size), its_gradient(values.size(), 0.0);
    const Whole u = plus(here.u, e, along.u), w = plus(here.w, e, along.w);
    model.map(at, h, u.data(), value.data(), nullptr);
    model.pull(at, h, u.data(), w.data(), its_bar.data(), its_gradient, nullptr, Order::first);
    values = here.parameters;
    model.refresh();
    return std::array{value, its_bar, its_gradient};
  };
  const Whole* const found[] = {&v_dot, &bar_dot, &gradient_dot};
  for (std::size_t k = 0; k < 3; ++k)
    EXPECT_LT(
        reached("second derivatives of the layer map against differences",
                relative_difference(*found[k], derivative([&](double e) { return moved(e)[k]; }, 4e-3))),
        1e-8)
        << k;
}

/// Value, tangent, and the tangents of the adjoint and of the gradient, by a tape of second order.
std::array<Whole, 4> along_by_tape(Problem& problem, const Whereabouts& here, const Whereabouts& along) {
  auto& model = *problem.model;
  const std::size_t size = here.u.size();
  const auto tape = model.make_tape(Order::second);
  Whole value(size), bar(size), gradient(here.parameters.size(), 0.0);
  Whole v_dot(size), bar_dot(size), gradient_dot(gradient.size(), 0.0);
  const Point point{here.u.data(), along.u.data()};
  model.map(at, h, here.u.data(), value.data(), tape.get());
  model.pull(at, h, here.u.data(), here.w.data(), bar.data(), gradient, tape.get(), Order::second);
  model.push(at, h, point, along.parameters, v_dot.data(), tape.get());
  model.pull_along(at, h, point, along.w.data(), along.parameters, bar_dot.data(), gradient_dot, *tape);
  return {value, v_dot, bar_dot, gradient_dot};
}

// Round-off of 6e-8 over some ten operations, amplified by LayerNorm's division, gives first derivatives to
// 1e-5; second ones are sums of products of two of those, whose relative errors add up.
TEST_P(TapeOfLayer, of_second_order_in_single_precision_follows_double_to_its_round_off) {
  auto single = problem_of(GetParam());
  single.precision = Precision::float32;
  Problem exact(MPI_COMM_WORLD, problem_of(GetParam())), rough(MPI_COMM_WORLD, single);
  const std::size_t size = exact.context.size();
  const auto& values = exact.parameters.values;
  const Whereabouts here{values, random_vector(size, 6), random_vector(size, 7)};
  const Whereabouts along{random_vector(values.size(), 8, 0.1), random_vector(size, 9),
                          random_vector(size, 10)};
  const auto found = along_by_tape(rough, here, along), expected = along_by_tape(exact, here, along);
  for (std::size_t k = 0; k < found.size(); ++k) {
    const double error = relative_difference(found[k], expected[k]);
    EXPECT_LT(reached("second derivatives of the layer map in single precision", error), 2e-5) << k;
    EXPECT_GT(error, 1e-12) << k << ": single precision is not used";
  }
}

INSTANTIATE_TEST_SUITE_P(EverySetting, TapeOfLayer, testing::ValuesIn(every_setting()),
                         [](const auto& setting) { return name_of(setting.param); });

TEST(Tape, holds_memory_from_the_first_use_on_and_no_more_later) {
  Problem problem(MPI_COMM_WORLD, problem_of({Norm::post, SubLayerOrder::sequential, true,
                                              SubLayerIntegrator::euler, false}));
  const auto tape = problem.model->make_tape(Order::first);
  EXPECT_EQ(tape->bytes(), 0u);
  const Whole u = random_vector(problem.context.size(), 6);
  Whole v(u.size());
  problem.model->map(at, h, u.data(), v.data(), tape.get());
  const std::size_t held = tape->bytes();
  // The input of the second sub-layer and two sums before normalisation, and what the terms keep.
  EXPECT_GT(held, 3 * u.size() * sizeof(double));
  problem.model->map(at, h, u.data(), v.data(), tape.get());
  EXPECT_EQ(tape->bytes(), held);
}

// Two evaluations of the terms would keep twice as much as the Euler rule does.
TEST(Tape, of_first_order_holds_nothing_of_the_terms_under_the_midpoint_rule) {
  for (const auto norm : {Norm::pre, Norm::post})
    for (const auto order : {SubLayerOrder::sequential, SubLayerOrder::parallel, SubLayerOrder::macaron}) {
      const auto held = [&](SubLayerIntegrator subflow, Order upto) {
        Problem problem(MPI_COMM_WORLD, problem_of({norm, order, true, subflow, false}));
        const auto tape = problem.model->make_tape(upto);
        const Whole u = random_vector(problem.context.size(), 6);
        Whole v(u.size());
        problem.model->map(at, h, u.data(), v.data(), tape.get());
        return static_cast<double>(tape->bytes()) / static_cast<double>(u.size() * sizeof(double));
      };
      // Slabs: the arguments of two evaluations for each sub-layer but the first one of all, which is u, and
      // the sums before normalisations.
      const int sub_layers = order == SubLayerOrder::macaron ? 3 : order == SubLayerOrder::sequential ? 2 : 1;
      const double midpoint = held(SubLayerIntegrator::midpoint, Order::first);
      EXPECT_EQ(midpoint, 2 * sub_layers - 1 + (norm == Norm::post ? sub_layers : 0)) << to_word(order);
      EXPECT_LE(midpoint, held(SubLayerIntegrator::euler, Order::first)) << to_word(order);
      EXPECT_GT(held(SubLayerIntegrator::midpoint, Order::second), midpoint) << to_word(order);
    }
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
        const auto tape = problem.model->make_tape(Order::first);
        const Whole u = random_vector(problem.context.size(), 6), w = random_vector(u.size(), 7);
        EXPECT_TRUE(Swept(problem, tape.get(), u, w) == Swept(problem, nullptr, u, w));
      }
}

TEST(Tape, of_second_order_is_refused_by_the_key_that_has_none) {
  const auto refused = [](const ProblemSpec& spec, const std::string& key) {
    Problem problem(MPI_COMM_WORLD, spec);
    EXPECT_NE(problem.model->make_tape(Order::first), nullptr);
    try {
      (void)problem.model->make_tape(Order::second);
      ADD_FAILURE() << key;
    } catch (const BadInput& refusal) {
      EXPECT_THAT(refusal.what(), testing::StartsWith(key));
    }
  };
  refused(kernel_problem(Kernel::l2, 0, {}), "attention.kernel = l2");
  refused(kernel_problem(Kernel::dot, 2, {}), "attention.normalisation = sinkhorn");
  auto rounded = kernel_problem(Kernel::dot, 0, {});
  rounded.precision = Precision::mixed_emulated;
  refused(rounded, "run.precision = mixed");
}

TEST(Tape, of_one_layer_does_not_mind_what_the_model_does_in_between) {
  Problem problem(MPI_COMM_WORLD,
                  problem_of({Norm::post, SubLayerOrder::macaron, true, SubLayerIntegrator::euler, true}));
  const std::size_t size = problem.context.size();
  const Whole u = random_vector(size, 6), w = random_vector(size, 7), other = random_vector(size, 8);
  const Swept plain(problem, nullptr, u, w);
  const auto tape = problem.model->make_tape(Order::first), second = problem.model->make_tape(Order::first);
  Whole value(size), bar(size), gradient(plain.gradient.size());
  problem.model->map(at, h, u.data(), value.data(), tape.get());
  const Swept later(problem, second.get(), other, w);
  const Swept without(problem, nullptr, other, w);
  // Twice from one tape, which does not change.
  for (int k = 0; k < 2; ++k) {
    std::fill(gradient.begin(), gradient.end(), 0.25);
    problem.model->pull(at, h, u.data(), w.data(), bar.data(), gradient, tape.get(), Order::first);
    EXPECT_EQ(bar, plain.bar);
    EXPECT_EQ(gradient, plain.gradient);
  }
  // Without parameters.
  Whole alone(size);
  problem.model->pull(at, h, u.data(), w.data(), alone.data(), {}, tape.get(), Order::first);
  EXPECT_EQ(alone, bar);
}

}  // namespace
}  // namespace fluxformer
