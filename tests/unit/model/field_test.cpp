// The parts of the field F_s on one rank: value, tangent, adjoint, gradient (T7), the layer map's limit for
// small steps; and the attention matrix of a layer.

#include <gtest/gtest.h>

#include <array>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "base/phases.hpp"
#include "model/depth_model.hpp"
#include "tests/support/reference_model.hpp"
#include "tests/support/small_problem.hpp"
#include "tests/support/test_vectors.hpp"
#include "tests/unit/model/layer_settings.hpp"

namespace fluxformer {
namespace {

using namespace test;

class Field : public testing::TestWithParam<Norm> {
 protected:
  ProblemSpec spec_ =
      problem_of({GetParam(), SubLayerOrder::sequential, true, SubLayerIntegrator::euler, true});
  Problem problem_{MPI_COMM_WORLD, spec_};
  std::size_t size_ = problem_.context.size();
  const Whole u_ = random_vector(size_, 6), v_ = random_vector(size_, 7), w_ = random_vector(size_, 8);
  Whole field(FieldTermKind part, const Whole& u, double scale = 1, double before = 0) {
    Whole out(size_, before);
    problem_.model->field({&part, 1}, at, scale, u.data(), out.data(), nullptr);
    return out;
  }
};

TEST_P(Field, parts_are_the_plain_formulas_scaled_and_added) {
  for (const auto part : all_field_terms) {
    const auto expected = naive::field(tokens_of(spec_), problem_.parameters, at, part, u_);
    EXPECT_LT(relative_difference(field(part, u_), expected), 1e-13);
    const auto added = field(part, u_, -0.3, 0.25);
    EXPECT_LT(relative_difference(added, plus(Whole(size_, 0.25), -0.3, expected)), 1e-13);
  }
}

TEST_P(Field, tangent_adjoint_and_gradient_belong_together) {
  auto& values = problem_.parameters.values;
  const Whole start = values;
  const auto direction = random_vector(values.size(), 9);
  for (const auto part : all_field_terms) {
    Whole jv(size_, 0.0), bar(size_, 0.0), gradient(values.size(), 0.0);
    problem_.model->push_field({&part, 1}, at, 0.7, {u_.data(), v_.data()}, jv.data());
    problem_.model->pull_field({&part, 1}, at, 0.7, u_.data(), w_.data(), bar.data(), gradient, nullptr);
    EXPECT_LT(std::abs(dot(jv, w_) - dot(v_, bar)), 1e-12 * norm(jv) * norm(w_));
    constexpr double t = 1e-5;
    const auto difference = plus(field(part, plus(u_, t, v_), 0.7), -1, field(part, plus(u_, -t, v_), 0.7));
    EXPECT_LT(norm(plus(jv, -1 / (2 * t), difference)), 1e-7 * norm(jv));
    const auto value = [&](double step) {
      values = plus(start, step, direction);
      problem_.model->refresh();
      const double product = dot(field(part, u_, 0.7), w_);
      values = start;
      problem_.model->refresh();
      return product;
    };
    EXPECT_NEAR(dot(gradient, direction) / ((value(t) - value(-t)) / (2 * t)), 1, 1e-7);
  }
}

/// A field and its adjoint, with a tape or (null) without; added to other numbers.
struct SweptField {
  SweptField(Problem& problem, std::span<const FieldTermKind> parts, Tape* tape, const Whole& u,
             const Whole& w)
      : value(u.size(), 0.25), bar(u.size(), 0.5), gradient(problem.parameters.values.size(), 0.75) {
    problem.model->field(parts, at, 0.7, u.data(), value.data(), tape);
    problem.model->pull_field(parts, at, 0.7, u.data(), w.data(), bar.data(), gradient, tape);
  }
  bool operator==(const SweptField&) const = default;
  Whole value, bar, gradient;
};

TEST_P(Field, with_a_tape_is_the_field_without_it_to_the_bit) {
  const Whole values = problem_.parameters.values;
  const auto tape = problem_.model->make_tape(Order::first);
  // One tape all the time, also where token diffusion ends and sets in.
  for (const double factor : {0.0, 1.0, 0.0}) {
    for (const auto& view : problem_.parameters.layout.views())
      for (Index j = view.offset; j < view.offset + view.size() && view.name == "kappa"; ++j)
        problem_.parameters.values[j] = factor * values[j];
    problem_.model->refresh();
    using Parts = std::vector<FieldTermKind>;
    for (const auto& parts : {Parts(std::begin(all_field_terms), std::end(all_field_terms)),
                              Parts{FieldTermKind::diffusion, FieldTermKind::attention}})
      for (const auto* u : {&u_, &v_})
        EXPECT_TRUE(SweptField(problem_, parts, tape.get(), *u, w_) ==
                    SweptField(problem_, parts, nullptr, *u, w_))
            << factor << ", " << parts.size() << " parts";
  }
}

TEST_P(Field, with_a_tape_evaluates_nothing_again) {
  if (GetParam() == Norm::sphere) GTEST_SKIP() << "projections evaluate again";
  for (const double kappa : {0.0, 0.2}) {
    auto spec = spec_;
    spec.kappa = kappa;
    Problem problem(MPI_COMM_WORLD, spec);
    const auto tape = problem.model->make_tape(Order::first);
    const auto flops = [&](Tape* kept) {
      const double before = work_counts().flops;
      SweptField(problem, all_field_terms, kept, u_, w_);
      return work_counts().flops - before;
    };
    // Evaluation and adjoint are counted as 1 and 2, the adjoint that evaluates again as 3.
    EXPECT_NEAR(flops(tape.get()) / flops(nullptr), 3.0 / 4, 1e-12) << kappa;
  }
}

// Sums of three numbers in another order.
TEST_P(Field, of_several_parts_is_their_sum_with_all_derivatives) {
  const std::size_t count = problem_.parameters.values.size();
  const auto all_of = [&](std::span<const FieldTermKind> parts) {
    std::array<Whole, 4> found{Whole(size_, 0.0), Whole(size_, 0.0), Whole(size_, 0.0), Whole(count, 0.0)};
    auto& [value, tangent, bar, gradient] = found;
    problem_.model->field(parts, at, 0.7, u_.data(), value.data(), nullptr);
    problem_.model->push_field(parts, at, 0.7, {u_.data(), v_.data()}, tangent.data());
    problem_.model->pull_field(parts, at, 0.7, u_.data(), w_.data(), bar.data(), gradient, nullptr);
    return found;
  };
  const auto together = all_of(all_field_terms);
  std::array<Whole, 4> sum{Whole(size_, 0.0), Whole(size_, 0.0), Whole(size_, 0.0), Whole(count, 0.0)};
  for (const auto part : all_field_terms) {
    const auto one = all_of({&part, 1});
    for (std::size_t k = 0; k < sum.size(); ++k) {
      EXPECT_GT(norm(one[k]), 0);
      sum[k] = plus(sum[k], 1, one[k]);
    }
  }
  for (std::size_t k = 0; k < sum.size(); ++k)
    EXPECT_LT(relative_difference(together[k], sum[k]), 1e-14) << k;
}

TEST_P(Field, is_the_limit_of_the_layer_map_for_every_order) {
  // (G(u; h) - u) / h = F(u) + O(h): halving h halves the distance. On the sphere u has length one.
  for (const auto order : {SubLayerOrder::sequential, SubLayerOrder::parallel, SubLayerOrder::macaron}) {
    auto spec = spec_;
    spec.model.order = order;
    if (GetParam() == Norm::sphere) spec.kappa = spec.nu = 0;  // which leave the tangent space
    Problem problem(MPI_COMM_WORLD, spec);
    Whole u = u_;
    if (GetParam() == Norm::sphere)
      for (std::size_t row = 0; row < size_; row += 6) {
        double square = 0;
        for (std::size_t c = 0; c < 6; ++c) square += u[row + c] * u[row + c];
        for (std::size_t c = 0; c < 6; ++c) u[row + c] /= std::sqrt(square);
      }
    Whole f(size_, 0.0);
    problem.model->field(all_field_terms, at, 1, u.data(), f.data(), nullptr);
    const auto distance = [&](double step) {
      Whole increment(size_);
      problem.model->increment(at, step, u.data(), increment.data());
      return norm(plus(f, -1 / step, increment));
    };
    // Parallel is one Euler step, whose quotient is F itself.
    if (order != SubLayerOrder::parallel || GetParam() == Norm::sphere) {
      EXPECT_NEAR(distance(2e-4) / distance(1e-4), 2, 0.01) << to_word(order);
    }
    EXPECT_LT(distance(1e-4), 1e-3 * norm(f)) << to_word(order);
  }
}

INSTANTIATE_TEST_SUITE_P(EveryNorm, Field, testing::Values(Norm::pre, Norm::sphere, Norm::none),
                         [](const auto& norm) { return to_word(norm.param); });

TEST(LayerMapOutput, attention_is_that_of_the_state_the_sub_layer_meets) {
  auto spec = problem_of({Norm::pre, SubLayerOrder::macaron, true, SubLayerIntegrator::euler, true});
  spec.model.own_halves = false;
  Problem problem(MPI_COMM_WORLD, spec);
  const auto u = random_vector(problem.context.size(), 6);
  const std::size_t entries = 2 * 2 * 6 * 6;  // [sample][head][query][key]
  Whole k(entries), k_after_half(entries);
  problem.model->attention(at, h, u.data(), nullptr, k.data());
  for (std::size_t row = 0; row < entries; row += 6) {
    double sum = 0;
    for (std::size_t key = 0; key < 6; ++key) sum += k[row + key];
    EXPECT_NEAR(sum, 1, 1e-14);
  }
  // The same weights in order sequential, on the state after the first half step of the reaction.
  const naive::WeightsAt weights(problem.parameters, at);
  const auto half =
      naive::reaction(tokens_of(spec), {7, Activation::gelu_erf, true, true}, weights.views(), u);
  Parameters sequential = problem.parameters;
  sequential.spec.order = SubLayerOrder::sequential;  // the layout is kept
  const auto model = make_depth_model(sequential, problem.context, Precision::float64);
  model->attention(at, h, plus(u, h / 2, half).data(), nullptr, k_after_half.data());
  EXPECT_LT(relative_difference(k, k_after_half), 1e-13);
}

}  // namespace
}  // namespace fluxformer
