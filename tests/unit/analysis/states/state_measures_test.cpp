// Measures of hidden states by depth: by hand, and invariances.

#include "analysis/states/model_states.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "analysis/state_examples.hpp"
#include "tests/support/test_vectors.hpp"

namespace fluxformer::states {
namespace {

using test::random_vector;

constexpr double state_measures_rounding = 1e-13;  // sums of some hundred numbers of order 1

TokenLine line_of(int nx, int ny = 1) {
  return TokenLine::even(MPI_COMM_SELF, nx, ny);
}

/// Three depths of a case.
using States = std::vector<std::vector<double>>;

StateResult measures_of(const SlabContext& context, const States& u) {
  StateAccumulator meter(static_cast<int>(u.size()), context);
  for (std::size_t i = 0; i < u.size(); ++i)
    meter.add(static_cast<int>(i), u[i].data(), u[i > 0 ? i - 1 : 0].data(), u[0].data());
  meter.reduce(MPI_COMM_SELF);
  return meter.result();
}

std::vector<double> all_numbers(const StateResult& m) {
  std::vector<double> out;
  for (const auto* v :
       {&m.norm, &m.token_variance, &m.dirichlet_energy, &m.correlation, &m.drift, &m.step_change})
    out.insert(out.end(), v->begin(), v->end());
  return out;
}

/// A subset of the samples of slabs, on a line with `padding` extra tokens that hold NaN.
States part(const States& u, int tokens, int samples, int width, const std::vector<int>& which, int padding) {
  States out;
  for (const auto& slab : u) {
    std::vector<double> to;
    for (int t = 0; t < tokens + padding; ++t)
      for (const int b : which)
        for (int j = 0; j < width; ++j)
          to.push_back(t < tokens ? slab[static_cast<std::size_t>((t * samples + b) * width + j)] : NAN);
    out.push_back(to);
  }
  return out;
}

TEST(StateResult, of_two_tokens_by_hand) {
  const auto line = line_of(2);
  const SlabContext context{&line, 1, 2};
  const auto m = measures_of(context, {{3, 4, 0, 0}, {4, -3, 0, 0}});
  EXPECT_EQ(m.samples, 1);
  EXPECT_NEAR(m.norm[1], std::sqrt(25.0 / 4), state_measures_rounding);
  EXPECT_NEAR(m.token_variance[1], 2 * (4 + 2.25) / 4, state_measures_rounding);  // means 2, -1.5
  EXPECT_NEAR(m.dirichlet_energy[1], 0.5 * 25 / 4, state_measures_rounding);
  EXPECT_NEAR(m.drift[1], 1, state_measures_rounding);
  EXPECT_NEAR(m.step_change[1], std::sqrt(1.0 + 49) / 5, state_measures_rounding);
  // Means 1.75 and 0.25: covariance 0 - 4 * 1.75 * 0.25, variances 25 - 4 * 1.75^2 and 25 - 4 * 0.25^2.
  EXPECT_NEAR(m.correlation[1], -1.75 / std::sqrt(12.75 * 24.75), state_measures_rounding);
  EXPECT_NEAR(m.drift[0], 0, state_measures_rounding);
  EXPECT_NEAR(m.step_change[0], 0, state_measures_rounding);
  EXPECT_NEAR(m.correlation[0], 1, state_measures_rounding);
}

TEST(StateResult, see_the_neighbours_on_a_grid) {
  const auto line = line_of(2, 2);
  const SlabContext context{&line, 1, 1};
  const auto m = measures_of(context, {{1, 2, 4, 8}});
  // East: 1 and 4, south: 3 and 6.
  EXPECT_NEAR(m.dirichlet_energy[0], 0.5 * (1 + 16 + 9 + 36) / 4, state_measures_rounding);
}

TEST(StateResult, are_means_over_samples_of_any_size) {
  // The second sample is 1000 times as large and goes the other way: drifts 0 and 2, steps 1 and 2.
  const auto line = line_of(2);
  const SlabContext context{&line, 2, 1};
  const auto m = measures_of(context, {{1, 1000, 2, 2000}, {2, -1000, 4, -2000}});
  EXPECT_NEAR(m.drift[1], 1, state_measures_rounding);
  EXPECT_NEAR(m.step_change[1], 1.5, state_measures_rounding);
  EXPECT_NEAR(m.correlation[1], 0, state_measures_rounding);
  EXPECT_EQ(m.samples, 2);
}

TEST(StateResult, see_a_drift_far_below_round_off_of_the_cosine) {
  const auto line = line_of(1);
  const SlabContext context{&line, 1, 2};
  EXPECT_NEAR(measures_of(context, {{1, 0}, {1, 1e-7}}).drift[1], 0.5e-14, 1e-21);
}

TEST(StateResult, take_what_does_not_exist_as_0_and_a_drift_as_1) {
  const auto line = line_of(3);
  const SlabContext context{&line, 2, 1};
  // Sample 0 goes from zero to non-zero; sample 1 ends constant, with a mean that is not exactly 0.1.
  const auto m = measures_of(context, {{0, 0.1, 0, 0.2, 0, 0.3}, {1, 0.1, 2, 0.1, 4, 0.1}});
  EXPECT_NEAR(m.drift[0], 0.5, state_measures_rounding);
  EXPECT_EQ(m.step_change[0], 0);
  EXPECT_NEAR(m.correlation[0], 0.5, state_measures_rounding);
  EXPECT_NEAR(m.drift[1], (1 + 1 - 0.6 / std::sqrt(3 * 0.14)) / 2, state_measures_rounding);
  EXPECT_NEAR(m.step_change[1], std::sqrt(0.05 / 0.14) / 2, state_measures_rounding);
  EXPECT_EQ(m.correlation[1], 0);
}

class StateMeasuresOf : public testing::Test {
 protected:
  static constexpr int tokens = 5, samples = 4, width = 3;
  const States u{random_vector(tokens * samples * width, 1), random_vector(tokens* samples* width, 2),
                 random_vector(tokens* samples* width, 3)};
  const std::vector<int> length{5, 2, 4, 1};

  /// Of some of the samples, each with its length.
  StateResult measures_of_samples(const std::vector<int>& which, int padding) const {
    const auto line = line_of(tokens + padding);
    SlabContext context{&line, static_cast<int>(which.size()), width};
    for (const int b : which) context.mask.length.push_back(length[static_cast<std::size_t>(b)]);
    return measures_of(context, part(u, tokens, samples, width, which, padding));
  }
};

TEST_F(StateMeasuresOf, padding_does_not_matter) {
  const auto plain = measures_of_samples({0, 1, 2, 3}, 0), padded = measures_of_samples({0, 1, 2, 3}, 7);
  EXPECT_LT(test::relative_difference(all_numbers(padded), all_numbers(plain)), state_measures_rounding);
}

TEST_F(StateMeasuresOf, a_sample_of_length_0_is_left_out) {
  const auto line = line_of(tokens);
  SlabContext context{&line, samples, width};
  context.mask.length = {5, 0, 4, 1};
  const auto m = measures_of(context, u);
  EXPECT_LT(test::relative_difference(all_numbers(m), all_numbers(measures_of_samples({0, 2, 3}, 0))),
            state_measures_rounding);
  EXPECT_EQ(m.samples, 3);
}

TEST_F(StateMeasuresOf, examples_are_pooled_samples_or_real_tokens) {
  const auto line = line_of(tokens + 2);
  SlabContext context{&line, samples, width};
  context.mask.length = {5, 2, 0, 1};
  const auto padded = part(u, tokens, samples, width, {0, 1, 2, 3}, 2)[0];
  const auto at = [&](int t, int b, int j) {
    return u[0][static_cast<std::size_t>((t * samples + b) * width + j)];
  };
  const auto pooled = examples_of(context, padded.data(), Examples::pooled);
  const auto rows = examples_of(context, padded.data(), Examples::tokens);
  ASSERT_EQ(pooled.rows(), 3);
  ASSERT_EQ(rows.rows(), 5 + 2 + 1);
  for (int j = 0; j < width; ++j) {
    EXPECT_NEAR(pooled(1, j), (at(0, 1, j) + at(1, 1, j)) / 2, state_measures_rounding);
    EXPECT_EQ(pooled(2, j), at(0, 3, j));
    EXPECT_EQ(rows(4, j), at(4, 0, j));
    EXPECT_EQ(rows(6, j), at(1, 1, j));
    EXPECT_EQ(rows(7, j), at(0, 3, j));
  }
}

}  // namespace
}  // namespace fluxformer::states
