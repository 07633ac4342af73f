// Loss and gradient of a batch: every parameter array by a Taylor test, the order in which pieces are
// reported, padding and fillers without influence.

#include "model/gradient_evaluator.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "tests/support/small_classifier.hpp"

namespace fluxformer {
namespace {

using namespace test;

struct GradientEvaluatorCase : SmallClassifier {
  double dropout = 0;
};

constexpr int gradient_evaluator_tokens_x = SmallClassifier::tokens_x,
              gradient_evaluator_tokens_y = SmallClassifier::tokens_y, classes = SmallClassifier::classes;

std::vector<GradientEvaluatorCase> every_case() {
  std::vector<GradientEvaluatorCase> cases;
  for (const auto& classifier : small_classifiers()) cases.push_back({classifier, 0});
  GradientEvaluatorCase dropout = cases.front();
  dropout.name = "dropout";
  dropout.dropout = 0.2;
  cases.push_back(dropout);
  return cases;
}

/// c_i / 2 times the weighted sum of squares of row i over the real tokens, times alpha.
class SquaresOnTheWay final : public DepthLoss {
 public:
  SquaresOnTheWay(const Parameters& parameters, const SlabContext& context, int cells)
      : parameters_(parameters), context_(context), cells_(cells) {}
  void begin(const Batch& batch) override {
    EXPECT_EQ(batch.weight.size(), static_cast<std::size_t>(context_.samples));
  }
  bool looks_at(int row) const override { return row != 1; }
  double add(int row, const Batch& batch, const double* u, double* u_bar,
             std::span<double> gradient) override {
    const auto at = parameters_.layout.alpha();
    const double alpha = parameters_.values[at], c = 0.01 * (1 + row) / cells_;
    const auto d = static_cast<std::size_t>(context_.width);
    double sum = 0;
    for (Index j = 0; j < context_.size(); ++j) {
      const int sample = static_cast<int>(j / d) % context_.samples;
      if (!context_.mask.real(sample, static_cast<int>(j / d) / context_.samples)) continue;
      const double weight = c * batch.weight[sample];
      sum += weight / 2 * u[j] * u[j];
      if (u_bar != nullptr) u_bar[j] += alpha * weight * u[j];
    }
    if (!gradient.empty()) gradient[at] += sum;
    return alpha * sum;
  }

 private:
  const Parameters& parameters_;
  const SlabContext& context_;
  int cells_;
};

class GradientOf : public testing::TestWithParam<GradientEvaluatorCase> {
 protected:
  GradientOf()
      : data(random_samples(3, gradient_evaluator_tokens_x, gradient_evaluator_tokens_y, 4, classes, 1)),
        run(MPI_COMM_SELF, 1,
            {.cells = GetParam().cells,
             .edges = GetParam().edges,
             .global = 3,
             .loss = GetParam().loss,
             .dropout = GetParam().dropout},
            data, GetParam().parameters()),
        squares(run.parameters, run.context, GetParam().cells),
        batch(small_batch(GetParam().model)) {}

  /// The loss that is differentiated, including the dropout determined by the keys of the batch, if any.
  double loss() {
    if (GetParam().dropout == 0) return run.evaluator.evaluate(batch).total();
    std::vector<double> ignored(run.parameters.values.size());
    return run.evaluator.gradient(batch, ignored).total();
  }
  double loss_at(const std::vector<double>& values) {
    const auto kept = run.parameters.values;
    run.parameters.values = values;
    run.model->refresh();
    const double value = loss();
    run.parameters.values = kept;
    run.model->refresh();
    return value;
  }

  ListedSamples data;
  TrainingRun run;
  SquaresOnTheWay squares;
  Batch batch;
};

TEST_P(GradientOf, every_array_leaves_a_remainder_of_second_order) {
  const auto& p = run.parameters;
  for (const bool depth_losses : {false, true}) {
    if (depth_losses) run.evaluator.add_depth_loss(squares);
    const auto gradient = run.gradient(batch);
    const double start = loss();
    for (const auto& view : p.layout.views()) {
      if (view.name == "kappa" && GetParam().kappa == 0) {  // diffusion is disabled and cannot be trained
        for (Index j = 0; j < view.size(); ++j) EXPECT_EQ(gradient[view.offset + j], 0) << view.path();
        continue;
      }
      std::vector<double> direction(p.values.size(), 0.0);
      const auto random = random_vector(view.size(), static_cast<unsigned>(view.offset) + 1);
      for (Index j = 0; j < view.size(); ++j) direction[view.offset + j] = random[j];
      const double slope = dot(gradient, direction);
      const auto remainder = [&](double step) {
        return std::abs(loss_at(plus(p.values, step, direction)) - start - step * slope);
      };
      // The smaller step reveals an error in the fourth digit of the slope; round-off is far below.
      constexpr double large = 4e-4, small = 1e-4, round_off = 2e-15;
      const double first = remainder(large), second = remainder(small);
      const auto what = view.path() + (depth_losses ? " with losses on the way" : "");
      if (second < round_off) {  // affine in this array, or (b_K, a word that does not occur) constant
        EXPECT_LT(first, 16 * round_off) << what;
        continue;
      }
      const double order = std::log(first / second) / std::log(large / small);
      // A relative gradient error of 1e-4 reduces the order to 1. Where the second-order term nearly cancels
      // along the direction, the third raises the order.
      EXPECT_GT(order, 1.85 - 4 * round_off / second) << what;
    }
  }
}

TEST_P(GradientOf, is_told_of_in_pieces_that_are_complete_and_cover_it_once) {
  run.evaluator.add_depth_loss(squares);
  std::vector<double> gradient(run.parameters.values.size(), 7.0), told(gradient.size(), 0.0);
  std::vector<int> times(gradient.size(), 0);
  int pieces = 0;
  run.evaluator.gradient(batch, gradient, [&](std::size_t first, std::size_t count) {
    ASSERT_LE(first + count, gradient.size());
    ASSERT_GT(count, 0u);
    ++pieces;
    for (std::size_t j = first; j < first + count; ++j) {
      ++times[j];
      told[j] = gradient[j];
    }
  });
  EXPECT_EQ(times, std::vector<int>(gradient.size(), 1));
  EXPECT_EQ(told, gradient);
  // Head, coefficients, embedding, and the blocks one by one: they are communicated while the march
  // continues. The first two knots are completed together, by the first cells.
  const bool linear = GetParam().model.variation == DepthVariation::linear;
  EXPECT_EQ(pieces, 3 + GetParam().model.knots - (linear ? 1 : 0));
}

TEST_P(GradientOf, comes_with_the_loss_that_evaluate_gives) {
  run.evaluator.add_depth_loss(squares);
  if (GetParam().dropout > 0) {  // except for dropout, which is for training only
    const double trained = loss(), plain = run.evaluator.evaluate(batch).total();
    EXPECT_GT(std::abs(trained - plain), 1e-3 * plain);
    batch.key = {5, 6, 7};
    EXPECT_NE(loss(), trained) << "other keys drop others";
    EXPECT_EQ(run.evaluator.evaluate(batch).total(), plain);
    return;
  }
  const auto plain = run.evaluator.evaluate(batch);
  const auto logits = run.evaluator.logits();
  std::vector<double> gradient(run.parameters.values.size());
  const auto with = run.evaluator.gradient(batch, gradient);
  // The march that keeps its activations adds to the state in a different order: a few units of round-off.
  EXPECT_NEAR(with.loss, plain.loss, 1e-14 * plain.loss);
  EXPECT_NEAR(with.depth_loss, plain.depth_loss, 1e-14 * plain.depth_loss);
  EXPECT_EQ(with.correct, plain.correct);
  EXPECT_LT(relative_difference(run.evaluator.logits(), logits), 1e-13);
  EXPECT_GT(plain.depth_loss, 0);
  // Repeating it gives the same bits.
  std::vector<double> again(gradient.size(), 3.0);
  EXPECT_EQ(run.evaluator.gradient(batch, again).total(), with.total());
  EXPECT_EQ(again, gradient);
}

TEST_P(GradientOf, does_not_see_padding_nor_fillers) {
  run.evaluator.add_depth_loss(squares);
  const auto gradient = run.gradient(batch);
  const double value = loss();
  auto other = batch;
  const auto features = static_cast<std::size_t>(GetParam().model.input_size());
  constexpr std::size_t tokens = gradient_evaluator_tokens_x * gradient_evaluator_tokens_y;
  for (std::size_t j = 0; j < other.input.size(); ++j) {
    const std::size_t sample = j / features / tokens, token = j / features % tokens;
    if (sample < 2 && static_cast<int>(token) < other.length[sample]) continue;
    if (GetParam().model.vocabulary == 0)
      other.input[j] = 5 - other.input[j];
    else
      other.input[j] = j % features == 1 ? 1 - other.input[j]  // one of two segments
                                         : std::fmod(other.input[j] + 1, SmallClassifier::words);
  }
  other.label[2] = 0;
  other.length[2] = 5;
  EXPECT_NE(other.input, batch.input);
  std::swap(batch, other);
  EXPECT_EQ(loss(), value);
  EXPECT_EQ(run.gradient(batch), gradient);
}

TEST_P(GradientOf, adds_over_the_parts_of_a_batch) {
  const auto whole = run.gradient(batch);
  const double value = loss();
  std::vector<double> sum(whole.size(), 0.0);
  double parts = 0;
  const auto weight = batch.weight;
  for (std::size_t b = 0; b < weight.size(); ++b) {
    batch.weight.assign(weight.size(), 0.0);
    batch.weight[b] = weight[b];
    parts += loss();
    sum = plus(sum, 1, run.gradient(batch));
  }
  EXPECT_NEAR(parts, value, 1e-15 * value);
  EXPECT_LT(relative_difference(sum, whole), 1e-14);
}

INSTANTIATE_TEST_SUITE_P(EveryModel, GradientOf, testing::ValuesIn(every_case()),
                         [](const auto& which) { return which.param.name; });

TEST(Evaluation, counts_the_weights_of_the_samples_whose_label_is_most_likely) {
  const GradientEvaluatorCase c = every_case().front();
  const auto data =
      random_samples(3, gradient_evaluator_tokens_x, gradient_evaluator_tokens_y, 4, classes, 1);
  TrainingRun run(MPI_COMM_SELF, 1, {.cells = 2, .global = 3}, data, random_parameters({.model = c.model}));
  auto batch = small_batch(c.model);
  batch.weight = {0.25, 0.5, 0.125};
  run.evaluator.evaluate(batch);
  for (std::size_t b = 0; b < 3; ++b)
    batch.label[b] = most_likely(run.evaluator.logits().data() + b * classes, classes);
  EXPECT_EQ(run.evaluator.evaluate(batch).correct, 0.875);
  batch.label[1] = (batch.label[1] + 1) % classes;
  EXPECT_EQ(run.evaluator.evaluate(batch).correct, 0.375);
}

}  // namespace
}  // namespace fluxformer
