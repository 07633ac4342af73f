// Largest and smallest singular values against a dense SVD, and their error bounds.

#include "analysis/derivatives/jacobian_spectra.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "tests/support/test_matrices.hpp"
#include "tests/support/test_vectors.hpp"

namespace fluxformer::derivatives {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

MatrixXd random_matrix(Eigen::Index n, unsigned seed) {
  const auto numbers = test::random_vector(static_cast<std::size_t>(n * n), seed);
  return Eigen::Map<const MatrixXd>(numbers.data(), n, n);
}

/// Orthogonal times the given singular values times orthogonal.
MatrixXd with_singular_values(const VectorXd& values, unsigned seed) {
  const auto n = values.size();
  const MatrixXd u = test::orthogonal_factor(random_matrix(n, seed)),
                 v = test::orthogonal_factor(random_matrix(n, seed + 1));
  return test::product(u * values.asDiagonal(), v.transpose());
}

/// A matrix for each sample, which acts on its real numbers; the padding of the result is not a number.
struct MatrixCase {
  MatrixCase(std::vector<MatrixXd> of_samples, int width, int padding = 0)
      : matrices(std::move(of_samples)),
        line(TokenLine::even(MPI_COMM_SELF, longest() / width + padding, 1)),
        context{&line, static_cast<int>(matrices.size()), width} {
    for (std::size_t b = 0; b < matrices.size(); ++b) {
      context.mask.length.push_back(static_cast<int>(matrices[b].rows()) / width);
      keys.push_back(static_cast<long>(10 + b));
    }
  }
  int longest() const {
    Eigen::Index n = 0;
    for (const auto& a : matrices) n = std::max(n, a.rows());
    return static_cast<int>(n);
  }
  SlabMap map(bool transposed) const {
    return [this, transposed](const double* v, double* out) {
      std::fill_n(out, context.size(), NAN);
      for (int b = 0; b < context.samples; ++b) {
        const auto& a = matrices[static_cast<std::size_t>(b)];
        if (a.size() == 0) continue;
        const VectorXd x = take_sample(context, v, b);
        const VectorXd y = transposed ? VectorXd(a.transpose() * x) : VectorXd(a * x);
        for (Eigen::Index j = 0; j < y.size(); ++j)
          out[static_cast<std::size_t>(j / context.width) * context.row() +
              static_cast<std::size_t>(b * context.width + static_cast<int>(j) % context.width)] = y(j);
      }
    };
  }
  std::vector<SingularRange> ranges(int steps) const {
    return singular_ranges(context, map(false), map(true), steps, RandomStream(3, "singular"), keys);
  }

  std::vector<MatrixXd> matrices;
  TokenLine line;
  SlabContext context;
  std::vector<long> keys;
};

SingularRange range_of(const MatrixXd& a, int steps) {
  return MatrixCase({a}, 1).ranges(steps).front();
}

TEST(SingularValues, of_as_many_steps_as_numbers_are_those_of_a_dense_svd) {
  const MatrixCase samples({random_matrix(12, 1), random_matrix(6, 2), random_matrix(9, 3)}, 3, 2);
  const auto ranges = samples.ranges(40);
  for (std::size_t b = 0; b < ranges.size(); ++b) {
    const auto exact = test::singular_values(samples.matrices[b]);
    const double rounding = 1e-14 * exact(0);  // a small multiple of the dimension times 1e-16
    EXPECT_NEAR(ranges[b].largest, exact(0), rounding);
    EXPECT_NEAR(ranges[b].smallest, exact(exact.size() - 1), rounding);
    EXPECT_EQ(ranges[b].steps, exact.size());
    EXPECT_EQ(ranges[b].smallest_error, 0);
  }
}

TEST(SingularValues, of_few_steps_are_within_their_errors_and_inside_the_true_range) {
  const MatrixXd a = MatrixXd::Identity(150, 150) + 0.05 * random_matrix(150, 4);
  const auto exact = test::singular_values(a);
  const auto distance = [&](double value) { return (exact.array() - value).abs().minCoeff(); };
  constexpr double rounding = 1e-13;  // of the dense SVD: a small multiple of the dimension times 1e-16
  double before = HUGE_VAL;
  for (const int steps : {4, 12, 36, 100}) {
    const auto found = range_of(a, steps);
    EXPECT_EQ(found.steps, steps);
    EXPECT_LE(found.largest, exact(0) + rounding);
    EXPECT_GE(found.smallest, exact(149) - rounding);
    EXPECT_LE(distance(found.largest), found.largest_error + rounding);
    EXPECT_LE(distance(found.smallest), found.smallest_error + rounding);
    // The error bounds hold, and not just because they are huge: the largest value converges.
    EXPECT_LT(found.largest_error, before);
    before = found.largest_error;
  }
  EXPECT_LT(before, 1e-6);
}

TEST(SingularValues, over_many_orders_need_the_full_reorthogonalisation) {
  // Without reorthogonalisation the directions of large singular values reappear, and the smallest is not
  // found in n steps.
  VectorXd values(40);
  for (int j = 0; j < 40; ++j) values(j) = std::pow(10, -j / 5.0);
  const auto found = range_of(with_singular_values(values, 5), 40);
  EXPECT_NEAR(found.largest, 1, 1e-14);
  EXPECT_NEAR(found.smallest, values(39), 1e-14);  // a few times 1e-16 of the largest
}

TEST(SingularValues, that_repeat_end_the_search_early) {
  VectorXd values = VectorXd::Constant(20, 2.0);
  values.tail(5).setConstant(0.5);
  const auto found = range_of(with_singular_values(values, 7), 20);
  EXPECT_EQ(found.steps, 2);
  EXPECT_NEAR(found.largest, 2, 1e-14);
  EXPECT_NEAR(found.smallest, 0.5, 1e-14);
  EXPECT_EQ(found.smallest_error, 0);
}

TEST(SingularValues, of_a_map_that_loses_directions_are_0) {
  VectorXd values = VectorXd::Constant(8, 3.0);
  values.tail(2).setZero();
  const auto found = range_of(with_singular_values(values, 9), 8);
  EXPECT_NEAR(found.largest, 3, 1e-14);
  EXPECT_NEAR(found.smallest, 0, 1e-14);
  EXPECT_EQ(found.smallest_error, 0);
  EXPECT_EQ(range_of(MatrixXd::Zero(5, 5), 5).largest, 0);
}

TEST(SingularValues, know_nothing_of_padding_and_of_the_other_samples) {
  const auto a = random_matrix(12, 11), b = random_matrix(8, 12);
  const auto together = MatrixCase({a, b}, 2, 5).ranges(4);
  const auto first = MatrixCase({a}, 2).ranges(4);
  auto second = MatrixCase({b}, 2);
  second.keys = {11};
  EXPECT_EQ(together[0].largest, first[0].largest);
  EXPECT_EQ(together[1].smallest, second.ranges(4)[0].smallest);
}

TEST(SingularValues, of_a_filler_or_of_what_is_not_finite_are_not_numbers) {
  MatrixXd bad = random_matrix(6, 13);
  bad(2, 3) = NAN;
  const auto ranges = MatrixCase({random_matrix(6, 14), bad, MatrixXd(0, 0)}, 1).ranges(6);
  EXPECT_TRUE(std::isfinite(ranges[0].smallest));
  EXPECT_TRUE(std::isnan(ranges[1].largest) && std::isnan(ranges[1].smallest_error));
  EXPECT_TRUE(std::isnan(ranges[2].largest));
  EXPECT_EQ(ranges[2].steps, 0);
  EXPECT_THROW(range_of(bad, 0), BadInput);
}

}  // namespace
}  // namespace fluxformer::derivatives
