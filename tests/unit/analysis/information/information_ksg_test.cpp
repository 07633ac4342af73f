// Nearest neighbours: known Gaussians, and every count against a brute-force search over all pairs.

#include <gtest/gtest.h>

#include <algorithm>

#include "analysis/information/ksg.hpp"
#include "base/error.hpp"
#include "tests/unit/analysis/information/information_samples.hpp"

namespace fluxformer::information {
namespace {

using namespace test;

/// psi of a whole number.
double digamma(std::size_t n) {
  double sum = -std::numbers::egamma;
  for (std::size_t i = 1; i < n; ++i) sum += 1.0 / static_cast<double>(i);
  return sum;
}

double distance(const Rows& x, Eigen::Index i, Eigen::Index j) {
  return (x.row(i) - x.row(j)).cwiseAbs().maxCoeff();
}

/// Equation 8 of Kraskov et al., without ties.
double by_all_pairs(const Rows& a, const Rows& b, std::size_t k) {
  const auto n = a.rows();
  double sum = 0;
  for (Eigen::Index i = 0; i < n; ++i) {
    std::vector<double> far;
    for (Eigen::Index j = 0; j < n; ++j)
      if (j != i) far.push_back(std::max(distance(a, i, j), distance(b, i, j)));
    std::nth_element(far.begin(), far.begin() + static_cast<long>(k - 1), far.end());
    std::size_t of_a = 0, of_b = 0;
    for (Eigen::Index j = 0; j < n; ++j) {
      of_a += j != i && distance(a, i, j) < far[k - 1];
      of_b += j != i && distance(b, i, j) < far[k - 1];
    }
    sum += digamma(of_a + 1) + digamma(of_b + 1);
  }
  return digamma(k) + digamma(static_cast<std::size_t>(n)) - sum / static_cast<double>(n);
}

/// Equation 2 of Ross, without ties, for labels that all occur more than k times.
double by_all_pairs(const Rows& t, const std::vector<int>& y, std::size_t k) {
  const auto n = t.rows();
  double sum = 0;
  for (Eigen::Index i = 0; i < n; ++i) {
    std::vector<double> far;
    const int label = y[i];
    for (Eigen::Index j = 0; j < n; ++j)
      if (j != i && y[j] == label) far.push_back(distance(t, i, j));
    std::nth_element(far.begin(), far.begin() + static_cast<long>(k - 1), far.end());
    std::size_t within = 0;
    for (Eigen::Index j = 0; j < n; ++j) within += j != i && distance(t, i, j) <= far[k - 1];
    sum += digamma(far.size() + 1) + digamma(within);
  }
  return digamma(k) + digamma(static_cast<std::size_t>(n)) - sum / static_cast<double>(n);
}

TEST(Ksg, of_correlated_gaussians_is_minus_half_ln_one_minus_rho_squared) {
  constexpr int count = 2000;
  const Rows z = normal_rows(count, 2, 1);
  const Rows a = z.col(0);
  for (const double rho : {0.0, 0.5, 0.9}) {
    const Rows b = rho * z.col(0) + std::sqrt(1 - rho * rho) * z.col(1);
    for (const std::size_t k : {3, 6}) {
      const auto found = ksg_information(points_of(a), points_of(b), k);
      EXPECT_NEAR(found, -0.5 * std::log(1 - rho * rho), 0.05) << rho << ' ' << k;
    }
  }
}

TEST(Ksg, of_two_independent_pairs_is_their_sum) {
  const Rows z = normal_rows(3000, 4, 2);
  const Rows a = z.leftCols(2);
  const Rows b = 0.6 * z.leftCols(2) + 0.8 * z.rightCols(2);
  // Twice the information of one pair, with a third of the samples per dimension: twice the tolerance.
  EXPECT_NEAR(ksg_information(points_of(a), points_of(b), 4), -std::log(1 - 0.36), 0.1);
}

TEST(Ksg, through_trees_is_the_search_through_all_pairs) {
  // Both components of every pair matter, so that a neighbour missed by the tree changes the value.
  for (const auto& [of_a, of_b] : {std::pair{1, 1}, std::pair{2, 1}, std::pair{3, 4}, std::pair{10, 2}}) {
    constexpr int count = 400;
    const Rows z = normal_rows(count, of_a + of_b, 3);
    // Deviations between 0.8 and 1.2: nothing is scaled, and distances equal those of the reference bit for
    // bit.
    const Rows a = z.leftCols(of_a);
    const Rows b = 0.7 * (z.rightCols(of_b).colwise() + z.col(0));
    for (const std::size_t k : {1, 5})
      EXPECT_NEAR(ksg_information(points_of(a), points_of(b), k), by_all_pairs(a, b, k), 1e-12)
          << of_a << ' ' << of_b << ' ' << k;
    const auto y = random_labels(count, 3, 4);
    for (const std::size_t k : {1, 5})
      EXPECT_NEAR(ksg_information(points_of(a), y, k), by_all_pairs(a, y, k), 1e-12) << of_a << ' ' << k;
  }
}

TEST(Ksg, of_a_state_and_its_label_is_the_integral) {
  // T = +-1 + N(0, 1), two labels: h(T) by quadrature. Deviation of the estimate: about 1 / sqrt(3000).
  constexpr int count = 3000;
  const auto y = random_labels(count, 2, 5);
  Rows t = normal_rows(count, 1, 6);
  for (int i = 0; i < count; ++i) t(i, 0) += y[i] == 0 ? -1 : 1;
  const double truth =
      entropy_on_line([](double x) { return 0.5 * (normal_density(x, -1, 1) + normal_density(x, 1, 1)); },
                      -12, 12) -
      normal_entropy(1);
  EXPECT_NEAR(ksg_information(points_of(t), y, 3), truth, 0.05);
}

TEST(Ksg, of_classes_far_apart_is_the_entropy_of_the_label) {
  auto y = random_labels(1000, 4, 7);
  Rows t = normal_rows(1000, 2, 8);
  for (int i = 0; i < 1000; ++i) t(i, 0) += 1000 * y[i];
  // The k nearest of all are those of the label: psi(N) - <psi(N_y)> is left, H(Y) but for 3 / 2N.
  const LabelGroups groups(y);
  double expected = digamma(1000);
  for (Index g = 0; g < groups.groups(); ++g) expected -= groups.share(g) * digamma(groups.size(g));
  const double found = ksg_information(points_of(t), y, 3);
  EXPECT_NEAR(found, expected, 1e-12);
  EXPECT_NEAR(found, groups.entropy(), 2e-3);
}

TEST(Ksg, of_labels_that_tell_nothing_is_about_zero) {
  const Rows t = normal_rows(2000, 3, 9);
  EXPECT_NEAR(ksg_information(points_of(t), random_labels(2000, 5, 10), 3), 0, 0.05);
}

TEST(Ksg, is_exact_for_states_that_coincide) {
  // A = B uniform on 4 values: psi(100) - psi(25) where the plug-in says ln 4; a constant carries no
  // information.
  Rows a(100, 1), constant(100, 1);
  std::vector<int> y;
  for (int i = 0; i < 100; ++i) a(i, 0) = 0.1 * (i % 4), constant(i, 0) = 0.7, y.push_back(i % 4);
  const double expected = digamma(100) - digamma(25);
  EXPECT_NEAR(ksg_information(points_of(a), points_of(a), 3), expected, 1e-12);
  EXPECT_NEAR(ksg_information(points_of(a), y, 3), expected, 1e-12);
  EXPECT_NEAR(ksg_information(points_of(constant), points_of(a), 3), 0, 1e-12);
  EXPECT_NEAR(ksg_information(points_of(constant), y, 3), 0, 1e-12);
}

TEST(Ksg, leaves_out_labels_that_occur_once_and_uses_fewer_neighbours_for_rare_ones) {
  Rows t = normal_rows(203, 1, 11);
  auto y = random_labels(203, 2, 12);
  y[200] = 7;
  y[201] = y[202] = 8;
  const auto found = ksg_information(points_of(t), y, 3);
  y[200] = 0;
  Rows without = t;
  without.row(200) = t.row(202);
  auto fewer = y;
  fewer[200] = 8;
  EXPECT_NEAR(found, ksg_information({without.data(), 202, 1}, {fewer.data(), 202}, 3), 1e-12);
  std::vector<int> unique(203);
  std::iota(unique.begin(), unique.end(), 0);
  EXPECT_THROW(ksg_information(points_of(t), unique, 3), BadInput);
}

TEST(Ksg, depends_neither_on_order_nor_on_scale_at_all) {
  const Rows z = normal_rows(300, 4, 13);
  const Rows a = z.leftCols(2), b = z.leftCols(2) + 0.5 * z.rightCols(2);
  const auto y = random_labels(300, 3, 14);
  const double pair = ksg_information(points_of(a), points_of(b), 3);
  const double label = ksg_information(points_of(a), y, 3);
  EXPECT_EQ(pair, ksg_information(points_of(permuted(a)), points_of(permuted(b)), 3));
  EXPECT_EQ(label, ksg_information(points_of(permuted(a)), permuted(y), 3));
  const Rows small = std::ldexp(1.0, -200) * a;  // eighth powers of these would be zero
  EXPECT_EQ(pair, ksg_information(points_of(small), points_of(b), 3));
  EXPECT_EQ(label, ksg_information(points_of(small), y, 3));
}

TEST(Ksg, refuses_more_neighbours_than_there_are) {
  const Rows t = normal_rows(5, 1, 15), other = normal_rows(6, 1, 16);
  EXPECT_THROW(ksg_information(points_of(t), points_of(t), 5), BadInput);
  EXPECT_THROW(ksg_information(points_of(t), points_of(t), 0), BadInput);
  EXPECT_THROW(ksg_information(points_of(t), std::vector<int>{0, 0, 0, 1, 1}, 5), BadInput);
  EXPECT_THROW(ksg_information(points_of(t), points_of(other), 2), BadInput);
}

}  // namespace
}  // namespace fluxformer::information
