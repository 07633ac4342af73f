// The layer map on one rank, for every order, normalisation, residual, sub-flow and arithmetic: value against
// the plain formulas, tangent, adjoint, parameter gradient (T7).

#include <gtest/gtest.h>

#include <string>

#include "tests/support/reached.hpp"
#include "tests/support/reference_model.hpp"
#include "tests/support/small_problem.hpp"
#include "tests/support/test_vectors.hpp"
#include "tests/unit/model/layer_settings.hpp"

namespace fluxformer {
namespace {

using namespace test;

class MapOfLayer : public testing::TestWithParam<Setting> {
 protected:
  MapOfLayer() : problem_(MPI_COMM_WORLD, spec_), size_(problem_.context.size()) {}
  Whole increment(const Whole& u) {
    Whole out(size_, 7.0);  // overwritten
    problem_.model->increment(at, h, u.data(), out.data());
    return out;
  }
  Whole map(const Whole& u) {
    Whole out(size_, 7.0);
    problem_.model->map(at, h, u.data(), out.data(), nullptr);
    return out;
  }
  Whole tangent(const Whole& u, const Whole& v) {
    Whole out(size_, 7.0);
    problem_.model->push(at, h, {u.data(), v.data()}, {}, out.data(), nullptr);
    return out;
  }
  ProblemSpec spec_ = problem_of(GetParam());
  Problem problem_;
  std::size_t size_;
  const Whole u_ = random_vector(size_, 6), v_ = random_vector(size_, 7), w_ = random_vector(size_, 8);
};

TEST_P(MapOfLayer, is_the_plain_formula) {
  const auto expected = naive::layer_map(tokens_of(spec_), problem_.parameters, at, h, u_);
  EXPECT_LT(
      reached("layer map against its formula", relative_difference(plus(u_, 1, increment(u_)), expected)),
      1e-13);
  EXPECT_LT(relative_difference(map(u_), expected), 1e-13);
}

TEST_P(MapOfLayer, tangent_is_the_derivative) {
  const auto jv = tangent(u_, v_);
  const auto base = map(u_);
  const auto remainder = [&](double t) { return norm(plus(plus(map(plus(u_, t, v_)), -1, base), -t, jv)); };
  const double slope = std::log2(remainder(2e-4) / remainder(1e-4));
  EXPECT_LT(reached("layer map: |Taylor slope - 2|", std::abs(slope - 2)), 0.05) << slope;
}

TEST_P(MapOfLayer, tangent_from_the_tape_is_the_tangent_to_the_bit) {
  const auto tape = problem_.model->make_tape(Order::first);
  Whole value(size_), out(size_);
  problem_.model->map(at, h, u_.data(), value.data(), tape.get());
  for (const auto* direction : {&v_, &w_}) {
    problem_.model->push(at, h, {u_.data(), direction->data()}, {}, out.data(), tape.get());
    EXPECT_EQ(out, tangent(u_, *direction));
  }
}

TEST_P(MapOfLayer, adjoint_is_the_transpose) {
  Whole bar(size_, 7.0);
  problem_.model->pull(at, h, u_.data(), w_.data(), bar.data(), {}, nullptr, Order::first);
  const auto jv = tangent(u_, v_);
  const double error = std::abs(dot(jv, w_) - dot(v_, bar)) / (norm(jv) * norm(w_));
  EXPECT_LT(reached("layer map: <Jv, w> - <v, J'w>", error), 1e-12);
}

TEST_P(MapOfLayer, parameter_gradient_is_the_slope_for_every_array) {
  auto& values = problem_.parameters.values;
  Whole bar(size_, 0.0), gradient(values.size(), 0.5);  // added to
  problem_.model->pull(at, h, u_.data(), w_.data(), bar.data(), gradient, nullptr, Order::first);
  for (double& g : gradient) g -= 0.5;
  const auto direction = random_vector(values.size(), 9);
  const Whole start = values;
  double seen = 0;
  for (const auto& view : problem_.parameters.layout.views()) {
    const double step = 1e-5;  // truncation 1e-10, round-off 1e-11
    double along = 0, size = 0;
    const auto value = [&](double t) {
      values = start;
      for (Index j = view.offset; j < view.offset + view.size(); ++j) values[j] += t * direction[j];
      problem_.model->refresh();
      return dot(increment(u_), w_);
    };
    const double slope = (value(step) - value(-step)) / (2 * step);
    for (Index j = view.offset; j < view.offset + view.size(); ++j) {
      along += gradient[j] * direction[j];
      size += std::abs(gradient[j] * direction[j]);
    }
    const double error = std::abs(along - slope) / std::max(size, 1e-2);
    EXPECT_LE(reached("layer map: parameter gradient against differences", error), 1e-7) << view.path();
    seen += size > 0 ? 1 : 0;
  }
  EXPECT_GT(seen, 12);  // the arrays of a layer, alpha and rho
}

TEST_P(MapOfLayer, single_precision_follows_double_to_its_round_off) {
  auto single = spec_;
  single.precision = Precision::float32;
  Problem rough(MPI_COMM_WORLD, single);
  constexpr double round_off = 5e-5;  // 1e-7 over some ten operations, amplified by LayerNorm's division
  Whole value(size_), jv(size_), bar(size_, 0.0), gradient(rough.parameters.values.size(), 0.0);
  rough.model->increment(at, h, u_.data(), value.data());
  rough.model->push(at, h, {u_.data(), v_.data()}, {}, jv.data(), nullptr);
  rough.model->pull(at, h, u_.data(), w_.data(), bar.data(), gradient, nullptr, Order::first);
  Whole exact_bar(size_, 0.0), exact_gradient(gradient.size(), 0.0);
  problem_.model->pull(at, h, u_.data(), w_.data(), exact_bar.data(), exact_gradient, nullptr, Order::first);
  EXPECT_LT(relative_difference(value, increment(u_)), round_off);
  EXPECT_LT(relative_difference(jv, tangent(u_, v_)), round_off);
  EXPECT_LT(relative_difference(bar, exact_bar), round_off);
  EXPECT_LT(relative_difference(gradient, exact_gradient), round_off);
  EXPECT_GT(relative_difference(value, increment(u_)), 1e-12);  // single precision is really used
}

INSTANTIATE_TEST_SUITE_P(EverySetting, MapOfLayer, testing::ValuesIn(every_setting()),
                         [](const auto& setting) { return name_of(setting.param); });

}  // namespace
}  // namespace fluxformer
