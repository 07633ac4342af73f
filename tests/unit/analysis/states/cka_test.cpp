// Linear CKA: its invariances, the form with kernels, and the mean over all pairings.

#include "analysis/states/model_states.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "analysis/state_examples.hpp"
#include "base/error.hpp"
#include "tests/support/test_matrices.hpp"
#include "tests/support/test_vectors.hpp"

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
    for (int i = 0; i < 5; ++i) paired.row(i) = y.row(order[static_cast<std::size_t>(i)]);
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
