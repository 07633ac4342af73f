// The parts of the field F_s on one rank: value, tangent, adjoint, gradient (T7), the layer map's limit for
// small steps; and the attention matrix of a layer.

#include <gtest/gtest.h>

#include <string>

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

TEST_P(Field, is_the_limit_of_the_layer_map_for_every_order) {
  // (G(u; h) - u) / h = F(u) + O(h): halving h halves the distance. On the sphere u has length one.
  for (const auto order : {SubLayerOrder::sequential, SubLayerOrder::parallel, SubLayerOrder::macaron}) {
    auto spec = spec_;
    spec.model.order = order;
    if (GetParam() == Norm::sphere) spec.kappa = 0;  // diffusion alone leaves the tangent space
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
