// run.precision = mixed: the map of a layer, its tangent and adjoint with factors of the linear maps rounded
// to bfloat16.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "operators/kernels/product.hpp"
#include "tests/support/small_problem.hpp"
#include "tests/support/test_vectors.hpp"
#include "tests/unit/model/layer_settings.hpp"

namespace fluxformer {
namespace {

using namespace test;

/// The largest relative error of rounding to eight significant bits.
constexpr double rounding = 0x1p-8;

/// Value and derivatives of a layer in one arithmetic.
struct LayerDerivatives {
  LayerDerivatives(const Setting& setting, Precision precision) {
    auto spec = problem_of(setting);
    spec.precision = precision;
    Problem problem(MPI_COMM_WORLD, spec);
    const std::size_t size = problem.context.size();
    const Whole u = random_vector(size, 6), v = random_vector(size, 7), w = random_vector(size, 8);
    const auto increment = [&](Whole& to) { problem.model->increment(at, h, u.data(), to.data()); };
    value.resize(size);
    increment(value);
    tangent.resize(size);
    problem.model->push(at, h, {u.data(), v.data()}, {}, tangent.data(), nullptr);
    adjoint.resize(size);
    gradient.resize(problem.parameters.values.size());
    problem.model->pull(at, h, u.data(), w.data(), adjoint.data(), gradient, nullptr, Order::first);
    forward = std::inner_product(w.begin(), w.end(), tangent.begin(), 0.0);
    backward = std::inner_product(v.begin(), v.end(), adjoint.begin(), 0.0);
    size_of_pairing = norm(w) * norm(tangent);
  }
  Whole value, tangent, adjoint, gradient;
  double forward = 0, backward = 0, size_of_pairing = 0;  // <w, J v>, <J^T w, v>
};

class MixedPrecision : public testing::TestWithParam<Setting> {};

TEST_P(MixedPrecision, differs_from_double_by_the_rounding_of_factors) {
  const LayerDerivatives exact(GetParam(), Precision::float64), mixed(GetParam(), Precision::mixed_emulated);
  // To first order the errors of successive products add up: a layer has up to six in a row (macaron: two of
  // either half of the reaction, values, output), a derivative those and their counterparts, of two rounded
  // factors each. Their errors are independent; half of the sum of the largest is not reached.
  EXPECT_LT(relative_difference(mixed.value, exact.value), 6 * rounding);
  EXPECT_GT(relative_difference(mixed.value, exact.value), rounding / 128) << "nothing was rounded";
  EXPECT_LT(relative_difference(mixed.tangent, exact.tangent), 12 * rounding);
  EXPECT_LT(relative_difference(mixed.adjoint, exact.adjoint), 12 * rounding);
  EXPECT_LT(relative_difference(mixed.gradient, exact.gradient), 12 * rounding);
  // Tangent and adjoint round different numbers.
  EXPECT_LT(std::abs(mixed.forward - mixed.backward), 12 * rounding * mixed.size_of_pairing);
}

TEST_P(MixedPrecision, is_the_same_by_the_processor_and_emulated) {
  if (!has_bfloat16_products()) GTEST_SKIP() << "no avx512_bf16";
  const LayerDerivatives own(GetParam(), Precision::mixed), emulated(GetParam(), Precision::mixed_emulated);
  // Sums in another order differ by round-off of float; where that carries a number over the middle between
  // two bfloat16 numbers, it becomes the other one, but few do.
  EXPECT_LT(relative_difference(own.value, emulated.value), rounding / 4);
  EXPECT_LT(relative_difference(own.adjoint, emulated.adjoint), rounding / 4);
  EXPECT_LT(relative_difference(own.gradient, emulated.gradient), rounding / 4);
}

INSTANTIATE_TEST_SUITE_P(EverySetting, MixedPrecision, testing::ValuesIn(every_setting()),
                         [](const auto& setting) { return name_of(setting.param); });

TEST(MixedPrecisionOfTerms, rounds_in_attention_and_in_the_reaction) {
  for (const auto part : {FieldTermKind::attention, FieldTermKind::reaction}) {
    const auto field = [&](Precision precision) {
      auto spec = problem_of({Norm::pre, SubLayerOrder::sequential, true, SubLayerIntegrator::euler, false});
      spec.precision = precision;
      Problem problem(MPI_COMM_WORLD, spec);
      const Whole u = random_vector(problem.context.size(), 6);
      Whole f(u.size(), 0.0);
      problem.model->field({&part, 1}, at, 1, u.data(), f.data(), nullptr);
      return f;
    };
    const double difference =
        relative_difference(field(Precision::mixed_emulated), field(Precision::float32));
    EXPECT_GT(difference, rounding / 64);
    EXPECT_LT(difference,
              3 * rounding);  // two products in a row, of two rounded factors each, and the logits
  }
}

}  // namespace
}  // namespace fluxformer
