// Distillation: zero loss for a model that is its own teacher, values against plain sums, gradients by
// differences through both marches.

#include "model/distillation.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "model/depth_model.hpp"
#include "model/embedding.hpp"
#include "solvers/adjoint/adjoint_march.hpp"
#include "tests/support/small_problem.hpp"
#include "tests/support/small_training.hpp"

namespace fluxformer {
namespace {

using namespace test;

constexpr int tokens_x = 3, tokens_y = 2, tokens = tokens_x * tokens_y, layers = 2;

ModelSpec classifier(Norm norm = Norm::pre) {
  auto model = small_model(layers);
  model.features = 4;
  model.tokens = tokens;
  model.classes = 3;
  model.norm = norm;
  model.attention.layer_norm = norm == Norm::pre;
  return model;
}

ModelSpec pde() {
  auto model = classifier();
  model.variation = DepthVariation::linear;
  model.knots = 2;
  return model;
}

Batch batch() {
  return {.input = random_vector(3 * tokens * 4, 5),
          .length = {4, 6, 3},
          .label = {2, 0, 1},
          .weight = {0.3, 0.7, 0},
          .key = {0, 1, 2}};
}

class Student {
 public:
  Student(const ModelSpec& spec, int cells, Distillation::Weights weights, bool by_adjoint, double kappa = 0)
      : line(TokenLine::even(MPI_COMM_SELF, tokens_x, tokens_y)),
        parameters(random_parameters({.model = spec, .kappa = kappa})),
        context{&line, 3, spec.width, {}, nullptr},
        model(make_depth_model(parameters, context, Precision::float64)),
        teacher(random_parameters({.model = classifier()}), context, Precision::float64) {
    const DepthCells depth{layers, cells};
    if (by_adjoint)
      march = std::make_unique<AdjointMarch>(*model, depth, 1, AdjointSettings{});
    else
      march = std::make_unique<Backpropagation>(*model, depth, 1);
    distillation = std::make_unique<Distillation>(teacher, parameters, context, depth, weights);
    evaluator = std::make_unique<GradientEvaluator>(parameters, context, *march, Loss{});
    evaluator->add_depth_loss(*distillation);
  }
  double loss_at(const std::vector<double>& values) {
    const auto kept = std::exchange(parameters.values, values);
    model->refresh();
    const double value = evaluator->evaluate(batch()).total();
    parameters.values = kept;
    model->refresh();
    return value;
  }

  TokenLine line;
  Parameters parameters;
  SlabContext context;
  std::unique_ptr<DepthModel> model;
  Teacher teacher;
  std::unique_ptr<DepthMarch> march;
  std::unique_ptr<Distillation> distillation;
  std::unique_ptr<GradientEvaluator> evaluator;
};

TEST(Distillation, from_a_copy_of_oneself_is_nothing) {
  Student same(classifier(), layers, {1, 1}, false);
  const auto result = same.evaluator->evaluate(batch());
  // Both models compute the same sums: only the round-off of log(p / q) and of softmax in two kernels is
  // left.
  EXPECT_NEAR(result.depth_loss, 0, 1e-14);
  Student other(pde(), 2 * layers, {1, 1}, false);
  EXPECT_GT(other.evaluator->evaluate(batch()).depth_loss, 1e-3);
}

TEST(Distillation, is_the_plain_sum_over_real_tokens) {
  Student student(pde(), 2 * layers, {2, 0}, false), with_attention(pde(), 2 * layers, {0, 3}, false);
  const auto b = batch();
  const double hidden = student.evaluator->evaluate(b).depth_loss;
  const double attention = with_attention.evaluator->evaluate(b).depth_loss;

  auto& s = student;
  const auto d = static_cast<std::size_t>(s.context.width);
  const int heads = s.parameters.spec.attention.heads;
  s.teacher.observe(b, true, s.teacher.spec().layers);
  std::vector<double> u(s.context.size()), k(static_cast<std::size_t>(3 * heads * tokens * tokens));
  double squares = 0, divergence = 0;
  std::vector<double> sizes(3), errors(3);
  const auto row_of_layer = [&](int layer, const double* state) {
    std::fill(sizes.begin(), sizes.end(), 0.0);
    std::fill(errors.begin(), errors.end(), 0.0);
    for (std::size_t j = 0; j < u.size(); ++j) {
      const std::size_t sample = j / d % 3, token = j / d / 3;
      if (static_cast<int>(token) >= b.length[sample]) continue;
      const double target = s.teacher.state(layer)[j];
      errors[sample] += (state[j] - target) * (state[j] - target);
      sizes[sample] += target * target;
    }
    for (std::size_t sample = 0; layer > 0 && sample < 3; ++sample)
      squares += b.weight[sample] * errors[sample] / sizes[sample];
    if (layer == layers) return;
    s.model->attention({layer + 1, static_cast<double>(layer)}, 0.5, state, nullptr, k.data());
    for (std::size_t j = 0; j < k.size(); ++j) {
      const std::size_t sample = j / static_cast<std::size_t>(heads * tokens * tokens);
      const int query = static_cast<int>(j / tokens) % tokens, key = static_cast<int>(j) % tokens;
      if (query >= b.length[sample] || key >= b.length[sample]) continue;
      const double p = s.teacher.attention(layer + 1)[j];
      divergence += b.weight[sample] * p * std::log(p / k[j]) / (heads * b.length[sample]);
    }
  };
  embed(s.parameters, s.context, b.input.data(), u.data());
  row_of_layer(0, u.data());
  s.march->forward(u.data(), Keep::nothing, [&](int row, const double* state) {
    if (row % 2 == 0) row_of_layer(row / 2, state);
  });
  EXPECT_NEAR(hidden, 2 * squares / layers, 1e-13 * hidden);
  EXPECT_NEAR(attention, 3 * divergence / layers, 1e-12 * attention);
}

TEST(Distillation, has_the_gradient_of_its_loss_through_both_marches) {
  struct Case {
    ModelSpec spec;
    int cells;
    double kappa;
  };
  for (const auto& c : {Case{classifier(Norm::none), layers, 0.0}, Case{pde(), 2 * layers, 0.1}})
    for (const bool by_adjoint : {false, true}) {
      Student student(c.spec, c.cells, {0.7, 1.3}, by_adjoint, c.kappa);
      const auto& p = student.parameters;
      std::vector<double> gradient(p.values.size());
      student.evaluator->gradient(batch(), gradient);
      for (const auto& view : p.layout.views()) {
        if (view.name == "kappa" && c.kappa == 0) continue;  // negative on one side
        std::vector<double> direction(p.values.size(), 0.0);
        const auto random = random_vector(view.size(), static_cast<unsigned>(view.offset) + 3);
        for (Index j = 0; j < view.size(); ++j) direction[view.offset + j] = random[j];
        // Central differences: truncation step^2 times third derivatives of order 1 to 10, round-off 1e-16 /
        // step.
        constexpr double step = 1e-5;
        const double slope = (student.loss_at(plus(p.values, step, direction)) -
                              student.loss_at(plus(p.values, -step, direction))) /
                             (2 * step);
        EXPECT_NEAR(dot(gradient, direction), slope, 1e-7 * std::max(1e-2, std::abs(slope)))
            << view.path() << (by_adjoint ? " by adjoint" : " by backprop");
      }
    }
}

TEST(Distillation, of_attention_is_finite_where_the_student_gives_less_than_the_smallest_double) {
  Student student(classifier(), layers, {0, 1}, false);
  for (double& weight : student.parameters.view("layers/1/W_Q")) weight *= 1e5;  // exp(-745) is 0
  student.model->refresh();
  const double loss = student.evaluator->evaluate(batch()).depth_loss;
  EXPECT_TRUE(std::isfinite(loss));
  EXPECT_GT(loss, 745);
}

TEST(Distillation, refuses_a_teacher_that_does_not_fit) {
  const auto complaint = [](const auto& make) -> std::string {
    try {
      make();
    } catch (const BadInput& e) {
      return e.what();
    }
    return {};
  };
  auto deep = pde();
  deep.layers = 3;
  EXPECT_THAT(complaint([&] { Student(deep, 3, {1, 0}, false); }), testing::HasSubstr("mesh.layers"));
  EXPECT_THAT(complaint([&] { Student(pde(), 3, {1, 0}, false); }), testing::HasSubstr("mesh.cells"));
  auto macaron = pde();
  macaron.order = SubLayerOrder::macaron;
  EXPECT_THAT(complaint([&] { Student(macaron, 4, {0, 1}, false); }), testing::HasSubstr("macaron"));
  const auto line = TokenLine::even(MPI_COMM_SELF, tokens_x, tokens_y);
  const SlabContext context{&line, 3, classifier().width, {}, nullptr};
  const auto teacher_on = [&](int cells) {
    return complaint([&] {
      Teacher(on_cells(random_parameters({.model = classifier()}), cells), context, Precision::float64);
    });
  };
  EXPECT_EQ(teacher_on(classifier().layers), "");
  EXPECT_THAT(teacher_on(2 * classifier().layers), testing::HasSubstr("one step a layer"));
}

}  // namespace
}  // namespace fluxformer
