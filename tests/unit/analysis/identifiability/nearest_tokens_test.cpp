// Nearest tokens: exact where they must be, chance where nothing is known, ties shared.

#include "analysis/identifiability/nearest_tokens.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.hpp"
#include "base/random.hpp"
#include "tests/unit/analysis/identifiability/token_case.hpp"

namespace fluxformer::identifiability {
namespace {

constexpr auto both = {TokenDistance::l2, TokenDistance::cosine};

/// The credit by comparing every pair in long double, for descriptions without ties.
std::vector<double> credit_of_all_pairs(const Matrix& g, const Matrix& e, TokenDistance distance) {
  std::vector<double> credit;
  for (int i = 0; i < g.rows(); ++i) {
    int nearest = -1;
    long double least = INFINITY;
    for (int j = 0; j < e.rows(); ++j) {
      long double square = 0, ge = 0, ee = 0;
      for (int k = 0; k < g.cols(); ++k) {
        const long double a = g(i, k), b = e(j, k);
        square += (a - b) * (a - b), ge += a * b, ee += b * b;
      }
      const long double far = distance == TokenDistance::l2 ? square : -ge / std::sqrt(ee);
      if (far < least) least = far, nearest = j;
    }
    credit.push_back(nearest == i ? 1 : 0);
  }
  return credit;
}

TEST(NearestTokens, of_the_tokens_themselves_are_all_right) {
  // A common part of 1e8 leaves |x|^2 - 2 x.y + |y|^2 no digit of the differences, which are of the order of
  // 1.
  for (const double common : {0.0, 1.0, 1e8}) {
    const Matrix e = normal_matrix(31, 7, 1).array() + common;
    const auto found = nearest_tokens(e, e, TokenDistance::l2);
    EXPECT_EQ(found.rate, 1) << common;
    EXPECT_EQ(found.tied, 0);
    EXPECT_EQ(found.identical, 0);
    EXPECT_EQ(found.chance, 1.0 / 31);
    EXPECT_EQ(nearest_tokens(e, e, TokenDistance::cosine).rate, 1) << common;
  }
}

TEST(NearestTokens, are_those_of_all_pairs) {
  for (const auto distance : both)
    for (unsigned seed = 0; seed < 10; ++seed) {
      const Matrix e = normal_matrix(23, 5, seed), g = e + 0.8 * normal_matrix(23, 5, 100 + seed);
      const auto expected = credit_of_all_pairs(g, e, distance);
      const auto found = nearest_tokens(g, e, distance);
      EXPECT_EQ(found.credit, expected);
      EXPECT_DOUBLE_EQ(found.rate, std::accumulate(expected.begin(), expected.end(), 0.0) / 23);
      EXPECT_GT(found.rate, 2 * found.chance);
      EXPECT_LT(found.rate, 1);
    }
}

TEST(NearestTokens, of_equal_states_are_found_exactly_by_chance) {
  for (const auto distance : both)
    for (const int n : {2, 7, 29, 64}) {
      const Matrix e = normal_matrix(n, 33, 1);
      const Matrix g = normal_matrix(1, 33, 2).replicate(n, 1);
      const auto found = nearest_tokens(g, e, distance);
      EXPECT_EQ(found.rate, found.chance) << n;
      EXPECT_EQ(std::count(found.credit.begin(), found.credit.end(), 1), 1);
    }
}

TEST(NearestTokens, that_are_the_same_word_share_the_credit) {
  for (const auto distance : both) {
    Matrix e = normal_matrix(11, 6, 1);
    e.row(4) = e.row(2), e.row(9) = e.row(2);
    const auto found = nearest_tokens(e, e, distance);
    EXPECT_EQ(found.credit[2], 1.0 / 3);
    EXPECT_EQ(found.credit[4], 1.0 / 3);
    EXPECT_EQ(found.credit[9], 1.0 / 3);
    EXPECT_EQ(found.tied, 3);
    EXPECT_EQ(found.identical, 3);
    EXPECT_DOUBLE_EQ(found.rate, 9.0 / 11);  // 8 of their own and one for the three
    EXPECT_DOUBLE_EQ(found.rate_of_words, 1);
  }
}

TEST(NearestTokens, that_tie_by_symmetry_are_not_the_same_word) {
  Matrix e(3, 1), g(3, 1);
  e << 1, -1, 5;
  g << 0, 0, 5;
  const auto found = nearest_tokens(g, e, TokenDistance::l2);
  EXPECT_EQ(found.credit, (std::vector<double>{0.5, 0.5, 1}));
  EXPECT_EQ(found.tied, 2);
  EXPECT_EQ(found.identical, 0);
  EXPECT_EQ(found.rate_of_words, found.rate);
}

TEST(NearestTokens, by_cosine_do_not_see_lengths_and_by_l2_do) {
  const Matrix e = normal_matrix(20, 8, 1);
  Matrix g = e;
  for (int i = 0; i < 20; ++i) g.row(i) *= std::pow(10.0, i % 5 - 2);
  EXPECT_EQ(nearest_tokens(g, e, TokenDistance::cosine).rate, 1);
  EXPECT_LT(nearest_tokens(g, e, TokenDistance::l2).rate, 0.9);
  EXPECT_EQ(nearest_tokens(unit_rows(g), unit_rows(e), TokenDistance::l2).credit,
            nearest_tokens(g, e, TokenDistance::cosine).credit);
}

TEST(NearestTokens, by_their_norm_alone_are_found_if_only_the_angle_is_lost) {
  const Matrix e = normal_matrix(20, 8, 1);
  Matrix g = normal_matrix(20, 8, 2);
  for (int i = 0; i < 20; ++i) g.row(i) *= e.row(i).norm() / g.row(i).norm();
  EXPECT_EQ(nearest_tokens(row_norms(g), row_norms(e), TokenDistance::l2).rate, 1);
  EXPECT_LT(nearest_tokens(g, e, TokenDistance::cosine).rate, 0.5);
}

TEST(NearestTokens, among_shuffled_descriptions_are_found_by_chance_in_expectation) {
  constexpr int n = 12, samples = 2000;
  RateSums sums;
  for (unsigned s = 0; s < samples; ++s) {
    const Matrix e = normal_matrix(n, 4, s);
    sums.add(nearest_tokens(e, shuffled_rows(e, 1, s), TokenDistance::l2));
  }
  sums.reduce(MPI_COMM_SELF);
  // The fixed points of a random permutation have mean 1 and variance 1: 4 standard errors of 2000.
  EXPECT_NEAR(sums.rate() * n, 1, 4 / std::sqrt(1.0 * samples));
  EXPECT_DOUBLE_EQ(sums.chance(), 1.0 / n);
  // Shuffling moves rows and does not change them.
  const Matrix e = normal_matrix(n, 4, 1), moved = shuffled_rows(e, 1, 1);
  EXPECT_NE(e, moved);
  EXPECT_NEAR(e.sum(), moved.sum(), 1e-12);
  EXPECT_EQ(moved, shuffled_rows(e, 1, 1));
  EXPECT_NE(moved, shuffled_rows(e, 2, 1));
}

TEST(NearestTokens, of_a_state_of_length_0_are_all_tokens_by_cosine) {
  Matrix g = normal_matrix(5, 3, 1);
  const Matrix e = g;
  g.row(2).setZero();
  const auto found = nearest_tokens(g, e, TokenDistance::cosine);
  EXPECT_EQ(found.credit[2], 0.2);
  EXPECT_EQ(found.tied, 1);
  // A description of length 0 is orthogonal: nearer than the opposite, not nearer than an acute angle.
  Matrix two(2, 2), states(2, 2);
  two << 0, 0, 1, 0;
  states << -1, 0, 0.3, 0.9;
  EXPECT_EQ(nearest_tokens(states, two, TokenDistance::cosine).credit, (std::vector<double>{1, 1}));
}

TEST(NearestTokens, of_a_state_that_is_not_finite_do_not_exist) {
  Matrix g = normal_matrix(5, 3, 1);
  const Matrix e = g;
  g(2, 1) = NAN;
  const auto found = nearest_tokens(g, e, TokenDistance::l2);
  EXPECT_TRUE(std::isnan(found.credit[2]));
  EXPECT_TRUE(std::isnan(found.rate));
  EXPECT_EQ(found.credit[3], 1);
}

TEST(NearestTokens, of_other_shapes_are_refused) {
  const Matrix e = normal_matrix(5, 3, 1);
  EXPECT_THROW(nearest_tokens(e, normal_matrix(4, 3, 1), TokenDistance::l2), BadInput);
  EXPECT_THROW(nearest_tokens(e, normal_matrix(5, 2, 1), TokenDistance::l2), BadInput);
  EXPECT_THROW(nearest_tokens(Matrix(0, 3), Matrix(0, 3), TokenDistance::l2), BadInput);
  EXPECT_THROW(nearest_tokens(e, Matrix::Constant(5, 3, NAN), TokenDistance::l2), BadInput);
}

TEST(SmallestDistance, is_that_of_the_nearest_pair_in_units_of_the_mean_length) {
  Matrix u(3, 2);
  u << 0, 3, 4, 0, 4, 1;  // distances 5, sqrt 20, 1; |u|^2 = 9, 16, 17
  EXPECT_DOUBLE_EQ(smallest_distance(u), 1 / std::sqrt(14.0));
  EXPECT_DOUBLE_EQ(smallest_distance(7 * u), smallest_distance(u));
  u.row(0) = u.row(2);
  EXPECT_EQ(smallest_distance(u), 0);
  EXPECT_EQ(smallest_distance(Matrix::Zero(3, 2)), 0);
  EXPECT_EQ(smallest_distance(normal_matrix(1, 3, 1)), INFINITY);
  // Tokens that have nearly met: differences, not |x|^2 - 2 x.y + |y|^2.
  Matrix near = Matrix::Constant(2, 4, 1);
  near(0, 0) += 1e-12;
  EXPECT_NEAR(smallest_distance(near), 0.5e-12, 1e-15);  // 1 + 1e-12 is rounded to 2e-16
}

TEST(RateSums, weigh_every_token_alike) {
  RateSums sums;
  const Matrix e = normal_matrix(9, 4, 1), lost = normal_matrix(1, 4, 2).replicate(3, 1);
  sums.add(nearest_tokens(e, e, TokenDistance::l2));                          // 9 of 9
  sums.add(nearest_tokens(lost, normal_matrix(3, 4, 3), TokenDistance::l2));  // 1 of 3
  Matrix twins = normal_matrix(4, 4, 4);
  twins.row(1) = twins.row(0);
  sums.add(nearest_tokens(twins, twins, TokenDistance::l2));  // 3 of 4
  sums.reduce(MPI_COMM_SELF);
  EXPECT_EQ(sums.samples(), 3);
  EXPECT_EQ(sums.tokens(), 16);
  EXPECT_DOUBLE_EQ(sums.rate(), 13.0 / 16);
  EXPECT_DOUBLE_EQ(sums.rate_of_words(), 14.0 / 16);
  EXPECT_DOUBLE_EQ(sums.chance(), 3.0 / 16);
  EXPECT_DOUBLE_EQ(sums.mean_tokens(), 16.0 / 3);
  EXPECT_DOUBLE_EQ(sums.tied(), 2.0 / 16);
  EXPECT_DOUBLE_EQ(sums.identical(), 2.0 / 16);
}

}  // namespace
}  // namespace fluxformer::identifiability
