// Products with the Hessian of a whole classifier and with its Gauss-Newton part, for every kind of model:
// against differences of gradients and of logits, which know nothing of second derivatives.

#include "model/loss_hessian.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "tests/support/richardson.hpp"
#include "tests/support/small_classifier.hpp"

namespace fluxformer {
namespace {

using namespace test;

std::vector<SmallClassifier> every_hessian_case() {
  auto cases = small_classifiers();
  SmallClassifier sphere = cases.front();
  sphere.name = "sphere";
  sphere.model.norm = Norm::sphere;
  sphere.model.attention.layer_norm = false;
  SmallClassifier parallel = cases[3];
  parallel.name = "parallel";
  parallel.model.order = SubLayerOrder::parallel;
  SmallClassifier without_residual = cases.front();
  without_residual.name = "without residual";
  without_residual.model.residual = false;
  SmallClassifier half_norms = cases[1];
  half_norms.name = "half norms";
  half_norms.model.order = SubLayerOrder::macaron;
  half_norms.model.activation = Activation::gelu_tanh;
  SmallClassifier causal = cases.front();
  causal.name = "causal";
  causal.model.causal = true;
  causal.model.norm = Norm::none;
  causal.model.attention.layer_norm = false;
  causal.model.activation = Activation::relu;
  cases.insert(cases.end(), {sphere, parallel, without_residual, half_norms, causal});
  return cases;
}

class HessianOf : public testing::TestWithParam<SmallClassifier> {
 protected:
  HessianOf()
      : data(random_samples(3, SmallClassifier::tokens_x, SmallClassifier::tokens_y, 4,
                            SmallClassifier::classes, 1)),
        run(MPI_COMM_SELF, 1,
            {.cells = GetParam().cells, .edges = GetParam().edges, .global = 3, .loss = GetParam().loss},
            data, GetParam().parameters()),
        hessian(run.parameters, run.context, run.march.depth(), 1, GetParam().loss),
        batch(small_batch(GetParam().model)),
        start(run.parameters.values) {}

  void linearise() {
    std::vector<double> gradient(start.size(), 0.0);
    hessian.linearise(batch, gradient);
  }
  std::vector<double> product(Curvature part, const std::vector<double>& direction) {
    std::vector<double> result(start.size());
    hessian.multiply(part, direction, result);
    return result;
  }
  /// f at start + step * direction.
  template <class F>
  auto at(double step, const std::vector<double>& direction, F&& f) {
    run.parameters.values = plus(start, step, direction);
    run.model->refresh();
    auto value = f();
    run.parameters.values = start;
    run.model->refresh();
    return value;
  }
  /// d f / d direction. The step is one over which the seventh derivative does not matter, and so small for
  /// ReLU that no kink is crossed.
  template <class F>
  std::vector<double> along(const std::vector<double>& direction, F&& f) {
    const double h = GetParam().model.activation == Activation::relu ? 1e-4 : 0.0025;
    return derivative([&](double step) { return at(step, direction, f); }, h);
  }
  /// A random direction in one array, or in all of them; of kappa only if the model has token diffusion.
  std::vector<double> direction(unsigned seed, const ParameterView* only = nullptr) const {
    std::vector<double> v(start.size(), 0.0);
    const auto random = random_vector(v.size(), seed, 0.1);
    for (const auto& view : run.parameters.layout.views()) {
      if (only != nullptr && only->path() != view.path()) continue;
      if (view.name == "kappa" && GetParam().kappa == 0) continue;
      for (Index j = view.offset; j < view.offset + view.size(); ++j) v[j] = random[j];
    }
    return v;
  }

  ListedSamples data;
  TrainingRun run;
  LossHessian hessian;
  Batch batch;
  std::vector<double> start;
};

TEST_P(HessianOf, linearises_with_the_loss_and_the_gradient_of_the_training) {
  std::vector<double> gradient(start.size(), 0.0);
  const auto result = hessian.linearise(batch, gradient);
  const auto expected = run.gradient(batch);
  EXPECT_NEAR(result.total(), run.evaluator.evaluate(batch).total(), 1e-13);
  // Sums in another order.
  EXPECT_LT(relative_difference(gradient, expected), 1e-13);
}

TEST_P(HessianOf, times_a_direction_is_the_derivative_of_the_gradient) {
  linearise();
  for (const unsigned seed : {1u, 2u}) {
    const auto v = direction(seed);
    const auto expected = along(v, [&] { return run.gradient(batch); });
    EXPECT_LT(relative_difference(product(Curvature::hessian, v), expected), 1e-8);
  }
}

TEST_P(HessianOf, is_approached_by_central_differences_of_the_gradient_with_order_two) {
  linearise();
  const auto v = direction(6), exact = product(Curvature::hessian, v);
  const auto error = [&](double h) {
    const auto up = at(h, v, [&] { return run.gradient(batch); }),
               down = at(-h, v, [&] { return run.gradient(batch); });
    return norm(plus(plus(exact, -0.5 / h, up), 0.5 / h, down));
  };
  // Small enough for the fourth order to change the slope by less than 0.01, and 1e4 times above round-off;
  // for ReLU so small that no kink is crossed.
  const double h = GetParam().model.activation == Activation::relu ? 1e-3 : 5e-3;
  EXPECT_NEAR(std::log2(error(h) / error(h / 2)), 2.0, 0.02);
}

TEST_P(HessianOf, is_right_array_by_array) {
  linearise();
  for (const auto& view : run.parameters.layout.views()) {
    if (view.name == "kappa" && GetParam().kappa == 0) continue;
    const auto v = direction(static_cast<unsigned>(view.offset) + 5, &view);
    const auto expected = along(v, [&] { return run.gradient(batch); });
    const auto found = product(Curvature::hessian, v);
    for (const auto& other : run.parameters.layout.views()) {
      if (other.name == "kappa" && GetParam().kappa == 0) continue;
      double difference = 0;
      for (Index j = other.offset; j < other.offset + other.size(); ++j)
        difference = std::max(difference, std::abs(found[j] - expected[j]));
      EXPECT_LT(difference, 1e-9) << view.path() << ", " << other.path();
    }
  }
}

TEST_P(HessianOf, is_symmetric) {
  linearise();
  for (const auto part : {Curvature::hessian, Curvature::gauss_newton}) {
    const auto v = direction(3), w = direction(4);
    const auto hv = product(part, v), hw = product(part, w);
    EXPECT_NEAR(dot(w, hv), dot(v, hw), 1e-13 * norm(v) * norm(hw));
  }
}

TEST_P(HessianOf, has_the_gauss_newton_part_that_tangents_of_the_logits_give) {
  linearise();
  const auto v = direction(5), w = direction(6);
  const auto logits = [&] {
    run.evaluator.evaluate(batch);
    return run.evaluator.logits();
  };
  const auto z = logits(), z_v = along(v, logits), z_w = along(w, logits);
  double expected = 0, square = 0;
  for (std::size_t b = 0; b < batch.weight.size(); ++b) {
    const auto first = b * SmallClassifier::classes;
    std::vector<double> bar(SmallClassifier::classes);
    loss_curvature(GetParam().loss, z.data() + first, SmallClassifier::classes, batch.weight[b],
                   z_v.data() + first, bar.data());
    for (std::size_t c = 0; c < SmallClassifier::classes; ++c) {
      expected += z_w[first + c] * bar[c];
      square += z_v[first + c] * bar[c];
    }
  }
  const auto found = product(Curvature::gauss_newton, v);
  EXPECT_NEAR(dot(w, found), expected, 1e-8 * norm(w) * norm(found));
  EXPECT_NEAR(dot(v, found), square, 1e-8 * square);
  EXPECT_GT(dot(v, found), 0);
}

TEST_P(HessianOf, of_several_batches_is_their_sum_and_starts_afresh) {
  auto other = batch;
  other.label = {1, 1, 0};
  other.length = {6, 2, 6};
  const auto v = direction(7);
  std::vector<double> gradient(start.size(), 0.0), expected(start.size(), 0.0);
  for (const auto* one : {&batch, &other}) {
    hessian.restart();
    hessian.linearise(*one, gradient);
    const auto part = product(Curvature::hessian, v);
    for (std::size_t j = 0; j < part.size(); ++j) expected[j] += part[j];
  }
  hessian.restart();
  hessian.linearise(batch, gradient);
  hessian.linearise(other, gradient);
  const auto once = product(Curvature::hessian, v);
  EXPECT_LT(relative_difference(once, expected), 1e-13);
  EXPECT_EQ(product(Curvature::hessian, v), once) << "a product leaves something behind";
}

INSTANTIATE_TEST_SUITE_P(EveryModel, HessianOf, testing::ValuesIn(every_hessian_case()));

TEST(LossHessian, starts_afresh_where_token_diffusion_set_in_or_ended) {
  const auto data =
      random_samples(3, SmallClassifier::tokens_x, SmallClassifier::tokens_y, 4, SmallClassifier::classes, 1);
  for (const auto& with : small_classifiers()) {
    if (with.name != "pde" && with.name != "macaron") continue;
    auto without = with;
    without.kappa = 0;
    const auto batch = small_batch(with.model);
    const auto run = [&](const SmallClassifier& c) {
      return std::make_unique<TrainingRun>(
          MPI_COMM_SELF, 1, TrainingSpec{.cells = c.cells, .edges = c.edges, .global = 3, .loss = c.loss},
          data, c.parameters());
    };
    const auto hessian_of = [&](TrainingRun& of) {
      return std::make_unique<LossHessian>(of.parameters, of.context, of.march.depth(), 1, with.loss);
    };
    const auto direction = random_vector(run(with)->parameters.values.size(), 5, 0.1);
    // The gradient, and the products of both kinds with the direction.
    const auto results = [&](LossHessian& hessian) {
      std::vector<std::vector<double>> found(3, std::vector<double>(direction.size(), 0.0));
      hessian.linearise(batch, found[0]);
      hessian.multiply(Curvature::hessian, direction, found[1]);
      hessian.multiply(Curvature::gauss_newton, direction, found[2]);
      return found;
    };
    const auto trained = run(without);
    const auto hessian = hessian_of(*trained);
    for (const auto& now : {without, with, without}) {
      const auto fresh_run = run(now);
      const auto fresh = hessian_of(*fresh_run);
      trained->parameters.values = fresh_run->parameters.values;
      hessian->restart();
      EXPECT_EQ(results(*hessian), results(*fresh)) << now.name << ", kappa " << now.kappa;
      EXPECT_EQ(hessian->kept_bytes(), fresh->kept_bytes()) << now.name << ", kappa " << now.kappa;
    }
  }
}

}  // namespace
}  // namespace fluxformer
