// The layer map and the field on one rank, for every order, place of normalisation, residual, sub-flow and
// arithmetic: value against the plain formulas, tangent, adjoint, parameter gradient (T7).

#include <gtest/gtest.h>

#include <string>

#include "tests/support/reference_model.hpp"
#include "tests/support/small_problem.hpp"
#include "tests/support/test_vectors.hpp"

namespace fluxformer {
namespace {

using namespace test;

struct Setting {
  Norm norm;
  Order order;
  bool residual;
  Subflow subflow;
  bool knots;  ///< parameters between two knots, own halves and one kappa per channel; else one set per layer
};

std::string name_of(const Setting& s) {
  return to_word(s.norm) + "_" + to_word(s.order) + (s.residual ? "_residual_" : "_bare_") +
         to_word(s.subflow) + (s.knots ? "_knots" : "_layers");
}

std::vector<Setting> every_setting() {
  std::vector<Setting> all;
  for (const auto norm : {Norm::pre, Norm::post, Norm::sphere, Norm::none})
    for (const auto order : {Order::sequential, Order::parallel, Order::macaron})
      for (const bool residual : {true, false})
        for (const auto subflow : {Subflow::euler, Subflow::midpoint})
          for (const bool knots : {false, true})
            if (norm != Norm::sphere || order != Order::macaron || residual)  // else refused
              all.push_back({norm, order, residual, subflow, knots});
  return all;
}

ProblemSpec problem_of(const Setting& s) {
  ProblemSpec spec;
  spec.model = small_model(3);
  auto& m = spec.model;
  m.norm = s.norm;
  m.attention.layer_norm = s.norm == Norm::pre;
  m.order = s.order;
  m.residual = s.residual;
  m.subflow = s.subflow;
  if (s.knots) {
    m.variation = DepthVariation::linear;
    m.knots = 2;
    m.kappa_per_channel = true;
    m.own_halves = s.order == Order::macaron;
  }
  spec.mesh = {.cells = 3, .tokens_x = 3, .tokens_y = 2, .samples = 2};
  spec.kappa = 0.2;
  spec.alpha = 0.8;
  spec.rho = 1.3;
  return spec;
}

constexpr DepthPoint at{2, 1.3};  // layer 2; between the knots
constexpr double h = 1;           // what post and residual off ask for

naive::Tokens tokens_of(const ProblemSpec& spec) {
  return {spec.mesh.tokens_x, spec.mesh.tokens_y, spec.mesh.samples, spec.model.width, false, spec.mask};
}

class LayerMap : public testing::TestWithParam<Setting> {
 protected:
  LayerMap() : problem_(MPI_COMM_WORLD, spec_), size_(problem_.context.size()) {}
  Whole increment(const Whole& u) {
    Whole out(size_, 7.0);  // overwritten
    problem_.model->increment(at, h, u.data(), out.data());
    return out;
  }
  Whole tangent(const Whole& u, const Whole& v) {
    Whole out(size_, 7.0);
    problem_.model->increment_tangent(at, h, u.data(), v.data(), out.data());
    return out;
  }
  ProblemSpec spec_ = problem_of(GetParam());
  Problem problem_;
  std::size_t size_;
  const Whole u_ = random_vector(size_, 6), v_ = random_vector(size_, 7), w_ = random_vector(size_, 8);
};

TEST_P(LayerMap, is_the_plain_formula) {
  const auto expected = naive::layer_map(tokens_of(spec_), problem_.parameters, at, h, u_);
  EXPECT_LT(relative_difference(plus(u_, 1, increment(u_)), expected), 1e-13);
}

TEST_P(LayerMap, tangent_is_the_derivative) {
  const auto jv = tangent(u_, v_);
  const auto base = increment(u_);
  const auto remainder = [&](double t) {
    return norm(plus(plus(increment(plus(u_, t, v_)), -1, base), -t, jv));
  };
  EXPECT_NEAR(std::log2(remainder(2e-4) / remainder(1e-4)), 2, 0.05);
}

TEST_P(LayerMap, adjoint_is_the_transpose_and_is_added) {
  Whole bar(size_, 0.25), gradient;
  problem_.model->increment_adjoint(at, h, u_.data(), w_.data(), bar.data(), gradient);
  for (double& b : bar) b -= 0.25;
  const auto jv = tangent(u_, v_);
  EXPECT_LT(std::abs(dot(jv, w_) - dot(v_, bar)), 1e-12 * norm(jv) * norm(w_));
}

TEST_P(LayerMap, parameter_gradient_is_the_slope_for_every_array) {
  auto& values = problem_.parameters.values;
  Whole bar(size_, 0.0), gradient(values.size(), 0.5);  // added to
  problem_.model->increment_adjoint(at, h, u_.data(), w_.data(), bar.data(), gradient);
  for (double& g : gradient) g -= 0.5;
  const auto direction = random_vector(values.size(), 9);
  const Whole start = values;
  double seen = 0;
  for (const auto& view : problem_.parameters.layout.views()) {
    const double step = 1e-5;  // truncation 1e-10, round-off 1e-11
    double along = 0, size = 0;
    const auto value = [&](double t) {
      values = start;
      for (std::size_t j = view.offset; j < view.offset + view.size(); ++j) values[j] += t * direction[j];
      problem_.model->refresh();
      return dot(increment(u_), w_);
    };
    const double slope = (value(step) - value(-step)) / (2 * step);
    for (std::size_t j = view.offset; j < view.offset + view.size(); ++j) {
      along += gradient[j] * direction[j];
      size += std::abs(gradient[j] * direction[j]);
    }
    EXPECT_NEAR(along, slope, 1e-7 * std::max(size, 1e-2)) << view.path();
    seen += size > 0 ? 1 : 0;
  }
  EXPECT_GT(seen, 12);  // the arrays of a layer, alpha and rho
}

TEST_P(LayerMap, single_precision_follows_double_to_its_round_off) {
  auto single = spec_;
  single.precision = Precision::single;
  Problem rough(MPI_COMM_WORLD, single);
  constexpr double round_off = 5e-5;  // 1e-7 over some ten operations, amplified by LayerNorm's division
  Whole value(size_), jv(size_), bar(size_, 0.0), gradient(rough.parameters.values.size(), 0.0);
  rough.model->increment(at, h, u_.data(), value.data());
  rough.model->increment_tangent(at, h, u_.data(), v_.data(), jv.data());
  rough.model->increment_adjoint(at, h, u_.data(), w_.data(), bar.data(), gradient);
  Whole exact_bar(size_, 0.0), exact_gradient(gradient.size(), 0.0);
  problem_.model->increment_adjoint(at, h, u_.data(), w_.data(), exact_bar.data(), exact_gradient);
  EXPECT_LT(relative_difference(value, increment(u_)), round_off);
  EXPECT_LT(relative_difference(jv, tangent(u_, v_)), round_off);
  EXPECT_LT(relative_difference(bar, exact_bar), round_off);
  EXPECT_LT(relative_difference(gradient, exact_gradient), round_off);
  EXPECT_GT(relative_difference(value, increment(u_)), 1e-12);  // it is single
}

INSTANTIATE_TEST_SUITE_P(EverySetting, LayerMap, testing::ValuesIn(every_setting()),
                         [](const auto& setting) { return name_of(setting.param); });

class Field : public testing::TestWithParam<Norm> {
 protected:
  ProblemSpec spec_ = problem_of({GetParam(), Order::sequential, true, Subflow::euler, true});
  Problem problem_{MPI_COMM_WORLD, spec_};
  std::size_t size_ = problem_.context.size();
  const Whole u_ = random_vector(size_, 6), v_ = random_vector(size_, 7), w_ = random_vector(size_, 8);
  Whole field(Mechanism part, const Whole& u, double scale = 1, double before = 0) {
    Whole out(size_, before);
    problem_.model->add_field(part, at, scale, u.data(), out.data());
    return out;
  }
};

TEST_P(Field, parts_are_the_plain_formulas_scaled_and_added) {
  for (const auto part : all_mechanisms) {
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
  for (const auto part : all_mechanisms) {
    Whole jv(size_, 0.0), bar(size_, 0.0), gradient(values.size(), 0.0);
    problem_.model->add_field_tangent(part, at, 0.7, u_.data(), v_.data(), jv.data());
    problem_.model->add_field_adjoint(part, at, 0.7, u_.data(), w_.data(), bar.data(), gradient);
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
  for (const auto order : {Order::sequential, Order::parallel, Order::macaron}) {
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
    for (const auto part : all_mechanisms) problem.model->add_field(part, at, 1, u.data(), f.data());
    const auto distance = [&](double step) {
      Whole increment(size_);
      problem.model->increment(at, step, u.data(), increment.data());
      return norm(plus(f, -1 / step, increment));
    };
    // Parallel is one Euler step, whose quotient is F itself.
    if (order != Order::parallel || GetParam() == Norm::sphere) {
      EXPECT_NEAR(distance(2e-4) / distance(1e-4), 2, 0.01) << to_word(order);
    }
    EXPECT_LT(distance(1e-4), 1e-3 * norm(f)) << to_word(order);
  }
}

INSTANTIATE_TEST_SUITE_P(EveryNorm, Field, testing::Values(Norm::pre, Norm::sphere, Norm::none),
                         [](const auto& norm) { return to_word(norm.param); });

TEST(LayerMapOutput, attention_is_that_of_the_state_the_sub_layer_meets) {
  auto spec = problem_of({Norm::pre, Order::macaron, true, Subflow::euler, true});
  spec.model.own_halves = false;
  Problem problem(MPI_COMM_WORLD, spec);
  const auto u = random_vector(problem.context.size(), 6);
  const std::size_t entries = 2 * 2 * 6 * 6;  // [sample][head][query][key]
  Whole k(entries), k_after_half(entries);
  problem.model->attention_matrix(at, h, u.data(), k.data());
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
  sequential.spec.order = Order::sequential;  // the layout is kept
  const auto model = make_depth_model(sequential, problem.context, Precision::dbl);
  model->attention_matrix(at, h, plus(u, h / 2, half).data(), k_after_half.data());
  EXPECT_LT(relative_difference(k, k_after_half), 1e-13);
}

}  // namespace
}  // namespace fluxformer
