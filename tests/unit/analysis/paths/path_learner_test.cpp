// A trained network of attention paths beside its attentioned inputs and central differences of its loss.

#include "analysis/paths/path_learner.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.hpp"
#include "base/random.hpp"

namespace fluxformer::paths {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

/// Examples behind each other: D x (B T).
MatrixXd path_learner_examples(const LearnerShape& shape, int count) {
  const RandomStream stream(5, "tokens");
  MatrixXd x(shape.dimension, Index{shape.tokens} * count);
  for (Index k = 0; k < x.size(); ++k) x.data()[k] = stream.normal(static_cast<std::uint64_t>(k));
  return x;
}

LearnerShape shape_of(int layers, int heads) {
  return {.dimension = 7, .tokens = 5, .width = 6, .layers = layers, .heads = heads, .key = 4};
}

TEST(PathLearner, OutputsAreThoseOfAttentionedInputs) {
  constexpr int count = 3;
  for (const auto& shape : {shape_of(1, 1), shape_of(1, 3), shape_of(2, 2), shape_of(3, 2)}) {
    PathLearner<double> learner(shape, count);
    const auto q = learner.weights().initial(3);
    learner.set(q);
    const MatrixXd x = path_learner_examples(shape, count);
    const auto attention = learner.weights().attention(q);
    const auto inputs = attentioned_inputs(attention, count, [&](int k) -> MatrixXd {
      return x.middleCols(Index{k} * shape.tokens, shape.tokens);
    });
    const VectorXd f = learner.outputs(x), along_paths = outputs(inputs, learner.weights().input_weights(q));
    // Round-off of sums of some hundred terms of order 1.
    EXPECT_LT((f - along_paths).cwiseAbs().maxCoeff(), 1e-13 * (1 + f.cwiseAbs().maxCoeff())) << shape.layers;
  }
}

TEST(PathLearner, GradientIsThatOfDifferences) {
  constexpr int count = 3;
  for (const auto& shape : {shape_of(1, 2), shape_of(2, 3), shape_of(3, 2)}) {
    PathLearner<double> learner(shape, count);
    const auto q = learner.weights().initial(3);
    const MatrixXd x = path_learner_examples(shape, count);
    const VectorXd y = VectorXd::LinSpaced(count, -1, 1);
    std::vector<double> gradient(q.size());
    learner.set(q);
    learner.gradient(x, y, gradient);
    const auto loss = [&](std::size_t k, double step) {
      auto moved = q;
      moved[k] += step;
      learner.set(moved);
      return (learner.outputs(x) - y).squaredNorm();
    };
    // Fourth order: an error of some h^4 = 1e-12 beside round-off of 1e-16 / h = 1e-13, both times numbers of
    // order 10.
    constexpr double h = 1e-3;
    double largest = 0;
    for (std::size_t k = 0; k < q.size(); ++k) {
      const double slope = (8 * (loss(k, h) - loss(k, -h)) - (loss(k, 2 * h) - loss(k, -2 * h))) / (12 * h);
      largest = std::max(largest, std::abs(slope - gradient[k]));
    }
    EXPECT_LT(largest, 1e-10) << shape.layers;
    learner.set(q);
    auto twice = gradient;
    learner.gradient(x, y, twice);
    for (std::size_t k = 0; k < q.size(); ++k) ASSERT_NEAR(twice[k], 2 * gradient[k], 1e-12);
  }
}

TEST(PathLearner, FloatsAreAsGoodAsFloats) {
  const auto shape = shape_of(2, 2);
  PathLearner<double> exact(shape, 4);
  PathLearner<float> fast(shape, 4);
  const auto q = exact.weights().initial(8);
  exact.set(q);
  fast.set(q);
  const MatrixXd x = path_learner_examples(shape, 2);  // fewer than there is room for
  const VectorXd y = VectorXd::Ones(2);
  std::vector<double> gradient(q.size());
  std::vector<float> rounded(q.size());
  exact.gradient(x, y, gradient);
  fast.gradient(x.cast<float>(), y, rounded);
  double largest = 0, error = 0;
  for (std::size_t k = 0; k < q.size(); ++k) {
    largest = std::max(largest, std::abs(gradient[k]));
    error = std::max(error, std::abs(gradient[k] - static_cast<double>(rounded[k])));
  }
  EXPECT_LT(error, 1e-5 * largest);  // 6e-8 times the growth in two layers of some 50 sums
}

TEST(PathLearner, RefusesWhatDoesNotFit) {
  EXPECT_THROW(
      PathLearner<double>({.dimension = 7, .tokens = 5, .width = 0, .layers = 1, .heads = 1, .key = 1}, 1),
      BadInput);
  PathLearner<double> learner(shape_of(1, 1), 2);
  EXPECT_THROW(learner.outputs(MatrixXd::Zero(7, 15)), BadInput);  // three examples
  EXPECT_THROW(learner.outputs(MatrixXd::Zero(6, 5)), BadInput);
  EXPECT_THROW(learner.outputs(MatrixXd::Zero(7, 6)), BadInput);
}

}  // namespace
}  // namespace fluxformer::paths
