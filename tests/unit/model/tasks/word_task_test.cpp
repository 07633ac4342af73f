// Masked words: the loss by plain loops, gradients and Hessian products by differences.

#include "model/tasks/word_task.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "model/loss_hessian.hpp"
#include "model/tasks/word_targets.hpp"
#include "tests/support/reference_layer.hpp"
#include "tests/support/richardson.hpp"
#include "tests/support/small_word_models.hpp"

namespace fluxformer {
namespace {

using namespace test;

class WordsOf : public testing::TestWithParam<SmallClassifier> {
 protected:
  WordsOf()
      : data(random_words(3, SmallClassifier::tokens_x, SmallClassifier::tokens_y, SmallClassifier::words,
                          GetParam().model.segments, 1)),
        run(MPI_COMM_SELF, 1, {.cells = GetParam().cells, .global = 3, .loss = GetParam().loss}, data,
            GetParam().parameters()),
        hessian(run.parameters, run.context, run.march.depth(), 1, GetParam().loss),
        batch(masked_batch(GetParam().model)),
        start(run.parameters.values) {}

  template <class F>
  std::vector<double> along(const std::vector<double>& direction, F&& f) {
    return derivative(
        [&](double step) {
          run.parameters.values = plus(start, step, direction);
          run.model->refresh();
          auto value = f();
          run.parameters.values = start;
          run.model->refresh();
          return value;
        },
        0.001);
  }
  std::vector<double> direction(unsigned seed) const {
    auto v = random_vector(start.size(), seed, 0.1);
    for (const auto& view : run.parameters.layout.views())
      if (view.name == "kappa" && GetParam().kappa == 0)
        std::fill_n(v.begin() + view.offset, view.size(), 0.0);
    return v;
  }
  std::vector<double> product(Curvature part, const std::vector<double>& v) {
    std::vector<double> result(start.size());
    hessian.multiply(part, v, result);
    return result;
  }
  void linearise() {
    hessian.restart();
    std::vector<double> gradient(start.size(), 0.0);
    hessian.linearise(batch, gradient);
  }

  ListedSamples data;
  TrainingRun run;
  LossHessian hessian;
  Batch batch;
  std::vector<double> start;
};

std::vector<double> normalised(const Parameters& p, const std::string& prefix, const std::vector<double>& x) {
  const bool bias = p.layout.has(prefix + "bias");
  return reference::normalised(x, p.spec.width, p.spec.norm_settings(), p.view(prefix + "gain").data(),
                               bias ? p.view(prefix + "bias").data() : nullptr);
}

std::vector<double> affine(const Parameters& p, const std::string& matrix, const std::string& bias,
                           const std::vector<double>& x) {
  const auto w = p.view(matrix);
  std::vector<double> y(w.size() / x.size(), 0.0);
  if (p.layout.has(bias)) std::ranges::copy(p.view(bias), y.begin());
  for (std::size_t i = 0; i < y.size(); ++i)
    for (std::size_t j = 0; j < x.size(); ++j) y[i] += w[i * x.size() + j] * x[j];
  return y;
}

/// Logits of a row of the last state, straight from the formula.
std::vector<double> logits(const Parameters& p, std::vector<double> x) {
  const auto& head = p.spec.word_head;
  if (p.spec.norm == Norm::pre) x = normalised(p, "final_norm/", x);
  if (head.transform.present) {
    x = affine(p, "word_head/transform_W", "word_head/transform_b", x);
    for (double& value : x) value *= 0.5 * (1 + std::erf(value / std::sqrt(2.0)));
    x = normalised(p, "word_head/norm_", x);
  }
  return affine(p, head.own_matrix ? "word_head/W" : "embedding/words", "word_head/b", x);
}

TEST_P(WordsOf, is_the_weighted_cross_entropy_of_the_masked_words) {
  const auto& p = run.parameters;
  const auto width = static_cast<std::size_t>(p.spec.width);
  std::vector<double> u(run.context.size());
  run.context.mask.length = batch.length;
  embed(p, run.context, batch.input.data(), u.data());
  run.march.forward(u.data(), Keep::nothing, {});
  double loss = 0, correct = 0;
  for (const auto& masked : batch.targets) {
    const std::size_t row = static_cast<std::size_t>(masked.token * run.context.samples + masked.sample);
    const auto first = u.begin() + static_cast<std::ptrdiff_t>(row * width);
    const auto z = logits(p, {first, first + p.spec.width});
    double sum = 0, mean = 0;
    for (const double value : z) sum += std::exp(value), mean += value / static_cast<double>(z.size());
    const double s = GetParam().loss.smoothing, right = z[masked.word];
    loss += masked.weight * (std::log(sum) - (1 - s) * right - s * mean);
    if (right == *std::max_element(z.begin(), z.end())) correct += masked.weight;
  }
  const auto found = run.evaluator.evaluate(batch);
  EXPECT_NEAR(found.loss, loss, 1e-13);  // round-off
  EXPECT_NEAR(found.correct, correct, 1e-14);
  std::vector<double> gradient(start.size());
  EXPECT_NEAR(run.evaluator.gradient(batch, gradient).loss, loss, 1e-13);
}

TEST_P(WordsOf, has_the_gradient_of_its_differences) {
  const auto gradient = run.gradient(batch);
  for (const auto& view : run.parameters.layout.views()) {
    if (view.name == "kappa" && GetParam().kappa == 0) continue;
    std::vector<double> v(start.size(), 0.0);
    const auto random = random_vector(view.size(), static_cast<unsigned>(view.offset) + 3, 0.1);
    std::copy(random.begin(), random.end(), v.begin() + view.offset);
    const auto expected = along(v, [&] { return std::vector<double>{run.evaluator.evaluate(batch).loss}; });
    EXPECT_NEAR(dot(gradient, v), expected[0], 1e-10) << view.path();  // differences: see Richardson
  }
}

TEST_P(WordsOf, has_the_hessian_product_of_differences_of_its_gradient) {
  linearise();
  for (const unsigned seed : {1u, 2u}) {
    const auto v = direction(seed);
    const auto expected = along(v, [&] { return run.gradient(batch); });
    EXPECT_LT(relative_difference(product(Curvature::hessian, v), expected), 1e-8);
  }
}

// The loss of word c is log(sum exp z) - z_c, so that losses of all words at one token show the logits up to
// a shift, which the curvature L does not see: v^T H_o v = sum over targets of weight * variance of z_dot
// under softmax(z).
TEST_P(WordsOf, has_the_gauss_newton_form_of_differences_of_its_logits) {
  linearise();
  const auto v = direction(5), w = direction(6);
  const auto all = batch.targets;
  if (GetParam().loss.smoothing > 0) GTEST_SKIP() << "with smoothing the losses mix the logits";
  const auto scores = [&] {
    std::vector<double> z;
    for (auto masked : all)
      for (int c = 0; c < SmallClassifier::words; ++c) {
        masked.word = c;
        masked.weight = 1;
        batch.targets = {masked};
        z.push_back(-run.evaluator.evaluate(batch).loss);
      }
    return z;
  };
  const auto z = scores(), z_v = along(v, scores), z_w = along(w, scores);
  double expected = 0;
  for (std::size_t k = 0; k < all.size(); ++k) {
    double mean_v = 0, mean_w = 0, product = 0;
    for (std::size_t c = 0; c < SmallClassifier::words; ++c) {
      const std::size_t at = k * SmallClassifier::words + c;
      const double p = std::exp(z[at]);
      mean_v += p * z_v[at];
      mean_w += p * z_w[at];
      product += p * z_v[at] * z_w[at];
    }
    expected += all[k].weight * (product - mean_v * mean_w);
  }
  EXPECT_NEAR(dot(product(Curvature::gauss_newton, v), w), expected, 1e-9 * std::abs(expected));
}

// Sums of some tens of products of numbers of order one, rounded to 6e-8.
TEST_P(WordsOf, computes_in_float_what_it_computes_in_double) {
  constexpr double rounding = 3e-6;
  const auto u = random_vector(run.context.size(), 9), before = random_vector(start.size(), 10);
  run.context.mask.length = batch.length;
  while (batch.targets.size() < 200)  // more than a group of products
    batch.targets.push_back(batch.targets[batch.targets.size() - 5]);
  struct Found {
    Evaluation value = {}, with_gradient = {};
    std::vector<double> u_bar, gradient, logits;
  };
  const auto found = [&](Precision precision) {
    Found all{.u_bar = std::vector<double>(u.size()),
              .gradient = before,
              .logits = std::vector<double>(Index{run.context.rows()} * SmallClassifier::words)};
    const auto task = make_task(run.parameters, run.context, GetParam().loss, precision);
    const auto tape = task->make_tape();
    all.value = task->value(batch, u.data(), *tape);
    all.with_gradient =
        task->gradient(batch, u.data(), all.u_bar.data(), all.gradient, *tape, Task::KeepFor::nothing);
    WordLogits(run.parameters, precision)(run.context.rows(), u.data(), all.logits.data());
    return all;
  };
  const auto one = found(Precision::float32), other = found(Precision::float64);
  EXPECT_NEAR(one.value.loss, other.value.loss, rounding * other.value.loss);
  EXPECT_EQ(one.value.loss, one.with_gradient.loss);
  EXPECT_NEAR(one.value.correct, other.value.correct, 1e-15);
  for (const auto list : {&Found::u_bar, &Found::gradient, &Found::logits}) {
    const double difference = relative_difference(one.*list, other.*list);
    EXPECT_LT(difference, rounding);
    EXPECT_GT(difference, 0);  // in double there is none
  }
}

TEST_P(WordsOf, does_not_list_its_outputs) {
  linearise();
  std::vector<double> row(start.size());
  EXPECT_THROW(hessian.for_output_gradients(row, [] {}), BadInput);
}

INSTANTIATE_TEST_SUITE_P(EveryModel, WordsOf, testing::ValuesIn(small_word_models()),
                         [](const auto& model) { return model.param.name; });

TEST(WordTask, costs_the_logarithm_of_the_number_of_words_where_their_logits_are_equal) {
  for (auto c : small_word_models())
    for (const int words : {2, 5, 300}) {
      c.model.vocabulary = words;
      auto p = c.parameters();
      // All rows of W are its first one, so that all logits of a token are one number.
      const auto w = p.view(c.model.word_head.own_matrix ? "word_head/W" : "embedding/words");
      for (int word = 1; word < words; ++word)
        std::copy_n(w.begin(), c.model.width, w.begin() + word * c.model.width);
      if (p.layout.has("word_head/b")) std::ranges::fill(p.view("word_head/b"), 0.7);
      const auto line =
          TokenLine::even(MPI_COMM_SELF, SmallClassifier::tokens_x, SmallClassifier::tokens_y, 1);
      const SlabContext context{
          .line = &line, .samples = 3, .width = c.model.width, .mask = {{}, c.model.causal, {}}};
      auto batch = masked_batch(c.model);
      double weight = 0;
      for (auto& target : batch.targets) {
        target.word %= words;
        weight += target.weight;
      }
      const auto u = random_vector(context.size(), 9);
      std::vector<double> u_bar(u.size()), gradient(p.values.size());
      const auto task = make_task(p, context, c.loss, Precision::float64);
      const auto tape = task->make_tape();
      const double expected = weight * std::log(words);
      EXPECT_NEAR(task->value(batch, u.data(), *tape).loss, expected, 1e-14 * expected) << c.name << words;
      EXPECT_NEAR(task->gradient(batch, u.data(), u_bar.data(), gradient, *tape, Task::KeepFor::nothing).loss,
                  expected, 1e-14 * expected)
          << c.name << words;
    }
}

TEST(WordTask, gives_no_gradient_to_the_last_token_of_a_text_and_to_padding) {
  const auto data =
      random_words(3, SmallClassifier::tokens_x, SmallClassifier::tokens_y, SmallClassifier::words, 0, 1);
  int models = 0;
  for (const auto& c : small_word_models()) {
    if (!c.model.causal) continue;
    ++models;
    TrainingRun run(MPI_COMM_SELF, 1, {.cells = c.cells, .global = 3, .loss = c.loss}, data, c.parameters());
    auto batch = small_batch(c.model);
    batch.seen.assign(batch.label.size(), 0);
    NextWords(data).apply(batch, 1);
    run.context.mask.length = batch.length;
    std::vector<double> u(run.context.size()), u_bar(u.size()), gradient(run.parameters.values.size());
    embed(run.parameters, run.context, batch.input.data(), u.data());
    run.march.forward(u.data(), Keep::activations, {});
    const auto task = make_task(run.parameters, run.context, c.loss, Precision::float64);
    const auto tape = task->make_tape();
    task->gradient(batch, u.data(), u_bar.data(), gradient, *tape, Task::KeepFor::nothing);
    const auto has_gradient = [&](int sample, int token) {
      const Index row = Index{token} * run.context.samples + sample;
      const auto first = u_bar.begin() + row * run.context.width;
      return std::any_of(first, first + run.context.width, [](double value) { return value != 0; });
    };
    const auto look = [&](const char* where) {
      for (int sample = 0; sample < run.context.samples; ++sample) {
        const auto at = static_cast<std::size_t>(sample);
        const int end = batch.weight[at] > 0 ? batch.length[at] - 1 : 0;  // fillers have no targets
        for (int token = end; token < data.tokens_x() * data.tokens_y(); ++token)
          EXPECT_FALSE(has_gradient(sample, token)) << c.name << where << sample << ", " << token;
      }
      EXPECT_GT(batch.targets.size(), 3U);
      for (const auto& target : batch.targets)
        EXPECT_TRUE(has_gradient(target.sample, target.token)) << c.name << where << target.sample;
    };
    look(", last state ");
    // No token in front of it sees it at any depth.
    run.march.backward(u_bar.data(), gradient, {});
    look(", embedded ");
  }
  EXPECT_EQ(models, 3);
}

TEST(WordTask, refuses_models_without_a_word_head_and_other_losses) {
  auto c = small_word_models().front();
  const auto data = random_words(3, 3, 2, SmallClassifier::words, 2, 1);
  const auto make = [&] {
    TrainingRun(MPI_COMM_SELF, 1, {.cells = c.cells, .global = 3, .loss = c.loss}, data, c.parameters());
  };
  EXPECT_NO_THROW(make());
  c.loss.kind = LossKind::mean_squared_error;
  EXPECT_THROW(make(), BadInput);
  c.loss.kind = LossKind::cross_entropy;
  c.model.word_head.present = false;
  EXPECT_THROW(make(), BadInput);
}

}  // namespace
}  // namespace fluxformer
