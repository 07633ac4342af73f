// Measures of hidden states by depth: by hand, and invariances.

#include "analysis/states/model_states.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "analysis/state_examples.hpp"
#include "base/error.hpp"
#include "tests/support/listed_samples.hpp"
#include "tests/support/test_matrices.hpp"
#include "tests/support/test_vectors.hpp"
#include "tests/unit/analysis/probe_case.hpp"

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
        for (int j = 0; j < width; ++j) to.push_back(t < tokens ? slab[(t * samples + b) * width + j] : NAN);
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

  /// Measures of some of the samples, each with its length.
  StateResult measures_of_samples(const std::vector<int>& which, int padding) const {
    const auto line = line_of(tokens + padding);
    SlabContext context{&line, static_cast<int>(which.size()), width};
    for (const int b : which) context.mask.length.push_back(length[b]);
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
  const auto at = [&](int t, int b, int j) { return u[0][(t * samples + b) * width + j]; };
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

// Linear CKA: its invariances, the form with kernels, and the mean over all pairings.

namespace fluxformer::states {
namespace {

RowMatrix random_matrix(int rows, int columns, unsigned seed) {
  const auto values = test::random_vector(static_cast<std::size_t>(rows * columns), seed);
  return Eigen::Map<const RowMatrix>(values.data(), rows, columns);
}

/// CKA of all examples; the first `apart` of them are added separately.
CkaAccumulator meter_of(const std::vector<RowMatrix>& a, const std::vector<RowMatrix>& b, int apart = 0) {
  const auto side = [](const std::vector<RowMatrix>& x) {
    return CkaAccumulator::Side{static_cast<int>(x.size()), static_cast<int>(x[0].cols())};
  };
  const auto rows = [&](const std::vector<RowMatrix>& x, int first) {
    std::vector<const double*> out;
    for (const auto& m : x) out.push_back(m.data() + first * m.cols());
    return out;
  };
  CkaAccumulator meter(side(a), side(b));
  meter.add(apart, rows(a, 0), rows(b, 0));
  meter.add(static_cast<int>(a[0].rows()) - apart, rows(a, apart), rows(b, apart));
  meter.reduce(MPI_COMM_SELF);
  return meter;
}

double cka(const RowMatrix& x, const RowMatrix& y) {
  return meter_of({x}, {y}).alignment()[0];
}

/// The form with kernels: <K, L> / (|K| |L|) of the centred Gram matrices.
double cka_of_kernels(const RowMatrix& x, const RowMatrix& y) {
  const RowMatrix xc = x.rowwise() - x.colwise().mean(), yc = y.rowwise() - y.colwise().mean();
  const Eigen::MatrixXd k = test::product(xc, xc.transpose()), l = test::product(yc, yc.transpose());
  return k.cwiseProduct(l).sum() / (k.norm() * l.norm());
}

constexpr double rounding = 1e-12;  // moments of some hundred examples, means of the order of deviations

TEST(Cka, of_a_state_with_itself_is_1) {
  const auto x = random_matrix(50, 7, 1);
  EXPECT_NEAR(cka(x, x), 1, rounding);
}

TEST(Cka, of_a_rotated_scaled_and_shifted_copy_is_1) {
  const auto x = random_matrix(50, 7, 1);
  const Eigen::MatrixXd q = test::orthogonal_factor(random_matrix(7, 7, 2));
  const RowMatrix copy = (-3.5 * test::product(x, q)).rowwise() + random_matrix(1, 7, 3).row(0);
  EXPECT_NEAR(cka(x, copy), 1, rounding);
  // It is not invariant under a map that is not a rotation.
  EXPECT_LT(cka(x, test::product(x, random_matrix(7, 7, 4))), 0.95);
}

TEST(Cka, of_single_features_is_the_squared_correlation) {
  RowMatrix x(3, 1), y(3, 1);
  x << 1, 2, 3;  // -1, 0, 1
  y << 6, 5, 7;  // 0, -1, 1
  EXPECT_NEAR(cka(x, y), 0.25, rounding);
}

TEST(Cka, of_all_pairs_of_depths_is_the_form_with_kernels) {
  const std::vector<RowMatrix> a{random_matrix(9, 4, 1), random_matrix(9, 4, 2)};
  std::vector<RowMatrix> b;
  for (unsigned i = 0; i < 3; ++i)
    b.push_back(random_matrix(9, 12, 3 + i) + 0.5 * test::product(a[0], random_matrix(4, 12, i)));
  const auto found = meter_of(a, b).alignment();
  ASSERT_EQ(found.size(), 6u);
  for (std::size_t i = 0; i < 2; ++i)
    for (std::size_t j = 0; j < 3; ++j) EXPECT_NEAR(found[i * 3 + j], cka_of_kernels(a[i], b[j]), rounding);
}

TEST(Cka, unrelated_is_the_mean_over_all_pairings) {
  const auto x = random_matrix(5, 3, 1), y = random_matrix(5, 2, 2);
  std::vector<int> order{0, 1, 2, 3, 4};
  double sum = 0, count = 0;
  do {
    RowMatrix paired(5, 2);
    for (int i = 0; i < 5; ++i) paired.row(i) = y.row(order[i]);
    sum += cka_of_kernels(x, paired), count += 1;
  } while (std::next_permutation(order.begin(), order.end()));
  ASSERT_EQ(count, 120);
  EXPECT_NEAR(meter_of({x}, {y}).unrelated()[0], sum / count, rounding);
}

TEST(Cka, of_unrelated_states_is_far_from_0_with_few_examples) {
  constexpr int n = 60, d_a = 20, d_b = 30;
  const double expected = std::sqrt(1.0 * d_a * d_b / ((n + d_a) * (n + d_b)));
  double value = 0, null = 0;
  for (unsigned seed = 0; seed < 20; ++seed) {
    const auto meter = meter_of({random_matrix(n, d_a, seed)}, {random_matrix(n, d_b, 100 + seed)});
    value += meter.alignment()[0] / 20, null += meter.unrelated()[0] / 20;
  }
  // Relative spread of one |Y^T X|^2 of 600 terms: sqrt(2 / 600) = 6 %, of the mean of 20: 1.3 %; the formula
  // itself is the leading order in 1/n.
  EXPECT_NEAR(value, expected, 0.05 * expected);
  EXPECT_NEAR(null, expected, 0.05 * expected);
}

TEST(Cka, does_not_depend_on_how_many_examples_come_at_once) {
  const std::vector<RowMatrix> a{random_matrix(30, 4, 1), random_matrix(30, 4, 2)},
      b{random_matrix(30, 6, 3)};
  const auto whole = meter_of(a, b), parts = meter_of(a, b, 11);
  EXPECT_EQ(parts.examples(), 30);
  EXPECT_LT(test::relative_difference(parts.alignment(), whole.alignment()), rounding);
  EXPECT_LT(test::relative_difference(parts.unrelated(), whole.unrelated()), rounding);
}

TEST(Cka, with_a_state_that_does_not_vary_does_not_exist) {
  const RowMatrix x = random_matrix(20, 3, 1), same = RowMatrix::Constant(20, 3, 0.1);
  EXPECT_TRUE(std::isnan(cka(x, same)));
  EXPECT_TRUE(std::isnan(cka(same, x)));
}

TEST(Cka, padding_does_not_matter) {
  constexpr int samples = 8, width = 3;
  const auto values = test::random_vector(4 * samples * width, 1);
  auto padded = values;
  padded.resize(6 * samples * width, NAN);
  const auto line = TokenLine::even(MPI_COMM_SELF, 4, 1), longer = TokenLine::even(MPI_COMM_SELF, 6, 1);
  SlabContext plain{&line, samples, width}, with_padding{&longer, samples, width};
  plain.mask.length = with_padding.mask.length = {4, 1, 2, 3, 4, 4, 1, 2};
  const auto other = random_matrix(samples, 5, 2), others = random_matrix(21, 5, 3);
  for (const auto& [what, y] : {std::pair{Examples::pooled, other}, {Examples::tokens, others}})
    EXPECT_EQ(cka(examples_of(plain, values.data(), what), y),
              cka(examples_of(with_padding, padded.data(), what), y));
}

TEST(Cka, of_no_depths_or_channels_is_refused) {
  EXPECT_THROW(CkaAccumulator({0, 4}, {1, 4}), BadInput);
  EXPECT_THROW(CkaAccumulator({1, 4}, {1, 0}), BadInput);
}

}  // namespace
}  // namespace fluxformer::states

// States of whole models over samples.

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
        probe(probe_parameters({.kind = ModelKind::pde, .cells = 6, .tokens_x = 6, .tokens_y = 1}), line, 2,
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
