// The embedding by plain loops, its adjoint by differences.

#include "model/embedding.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <ostream>

#include "base/error.hpp"
#include "tests/support/small_problem.hpp"
#include "tests/support/test_vectors.hpp"

namespace fluxformer {
namespace {

using namespace test;
using testing::AllOf;
using testing::HasSubstr;

constexpr std::size_t embedding_tokens = 12, samples = 2;
constexpr int features = 4, words = 5;

struct Case {
  const char* name;
  int features = 0, vocabulary = 0, segments = 0, positions = 12;
  int class_tokens = 0;
  bool norm = false;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name;
}

ProblemSpec spec_of(const Case& c) {
  ProblemSpec spec;
  spec.model = small_model(3);
  spec.model.features = c.features;
  spec.model.vocabulary = c.vocabulary;
  spec.model.segments = c.segments;
  spec.model.tokens = c.positions;
  spec.model.class_tokens = c.class_tokens;
  spec.model.embedding_norm = c.norm;
  spec.mesh = small_mesh(3);
  return spec;
}

class EmbeddingOf : public testing::TestWithParam<Case> {
 protected:
  EmbeddingOf() : problem(MPI_COMM_SELF, spec_of(GetParam())) {
    const auto numbers = static_cast<std::size_t>(problem.parameters.spec.input_size());
    input = random_vector(samples * embedding_tokens * numbers, 4);  // [sample][token][number]
    if (GetParam().vocabulary > 0)
      for (std::size_t j = 0; j < input.size(); j += numbers) {
        const std::size_t place = j / numbers;
        input[j] = static_cast<double>((place * place + 3) % words);
        if (numbers > 1) input[j + 1] = static_cast<double>(place % 7 / 3);
      }
  }

  /// Straight from the formulas.
  std::vector<double> expected() const {
    const auto& c = GetParam();
    const auto& p = problem.parameters;
    const auto d = static_cast<std::size_t>(p.spec.width);
    const auto numbers = static_cast<std::size_t>(p.spec.input_size());
    std::vector<double> slab(embedding_tokens * samples * d);
    for (std::size_t token = 0; token < embedding_tokens; ++token)
      for (std::size_t sample = 0; sample < samples; ++sample) {
        const double* const x = input.data() + (sample * embedding_tokens + token) * numbers;
        std::vector<double> e(d, 0.0);
        for (std::size_t k = 0; k < d; ++k) {
          if (c.vocabulary > 0) {
            e[k] = p.view("embedding/words")[static_cast<std::size_t>(x[0]) * d + k];
            if (c.segments > 0) e[k] += p.view("embedding/segment")[static_cast<std::size_t>(x[1]) * d + k];
          } else if (token < static_cast<std::size_t>(c.class_tokens)) {
            e[k] = p.view("embedding/class_token")[token * d + k];
          } else {
            e[k] = p.view("embedding/b")[k];
            for (std::size_t f = 0; f < numbers; ++f) e[k] += p.view("embedding/W")[k * numbers + f] * x[f];
          }
          if (c.positions > 0) e[k] += p.view("embedding/position")[token * d + k];
        }
        double mean = 0, variance = 0;
        for (const double value : e) mean += value / static_cast<double>(d);
        for (const double value : e) variance += (value - mean) * (value - mean) / static_cast<double>(d);
        for (std::size_t k = 0; k < d; ++k) {
          if (c.norm)
            e[k] = (e[k] - mean) / std::sqrt(variance + p.spec.norm_eps) * p.view("embedding/norm_gain")[k] +
                   p.view("embedding/norm_bias")[k];
          slab[(token * samples + sample) * d + k] = e[k];
        }
      }
    return slab;
  }
  std::vector<double> embedded() const {
    std::vector<double> slab(problem.context.size(), 7.0);
    embed(problem.parameters, problem.context, input.data(), slab.data());
    return slab;
  }

  Problem problem;
  std::vector<double> input;
};

TEST_P(EmbeddingOf, is_the_sum_of_the_formula_behind_its_norm) {
  EXPECT_LT(relative_difference(embedded(), expected()), 1e-14);  // a dozen roundings
}

TEST_P(EmbeddingOf, has_the_adjoint_of_its_differences) {
  const auto bar = random_vector(problem.context.size(), 5);
  std::vector<double> gradient(problem.parameters.values.size(), 0.25), kept = gradient;
  const Embedding embedding(problem.parameters, problem.context);
  EmbeddingTape tape;
  std::vector<double> slab(problem.context.size());
  embedding.forward(input.data(), slab.data(), tape);
  embedding.adjoint(input.data(), bar.data(), gradient, tape);
  embedding.pull(input.data(), bar.data(), kept, tape);
  EXPECT_EQ(gradient, kept);
  // Fourth-order differences: step^4 times fifth derivatives, of the LayerNorm of rows of size 1 up to 1e5,
  // and the round-off of a sum of 144 numbers over the step.
  constexpr double step = 1e-3, tolerance = 1e5 * step * step * step * step + 1e-13 / step;
  for (std::size_t j = 0; j < gradient.size(); ++j) {
    double& value = problem.parameters.values[j];
    const double before = value;
    const auto at = [&](double moved) {
      value = before + moved;
      const double looked_at = dot(bar, embedded());
      value = before;
      return looked_at;
    };
    const double slope = (8 * (at(step) - at(-step)) - (at(2 * step) - at(-2 * step))) / (12 * step);
    EXPECT_NEAR(gradient[j] - 0.25, slope, tolerance) << "parameter " << j;
  }
}

TEST_P(EmbeddingOf, refuses_words_and_segments_that_its_tables_do_not_have) {
  const auto& c = GetParam();
  const auto complaint = [&](std::size_t number, double value) -> std::string {
    const double before = input[number];
    input[number] = value;
    std::string text;
    try {
      embedded();
    } catch (const BadInput& e) {
      text = e.what();
    }
    input[number] = before;
    return text;
  };
  if (c.vocabulary == 0) return;
  const std::size_t numbers = c.segments > 0 ? 2 : 1;
  EXPECT_THAT(complaint(3 * numbers, words), AllOf(HasSubstr("word 5"), HasSubstr("has 5")));
  EXPECT_THAT(complaint(3 * numbers, -1), HasSubstr("word -1"));
  EXPECT_THAT(complaint(3 * numbers, NAN), HasSubstr("word"));
  EXPECT_EQ(complaint(3 * numbers, words - 1), "");
  if (c.segments == 0) return;
  EXPECT_THAT(complaint(3 * numbers + 1, 3), AllOf(HasSubstr("segment 3"), HasSubstr("has 3")));
}

INSTANTIATE_TEST_SUITE_P(
    All, EmbeddingOf,
    testing::Values(
        Case{.name = "numbers", .features = features},
        Case{.name = "numbers_class_token", .features = features, .class_tokens = 1},
        Case{.name = "numbers_class_tokens", .features = features, .class_tokens = 2},
        Case{.name = "numbers_class_token_norm", .features = features, .class_tokens = 1, .norm = true},
        Case{.name = "words", .vocabulary = words},
        Case{.name = "words_without_positions", .vocabulary = words, .positions = 0},
        Case{.name = "words_norm", .vocabulary = words, .norm = true},
        Case{.name = "words_segments", .vocabulary = words, .segments = 3},
        Case{.name = "words_segments_norm", .vocabulary = words, .segments = 3, .norm = true}));

}  // namespace
}  // namespace fluxformer
