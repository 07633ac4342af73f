// States of whole models over samples.

#include "analysis/states/model_states.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/listed_samples.hpp"
#include "tests/unit/analysis/probe_case.hpp"

namespace fluxformer::states {
namespace {

using namespace test;

constexpr double model_states_rounding = 1e-12;

TEST(TokenNorms, are_root_mean_squares_and_not_there_for_padding) {
  const auto line = TokenLine::even(MPI_COMM_SELF, 3, 1);
  SlabContext context{&line, 2, 2};
  context.mask.length = {3, 1};
  const std::vector<double> u{3, 4, 1, 1, 0, 0, 7, 7, 6, 8, 7, 7};  // [token][sample][channel]
  const auto first = token_norms(context, u.data(), 0), second = token_norms(context, u.data(), 1);
  EXPECT_NEAR(first[0], 5 / std::sqrt(2), model_states_rounding);
  EXPECT_EQ(first[1], 0);
  EXPECT_NEAR(first[2], 10 / std::sqrt(2), model_states_rounding);
  EXPECT_NEAR(second[0], 1, model_states_rounding);
  EXPECT_TRUE(std::isnan(second[1]));
  EXPECT_TRUE(std::isnan(second[2]));
}

/// A model on more cells than layers, and samples for it.
struct Measured {
  Measured()
      : data(random_samples(5, 6, 1, 3, 4, 1)),
        line(token_line(MPI_COMM_SELF, data)),
        samples(MPI_COMM_SELF, line, data, all_of(data), 2),
        probe(probe_parameters({.kind = ModelKind::pde, .tokens_x = 6, .tokens_y = 1}), line, 2, 6,
              Precision::float64) {}

  ListedSamples data;
  TokenLine line;
  SampleSet samples;
  ModelProbe probe;
};

TEST(ModelStates, are_measured_at_all_rows_and_at_the_ends_of_layers) {
  Measured m;
  const auto found = measure_states(m.samples, m.probe, 2);
  ASSERT_EQ(found.by_row.norm.size(), 7u);
  ASSERT_EQ(found.by_layer.norm.size(), 3u);
  for (std::size_t l = 0; l < 3; ++l) EXPECT_EQ(found.by_layer.norm[l], found.by_row.norm[3 * l]);
  EXPECT_EQ(found.by_layer.samples, 5);
  EXPECT_NEAR(found.by_layer.drift[0], 0, model_states_rounding);
  EXPECT_GT(found.by_layer.drift[2], 1e-6);
  EXPECT_GT(found.by_layer.step_change[1], 1e-6);
  // All tokens of all samples give the norm; a sample of the first two alone its norms by token.
  ASSERT_EQ(found.token_norms.size(), 2u * 7 * 6);
  const auto one = measure_states(m.samples.with({0}, 2), m.probe, 1);
  double squares = 0;
  for (std::size_t token = 0; token < 6; ++token) {
    EXPECT_NEAR(one.token_norms[3 * 6 + token], found.token_norms[3 * 6 + token], model_states_rounding);
    squares += one.token_norms[3 * 6 + token] * one.token_norms[3 * 6 + token] / 6;
  }
  EXPECT_NEAR(std::sqrt(squares), one.by_row.norm[3], model_states_rounding);
  EXPECT_TRUE(one.accuracy == 0 || one.accuracy == 1);
}

TEST(ModelStates, of_each_sample_are_those_of_the_sample_alone_in_the_order_of_the_samples) {
  Measured m;
  const std::vector<std::size_t> order{3, 0, 4};
  const auto found = measure_states(m.samples.with(order, 2), m.probe, 0);
  ASSERT_EQ(found.norm_by_sample.size(), 3u * 3);
  ASSERT_EQ(found.drift_by_sample.size(), 3u * 3);
  ASSERT_EQ(found.correct_by_sample.size(), 3u);
  double accuracy = 0;
  std::vector<double> drift(3, 0.0);
  for (std::size_t place = 0; place < 3; ++place) {
    const auto alone = measure_states(m.samples.with({order[place]}, 2), m.probe, 0);
    EXPECT_EQ(found.correct_by_sample[place], alone.accuracy);
    accuracy += alone.accuracy / 3;
    for (std::size_t l = 0; l < 3; ++l) {
      EXPECT_NEAR(found.norm_by_sample[place * 3 + l], alone.by_layer.norm[l], model_states_rounding);
      EXPECT_NEAR(found.drift_by_sample[place * 3 + l], alone.by_layer.drift[l], model_states_rounding);
      drift[l] += found.drift_by_sample[place * 3 + l] / 3;
    }
  }
  EXPECT_NEAR(found.accuracy, accuracy, model_states_rounding);
  for (std::size_t l = 0; l < 3; ++l) EXPECT_NEAR(found.by_layer.drift[l], drift[l], model_states_rounding);
}

TEST(Alignment, of_a_model_with_itself_is_symmetric_and_1_at_the_same_depth) {
  Measured m;
  for (const auto what : {Examples::pooled, Examples::tokens}) {
    const auto table = align(m.samples, m.probe, m.probe, what).alignment();
    ASSERT_EQ(table.size(), 49u);
    for (std::size_t i = 0; i < 7; ++i)
      for (std::size_t j = 0; j < 7; ++j) {
        EXPECT_NEAR(table[i * 7 + j], i == j ? 1 : table[j * 7 + i], 1e-11);
        EXPECT_LE(table[i * 7 + j], 1 + 1e-11);
      }
  }
}

}  // namespace
}  // namespace fluxformer::states
