// AdjointMarch: the gradient of every method against differences and against back-propagation.

#include <gtest/gtest.h>

#include <map>

#include "model/depth_march.hpp"
#include "tests/support/adjoint_case.hpp"

namespace fluxformer {
namespace {

using namespace test;

/// Every array of the layout within `tolerance` of its largest number. Arrays whose gradient is zero (softmax
/// is invariant to a bias on all keys) are compared with the round-off of the others.
void expect_same_arrays(const ParameterLayout& layout, const Whole& x, const Whole& y, double tolerance) {
  double whole = 0;
  for (const double value : y) whole = std::max(whole, std::abs(value));
  for (const auto& view : layout.views()) {
    double difference = 0, size = 0;
    for (Index j = view.offset; j < view.offset + view.size(); ++j) {
      difference = std::max(difference, std::abs(x[j] - y[j]));
      size = std::max(size, std::abs(y[j]));
    }
    EXPECT_LE(difference, tolerance * size + 1e-3 * tolerance * whole) << view.path();
  }
}

void expect_back_propagation(const ProblemSpec& spec, double tolerance = 1e-12) {
  AdjointCase c(MPI_COMM_WORLD, spec);
  Backpropagation direct(*c.problem.model, c.problem.depth, spec.speed);
  const auto expected = c.gradient(direct);
  expect_same_arrays(c.problem.parameters.layout, c.gradient(adjoint_by("1fe")), expected, tolerance);
  expect_same_arrays(c.problem.parameters.layout, c.gradient(adjoint_by("1fe", 2)), expected, tolerance);
}

TEST(AdjointMarch, by_1fe_is_back_propagation) {
  expect_back_propagation(adjoint_transformer(3));
  auto post = adjoint_transformer(3);
  post.model.norm = Norm::post;
  post.model.attention.layer_norm = false;
  expect_back_propagation(post);
  auto bare = adjoint_transformer(2);
  bare.model.residual = false;
  bare.model.order = SubLayerOrder::macaron;
  expect_back_propagation(bare);
  expect_back_propagation(adjoint_pde());
  expect_back_propagation(adjoint_pde_on_unequal_cells());
  // In single precision the states differ by double round-off, which the kernels round away or double.
  auto single = adjoint_transformer(3);
  single.precision = Precision::float32;
  expect_back_propagation(single, 1e-5);
}

TEST(AdjointMarch, by_1fe_is_back_propagation_where_states_are_changed_on_the_way) {
  const auto spec = adjoint_pde();
  AdjointCase c(MPI_COMM_WORLD, spec);
  Backpropagation direct(*c.problem.model, c.problem.depth, spec.speed);
  const auto unchanged = c.gradient(direct);
  c.change_states();
  direct.set_edit(c.edit);
  const auto expected = c.gradient(direct);
  EXPECT_GT(relative_difference(unchanged, expected), 0.1);
  for (const int every : {0, 1, 3})
    expect_same_arrays(c.problem.parameters.layout, c.gradient(adjoint_by("1fe", every)), expected, 1e-12);
}

// Differences of order 4: truncation ~ step^4, round-off 1e-15/step of the loss.
constexpr double finite_step = 2e-4;

class AdjointOfMethod : public testing::TestWithParam<std::string> {};

/// A direction for each named array, all knots and groups at once, of unit length.
std::map<std::string, Whole> directions(const ParameterLayout& layout) {
  const auto random = random_vector(layout.size(), 31);
  std::map<std::string, Whole> all;
  for (const auto& view : layout.views()) {
    const auto name = view.group.starts_with("layers") ? view.name : view.path();
    auto& direction = all.try_emplace(name, Whole(layout.size(), 0.0)).first->second;
    for (Index j = view.offset; j < view.offset + view.size(); ++j) direction[j] = random[j];
  }
  for (auto& [name, direction] : all) {
    const double length = norm(direction);
    for (auto& value : direction) value /= length;
  }
  return all;
}

void expect_gradient_of_differences(AdjointCase& c, const AdjointSettings& settings) {
  const auto march = c.march(settings);
  const auto evaluator = c.evaluator(*march);
  const auto gradient = c.gradient(*march);
  for (const auto& [name, direction] : directions(c.problem.parameters.layout)) {
    const double by_adjoint = dot(gradient, direction);
    const double by_differences =
        slope([&](double step) { return c.loss(*evaluator, step, direction); }, finite_step);
    EXPECT_NEAR(by_adjoint, by_differences, 1e-7 * std::abs(by_differences) + 1e-10)
        << settings.method << ' ' << name;
  }
  // Taylor: the remainder after the linear term decreases with the square of the step.
  auto direction = random_vector(gradient.size(), 32);
  const double length = norm(direction);
  for (auto& value : direction) value /= length;
  const double here = c.loss(*evaluator, 0, direction), rate = dot(gradient, direction);
  const auto left = [&](double step) {
    return std::abs(c.loss(*evaluator, step, direction) - here - step * rate);
  };
  EXPECT_NEAR(std::log2(left(4e-3) / left(2e-3)), 2, 0.05) << settings.method;
}

TEST_P(AdjointOfMethod, is_the_gradient_for_every_array_of_parameters) {
  AdjointCase c(MPI_COMM_WORLD, adjoint_pde());
  expect_gradient_of_differences(c, adjoint_by(GetParam()));
}

TEST_P(AdjointOfMethod, is_the_gradient_on_cells_of_unequal_length) {
  AdjointCase c(MPI_COMM_WORLD, adjoint_pde_on_unequal_cells());
  expect_gradient_of_differences(c, adjoint_by(GetParam()));
}

TEST_P(AdjointOfMethod, is_the_gradient_where_every_layer_has_weights_of_its_own) {
  auto spec = adjoint_transformer(2);
  spec.mesh.cells = 4;
  spec.kappa = 0.1;
  spec.weight_scale = 0.5;
  AdjointCase c(MPI_COMM_WORLD, spec);
  const auto march = c.march(adjoint_by(GetParam()));
  const auto evaluator = c.evaluator(*march);
  const auto gradient = c.gradient(*march);
  const auto direction = random_vector(gradient.size(), 33, 0.1);
  const double by_differences =
      slope([&](double step) { return c.loss(*evaluator, step, direction); }, finite_step);
  EXPECT_NEAR(dot(gradient, direction) / by_differences, 1, 1e-7);
}

TEST_P(AdjointOfMethod, is_the_gradient_where_states_are_changed_on_the_way) {
  AdjointCase c(MPI_COMM_WORLD, adjoint_pde());
  c.change_states();
  for (const int every : {0, 2, 3}) {  // with 2 a segment begins at a row that is replaced
    const auto march = c.march(adjoint_by(GetParam(), every, every == 2));
    const auto evaluator = c.evaluator(*march);
    const auto gradient = c.gradient(*march);
    const auto direction = random_vector(gradient.size(), 34, 0.1);
    const double by_differences =
        slope([&](double step) { return c.loss(*evaluator, step, direction); }, finite_step);
    EXPECT_NEAR(dot(gradient, direction) / by_differences, 1, 1e-7) << every;
  }
}

TEST_P(AdjointOfMethod, sees_losses_at_every_depth) {
  AdjointCase c(MPI_COMM_WORLD, adjoint_pde());
  c.depth_loss = std::make_unique<SquaredNorm>(c.problem.context.size(), std::vector<int>{0, 1, 3, 4}, 0.02);
  for (const int every : {0, 3}) {
    const auto march = c.march(adjoint_by(GetParam(), every));
    const auto evaluator = c.evaluator(*march);
    Whole gradient(c.problem.parameters.values.size());
    const auto result = evaluator->gradient(c.batch, gradient);
    EXPECT_NEAR(result.depth_loss, evaluator->evaluate(c.batch).depth_loss, 1e-13 * result.depth_loss);
    const auto direction = random_vector(gradient.size(), 34, 0.1);
    const double by_differences =
        slope([&](double step) { return c.loss(*evaluator, step, direction); }, finite_step);
    EXPECT_NEAR(dot(gradient, direction) / by_differences, 1, 1e-7) << "every " << every;
  }
}

INSTANTIATE_TEST_SUITE_P(Methods, AdjointOfMethod,
                         testing::Values("1fe", "2a", "2b", "3", "3bs", "4", "5f", "5dp", "5bs", "6vr", "7vr",
                                         "8vr", "beuler", "cn", "theta"),
                         [](const auto& method) { return "by_" + method.param; });

TEST(AdjointMarch, by_theta_is_the_gradient_for_any_theta) {
  AdjointCase c(MPI_COMM_WORLD, adjoint_pde());
  for (const double theta : {0.3, 0.7, 1.0}) {
    auto settings = adjoint_by("theta");
    settings.theta = theta;
    const auto march = c.march(settings);
    const auto evaluator = c.evaluator(*march);
    const auto gradient = c.gradient(*march);
    const auto direction = random_vector(gradient.size(), 33, 0.1);
    const double by_differences =
        slope([&](double step) { return c.loss(*evaluator, step, direction); }, finite_step);
    EXPECT_NEAR(dot(gradient, direction) / by_differences, 1, 1e-7) << theta;
  }
}

}  // namespace
}  // namespace fluxformer
