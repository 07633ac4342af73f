// Nullities of heads whose ranks are known from their shapes or by construction.

#include <gtest/gtest.h>
#include <cmath>
#include <set>

#include "analysis/identifiability/nullities.hpp"
#include "tests/unit/analysis/identifiability/random_heads.hpp"

namespace fluxformer::identifiability {
namespace {

using namespace test;
using Eigen::MatrixXd;

Matrix ones_beside(const Matrix& a) {
  Matrix both(a.rows(), a.cols() + 1);
  both << a, Eigen::VectorXd::Ones(a.rows());
  return both;
}

void expect_nullities(const SampleHead& head, double linear, double simplex) {
  const auto found = nullities(head);
  EXPECT_EQ(found.linear.exact, linear);
  EXPECT_EQ(found.simplex.exact, simplex);
  EXPECT_TRUE(found.linear.certain());
  EXPECT_TRUE(found.simplex.certain());
}

TEST(NumericalRank, counts_values_above_the_threshold_and_tells_the_gap) {
  const Eigen::Vector4d values(8, 2, 1e-3, 0);
  EXPECT_EQ(numerical_rank(values, 1).rank, 2);
  EXPECT_DOUBLE_EQ(numerical_rank(values, 1).margin, 2000);
  EXPECT_EQ(numerical_rank(values, 0).rank, 3);
  EXPECT_TRUE(std::isinf(numerical_rank(values, 0).margin));
  EXPECT_EQ(numerical_rank(values, 4).margin, 4);
  EXPECT_FALSE(numerical_rank(values, 4).certain());
  EXPECT_EQ(numerical_rank(values.head(2), 1e-3).margin, 2000);  // none left: over the threshold
  EXPECT_EQ(numerical_rank(Eigen::Vector2d::Zero(), 0).rank, 0);
  EXPECT_TRUE(numerical_rank(Eigen::Vector2d::Zero(), 0).certain());
  EXPECT_FALSE(numerical_rank(Eigen::Vector2d(1, NAN), 0).certain());
  EXPECT_EQ(rank_threshold(values, 4, 10), 80 * 0x1p-52);
}

TEST(Nullities, of_random_heads_are_the_generic_ones) {
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    expect_nullities(random_head(40, 8, 8, seed), 32, 31);
    expect_nullities(random_head(40, 8, 4, seed), 32, 31);
    expect_nullities(random_head(6, 8, 8, seed), 0, 0);
    expect_nullities(random_head(8, 8, 8, seed), 0, 0);
    expect_nullities(random_head(9, 8, 8, seed), 1, 0);  // one token more: identifiable all the same
    expect_nullities(random_head(10, 8, 8, seed), 2, 1);
  }
}

TEST(Nullities, of_two_equal_tokens_are_positive_even_for_few_tokens) {
  auto head = random_head(6, 8, 8, 1);
  head.values.row(4) = head.values.row(1);
  expect_nullities(head, 1, 1);
  head.values.row(2) = head.values.row(1);
  expect_nullities(head, 2, 2);
}

TEST(Nullities, count_a_sum_that_the_values_keep_already_once) {
  // A column of V is constant: [T, 1] has the rank of T.
  auto head = random_head(20, 8, 8, 1);
  head.values.col(3).setConstant(-2);
  expect_nullities(head, 12, 12);
}

TEST(Nullities, do_not_depend_on_units) {
  auto head = random_head(20, 8, 8, 2);
  head.values *= 1e-20;
  head.output *= 1e-9;
  expect_nullities(head, 12, 11);
}

TEST(Nullities, of_zero_values_leave_all_but_the_sum_free) {
  auto head = random_head(7, 3, 3, 1);
  head.values.setZero();
  expect_nullities(head, 7, 6);
}

TEST(Nullities, are_those_of_T_where_the_output_projection_loses_rank) {
  auto head = random_head(20, 8, 8, 3);
  head.output.row(5) = head.output.row(2) - head.output.row(1);
  expect_nullities(head, 13, 12);
  head.output = random_matrix(8, 5, 3);  // d < d_v
  expect_nullities(head, 15, 14);
  const Matrix t = transformed(head), compact = compact_values(head);
  ASSERT_EQ(compact.cols(), 5);
  // T and V L have the same Gram matrix of rows; errors of some products of 8 numbers of size 30.
  EXPECT_LT((t * t.transpose() - compact * compact.transpose()).cwiseAbs().maxCoeff(), 1e-12);
}

TEST(FullRowRank, is_decided_by_all_columns_and_relative_to_the_largest_value) {
  Matrix h = random_matrix(4, 20, 1);
  EXPECT_TRUE(has_full_row_rank(h));
  h.leftCols(12).setZero();
  EXPECT_TRUE(has_full_row_rank(h));
  h.row(3) = h.row(1) - 2 * h.row(0);
  EXPECT_FALSE(has_full_row_rank(h));
  EXPECT_FALSE(has_full_row_rank(random_matrix(5, 4, 1)));
  EXPECT_FALSE(has_full_row_rank(Matrix::Zero(2, 3)));
  // The threshold is 3 * 2.2e-16 of the largest value.
  Matrix weak = Matrix::Zero(2, 3);
  weak(0, 0) = 5;
  weak(1, 2) = 5e-14;
  EXPECT_TRUE(has_full_row_rank(weak));
  weak(1, 2) = 5e-17;
  EXPECT_FALSE(has_full_row_rank(weak));
  weak(1, 2) = NAN;
  EXPECT_FALSE(has_full_row_rank(weak));
}

TEST(Nullities, never_exceed_their_epsilon_kin_which_count_small_values_as_zeros) {
  auto head = random_head(12, 4, 4, 1);
  // Orthonormal columns times known values: singular values 1, 5e-3, 5e-5, 5e-8.
  const MatrixXd q = fluxformer::test::orthogonal_factor(random_matrix(12, 12, 9)).leftCols(4);
  head.values = q * Eigen::Vector4d(1, 5e-3, 5e-5, 5e-8).asDiagonal();
  head.output = Matrix::Identity(4, 4);
  const auto found = nullities(head);
  EXPECT_EQ(found.linear.exact, 8);
  EXPECT_EQ(found.linear.epsilon, (std::array<double, 3>{11, 10, 9}));
  const auto values = fluxformer::test::singular_values(with_ones(head.values));
  for (std::size_t e = 0; e < 3; ++e)
    EXPECT_EQ(found.simplex.epsilon[e],
              12 - static_cast<double>((values.array() > nullity_epsilons[e] * values[0]).count()));
}

TEST(Nullities, whose_rank_is_a_matter_of_the_threshold_are_marked) {
  auto head = random_head(12, 4, 4, 1);
  const MatrixXd q = fluxformer::test::orthogonal_factor(random_matrix(12, 12, 9)).leftCols(4);
  head.output = Matrix::Identity(4, 4);
  // The threshold is 12 * 2.2e-16 = 2.7e-15.
  head.values = q * Eigen::Vector4d(1, 1, 1, 1e-14).asDiagonal();
  EXPECT_EQ(nullities(head).linear.exact, 8);
  EXPECT_FALSE(nullities(head).linear.certain());
  EXPECT_TRUE(nullities(head).simplex.exact == 7 || nullities(head).simplex.exact == 8);
}

TEST(Nullities, of_values_that_are_not_finite_are_nan) {
  for (const bool causal : {false, true}) {
    auto head = random_head(6, 4, 4, 1, causal);
    head.values(2, 2) = NAN;
    EXPECT_TRUE(std::isnan(nullities(head).linear.exact));
    EXPECT_TRUE(std::isnan(nullities(head).simplex.epsilon[1]));
    EXPECT_FALSE(nullities(head).linear.certain());
    EXPECT_TRUE(std::isnan(excess_nullity({head, head}).linear));
  }
}

TEST(Nullities, of_causal_heads_are_means_over_what_each_row_sees) {
  // Row i has i + 1 tokens: linear max(0, i + 1 - d_v), simplex max(0, i - d_v).
  const auto found = nullities(random_head(20, 8, 8, 4, true));
  EXPECT_DOUBLE_EQ(found.linear.exact, 12 * 13 / 2 / 20.0);
  EXPECT_DOUBLE_EQ(found.simplex.exact, 11 * 12 / 2 / 20.0);
  expect_nullities(random_head(8, 8, 8, 4, true), 0, 0);
  const auto nine = nullities(random_head(9, 8, 8, 4, true));
  EXPECT_DOUBLE_EQ(nine.linear.exact, 1 / 9.0);
  EXPECT_EQ(nine.simplex.exact, 0);
}

TEST(Nullities, of_causal_heads_equal_those_of_every_row_alone) {
  auto head = random_head(17, 5, 4, 5, true);
  head.values.row(3) = head.values.row(1);
  head.values.row(6) = 2 * head.values.row(0) - head.values.row(5);
  head.values.row(9).setZero();
  double linear = 0, simplex = 0;
  for (Index rows = 1; rows <= 17; ++rows) {
    linear += static_cast<double>(rows - reference_rank(head.values.topRows(rows))) / 17;
    simplex += static_cast<double>(rows - reference_rank(ones_beside(head.values).topRows(rows))) / 17;
  }
  EXPECT_NEAR(nullities(head).linear.exact, linear, 1e-14);
  EXPECT_NEAR(nullities(head).simplex.exact, simplex, 1e-14);
}

TEST(Nullities, of_causal_heads_take_epsilon_relative_to_the_whole_matrix) {
  auto head = random_head(11, 4, 4, 5, true);
  head.values *= Eigen::Vector4d(1, 1e-2, 3e-5, 3e-8).asDiagonal();
  head.output = Matrix::Identity(4, 4);
  const auto whole = fluxformer::test::singular_values(head.values);
  const auto found = nullities(head);
  for (std::size_t e = 0; e < 3; ++e) {
    double expected = 0;
    for (Index rows = 1; rows <= 11; ++rows) {
      const auto values = fluxformer::test::singular_values(head.values.topRows(rows));
      const auto large = (values.array() > nullity_epsilons[e] * whole[0]).count();
      expected += static_cast<double>(rows - large) / 11;
    }
    EXPECT_NEAR(found.linear.epsilon[e], expected, 1e-14);
  }
  EXPECT_GT(found.linear.epsilon[0], found.linear.epsilon[1]);
  EXPECT_GT(found.linear.epsilon[1], found.linear.epsilon[2]);
  EXPECT_GT(found.linear.epsilon[2], found.linear.exact);
}

TEST(Nullities, of_the_first_tokens_are_those_of_a_shorter_sample) {
  const auto head = random_head(40, 8, 8, 6);
  const auto cut = head.first(12);
  expect_nullities(cut, 4, 3);
  EXPECT_EQ(cut.tokens(), 12);
  EXPECT_EQ(cut.weights.cols(), 12);
  EXPECT_LT((cut.weights.rowwise().sum().array() - 1).abs().maxCoeff(), 1e-15 * 12);
  // A soft-max over fewer keys is the cut one, renormalised: exact up to the rounding of a few operations.
  EXPECT_LT((cut.weights - softmax_of(cut.queries, cut.keys, false)).cwiseAbs().maxCoeff(), 1e-14);
  EXPECT_EQ(head.first(40).values, head.values);
  EXPECT_TRUE(random_head(9, 3, 3, 1, true).first(4).causal);
}

// Heads of one layer, whose H are the rows of W_O.
LayerHeads layer_of(const Matrix& projection, Index n, Index d_v, bool causal = false) {
  LayerHeads heads;
  for (Index h = 0; h * d_v < projection.rows(); ++h) {
    heads.push_back(random_head(n, d_v, 3, static_cast<std::uint64_t>(20 + h), causal));
    heads.back().output = projection.middleRows(h * d_v, d_v);
  }
  return heads;
}

/// Both excesses for the first `rows` tokens from the matrices as they are defined.
std::pair<int, int> excess_by_hand(const LayerHeads& heads, Index rows) {
  const auto count = static_cast<Index>(heads.size()), d = heads.front().output.cols();
  Matrix stack = Matrix::Zero(rows * count, d + count);
  int linear = 0, simplex = 0;
  for (Index h = 0; h < count; ++h) {
    const Matrix t = transformed(heads[h]).topRows(rows);
    linear += reference_rank(t);
    simplex += reference_rank(ones_beside(t));
    stack.block(h * rows, 0, rows, d) = t;
    stack.block(h * rows, d + h, rows, 1).setOnes();
  }
  return {linear - reference_rank(stack.leftCols(d)), simplex - reference_rank(stack)};
}

TEST(ExcessNullity, is_zero_for_an_invertible_projection) {
  const auto heads = layer_of(random_matrix(12, 12, 7), 15, 4);
  const auto found = excess_nullity(heads);
  EXPECT_TRUE(heads_add_up(heads));
  EXPECT_EQ(excess_by_hand(heads, 15), std::make_pair(0, 0));
  EXPECT_EQ(found.linear, 0);
  EXPECT_EQ(found.simplex, 0);
}

TEST(ExcessNullity, is_the_lost_rank_of_a_singular_projection) {
  Matrix projection = random_matrix(12, 12, 7);
  projection.row(11) = projection.row(0) + projection.row(5);  // rank 11
  const auto heads = layer_of(projection, 15, 4);
  EXPECT_FALSE(heads_add_up(heads));
  EXPECT_EQ(excess_nullity(heads).linear, 1);
  EXPECT_EQ(excess_nullity(heads).simplex, 1);
  EXPECT_EQ(excess_by_hand(heads, 15), std::make_pair(1, 1));
}

TEST(ExcessNullity, of_heads_wider_than_the_output_and_of_equal_heads) {
  const auto wide = layer_of(random_matrix(12, 7, 8), 15, 4);  // rank 7 for 12 = 3 * 4
  EXPECT_EQ(excess_nullity(wide).linear, 5);
  EXPECT_EQ(excess_nullity(wide).simplex, excess_by_hand(wide, 15).second);
  LayerHeads twice{random_head(15, 4, 3, 1), random_head(15, 4, 3, 1)};
  EXPECT_EQ(excess_nullity(twice).linear, 4);
}

TEST(ExcessNullity, of_causal_heads_is_the_mean_over_rows) {
  Matrix projection = random_matrix(8, 8, 7);
  projection.row(7) = projection.row(0);
  const auto heads = layer_of(projection, 9, 4, true);
  double linear = 0, simplex = 0;
  for (Index rows = 1; rows <= 9; ++rows) {
    linear += excess_by_hand(heads, rows).first / 9.0;
    simplex += excess_by_hand(heads, rows).second / 9.0;
  }
  EXPECT_GT(linear, 0);
  EXPECT_NEAR(excess_nullity(heads).linear, linear, 1e-14);
  EXPECT_NEAR(excess_nullity(heads).simplex, simplex, 1e-14);
}

// Freedom within the reach of a soft-max, against full Jacobians and finite differences.

using namespace test;
using Eigen::MatrixXd;

/// diag(a) - a a^T of the keys that row i sees, 0 for others.
MatrixXd softmax_matrix(const SampleHead& head, Index i) {
  const Eigen::VectorXd a = head.weights.row(i).transpose();
  MatrixXd c = -a * a.transpose();
  c.diagonal() += a;
  return c;
}

/// Tangent of (Q, K) -> A (n^2 rows) or -> A T (n d rows), written out; columns are the entries of dQ, then
/// dK.
MatrixXd joint_jacobian(const SampleHead& head, const MatrixXd& t) {
  const Index n = head.tokens(), d_k = head.keys.cols(), d = t.cols();
  MatrixXd jacobian = MatrixXd::Zero(n * d, 2 * n * d_k);
  for (Index i = 0; i < n; ++i) {
    const MatrixXd ct = softmax_matrix(head, i) * t;
    for (Index c = 0; c < d_k; ++c) {
      jacobian.block(i * d, i * d_k + c, d, 1) = ct.transpose() * head.keys.col(c);
      for (Index j = 0; j < n; ++j)
        jacobian.block(i * d, n * d_k + j * d_k + c, d, 1) = head.queries(i, c) * ct.row(j).transpose();
    }
  }
  return jacobian;
}

int joint_by_hand(const SampleHead& head) {
  return reference_rank(joint_jacobian(head, MatrixXd::Identity(head.tokens(), head.tokens()))) -
         reference_rank(joint_jacobian(head, head.values));
}

TEST(SoftmaxTangent, is_the_derivative_of_the_soft_max) {
  const auto head = random_head(12, 4, 5, 1);
  const Matrix tangent = softmax_tangent(head.weights.row(3), head.keys);
  const double step = 1e-5;
  for (Index c = 0; c < 5; ++c) {
    Matrix up = head.queries, down = head.queries;
    up(3, c) += step * std::sqrt(5.0);  // the scores have a factor 1/sqrt(d_k)
    down(3, c) -= step * std::sqrt(5.0);
    const Eigen::RowVectorXd difference =
        (softmax_of(up, head.keys, false).row(3) - softmax_of(down, head.keys, false).row(3)) / (2 * step);
    // step^2/6 times a third derivative of some |K|^3 < 50, and round-off 1e-16 / step.
    EXPECT_LT((difference.transpose() - tangent.col(c)).cwiseAbs().maxCoeff(), 1e-8);
  }
}

TEST(SoftmaxTangent, has_no_cancellation_where_one_weight_is_nearly_1) {
  // Two keys that differ by 1: the tangent is (p, -p)(1 - p) with p = 1e-17, though 1 - p rounds to 1.
  Eigen::RowVector2d a(1, 1e-17);
  Matrix keys(2, 1);
  keys << 1e3, 1e3 + 1;
  const Matrix tangent = softmax_tangent(a, keys);
  EXPECT_NEAR(tangent(0, 0) / -1e-17, 1, 1e-15);
  EXPECT_NEAR(tangent(1, 0) / 1e-17, 1, 1e-15);
}

TEST(ReachableNullities, of_random_heads_are_the_generic_ones) {
  const auto query = [](Index n, Index d_v, Index d_k, int row = 2) {
    const auto head = random_head(n, d_v, d_k, 3);
    return ReachableNullities(head).query(row).exact;
  };
  EXPECT_EQ(query(40, 8, 8), 0);
  EXPECT_EQ(query(40, 8, 4), 0);
  EXPECT_EQ(query(6, 8, 8), 0);
  EXPECT_EQ(query(40, 4, 8), 4);  // min(8, 39) - 4
  EXPECT_EQ(query(6, 3, 8), 2);   // min(8, 5) - 3
}

TEST(ReachableNullities, equal_those_of_the_written_out_tangent_and_mark_what_is_certain) {
  auto head = random_head(10, 6, 7, 4);
  head.values.col(5) = head.values.col(1) + head.values.col(0);
  head.keys.row(4) = head.keys.row(3);
  const ReachableNullities reach(head);
  for (int row = 0; row < 10; ++row) {
    const MatrixXd tangent = softmax_matrix(head, row) * head.keys;
    const auto found = reach.query(row);
    EXPECT_EQ(found.exact, reference_rank(tangent) - reference_rank(transformed(head).transpose() * tangent));
    EXPECT_TRUE(found.certain());
    EXPECT_GE(found.epsilon[0], found.epsilon[1]);
    EXPECT_GE(found.epsilon[2], found.exact);
  }
}

TEST(ReachableNullities, with_equal_values_leave_the_whole_reach_of_a_query) {
  auto head = random_head(12, 4, 5, 5);
  head.values.rowwise() = Eigen::RowVector4d(1, 2, 3, 4);
  const auto found = ReachableNullities(head).query(0);
  EXPECT_EQ(found.exact, 5);
  head.keys.rowwise() = Eigen::RowVectorXd::Constant(5, 0.3);  // no query changes anything
  EXPECT_EQ(ReachableNullities(head).query(0).exact, 0);
}

TEST(ReachableNullities, of_values_that_see_no_change_are_the_whole_reach_with_epsilon_too) {
  auto head = random_head(12, 4, 5, 5);
  MatrixXd reach = random_matrix(12, 12, 55);
  reach.leftCols(5) = softmax_matrix(head, 0) * head.keys;
  // Columns of Q beyond the fifth are orthogonal to the tangent: T^T D is round-off, though not 0.
  head.values = fluxformer::test::orthogonal_factor(reach).rightCols(4);
  const auto found = ReachableNullities(head).query(0);
  EXPECT_EQ(found.exact, 5);
  EXPECT_EQ(found.epsilon, (std::array<double, 3>{5, 5, 5}));
}

TEST(ReachableNullities, do_not_depend_on_a_large_common_value) {
  auto head = random_head(40, 8, 8, 3);
  // Relative to |T| = 2e11 all that differs between tokens would be round-off.
  head.values = (1e-3 * head.values).array() + 1e10;
  EXPECT_EQ(ReachableNullities(head).query(2).exact, 0);
  EXPECT_EQ(ReachableNullities(head).joint().exact, 248);
}

TEST(ReachableNullities, epsilon_ones_count_weak_directions_of_the_output) {
  auto head = random_head(30, 4, 4, 6);
  head.values.col(0) *= 1e-4;
  head.output = Matrix::Identity(4, 4);
  const auto found = ReachableNullities(head).query(1);
  EXPECT_EQ(found.exact, 0);
  EXPECT_EQ(found.epsilon, (std::array<double, 3>{1, 1, 0}));
}

TEST(ReachableNullities, of_causal_rows_take_what_they_see) {
  const auto head = random_head(20, 4, 6, 7, true);
  const ReachableNullities reach(head);
  for (const int row : {0, 3, 5, 8, 19})
    EXPECT_EQ(reach.query(row).exact, std::max(0, std::min(6, row) - std::min(4, row))) << row;
  EXPECT_DOUBLE_EQ(reach.query(std::vector<int>{0, 5, 19}).exact, 1);  // (0 + 1 + 2) / 3
}

TEST(JointNullity, of_forty_tokens_is_248_where_queries_alone_have_none) {
  const auto head = random_head(40, 8, 8, 8);
  const ReachableNullities reach(head);
  EXPECT_EQ(reach.joint().exact, 248);
  EXPECT_TRUE(reach.joint().certain());
  for (const int row : {0, 20, 39}) EXPECT_EQ(reach.query(row).exact, 0);
}

TEST(JointNullity, equals_that_of_the_written_out_jacobian) {
  // d_v below, at and above d_k, and beyond 2 d_k, where nothing is free.
  for (const Index d_v : {2, 3, 4, 5, 7}) {
    const auto head = random_head(9, d_v, 3, 9);
    const auto found = ReachableNullities(head).joint();
    EXPECT_EQ(found.exact, joint_by_hand(head)) << d_v;
    EXPECT_EQ(found.exact, std::max<Index>(0, 2 * 9 * 3 - 9 - 3 - 9 * d_v)) << d_v;
  }
  auto special = random_head(8, 4, 3, 10);
  special.keys.col(2) = special.keys.col(0) + Eigen::VectorXd::Ones(8);
  special.queries.col(1) = special.queries.col(2);
  special.values.row(3) = special.values.row(5);
  EXPECT_EQ(ReachableNullities(special).joint().exact, joint_by_hand(special));
}

TEST(JointNullity, of_causal_heads_equals_that_of_the_written_out_jacobian) {
  for (const Index d_v : {2, 3, 5}) {
    const auto head = random_head(8, d_v, 3, 11, true);
    EXPECT_EQ(ReachableNullities(head).joint().exact, joint_by_hand(head)) << d_v;
  }
}

// Words that repeat in a model with rotary positions have equal values, and keys that small angles tell apart: the
// directions in which scores move are then known to less than round-off.
TEST(JointNullity, of_equal_tokens_with_almost_equal_keys_is_certain) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    auto head = random_head(9, 6, 6, seed, true);
    for (const auto& [token, word] : {std::pair{2, 1}, {5, 0}, {7, 0}, {8, 1}}) {
      head.values.row(token) = head.values.row(word);
      head.keys.row(token) = head.keys.row(word) + 1e-3 * head.keys.row(token);
    }
    head.weights = softmax_of(head.queries, head.keys, true);
    const auto found = ReachableNullities(head).joint();
    EXPECT_EQ(found.exact, joint_by_hand(head)) << seed;
    EXPECT_TRUE(found.certain()) << seed;
  }
}

// A line that begins with the same word twice: behind the first layer their values are equal but for round-off.
TEST(ReachableNullities, of_first_tokens_that_differ_by_round_off_are_those_of_equal_ones) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    auto head = random_head(7, 4, 3, seed, true);
    head.values.row(1) = head.values.row(0);
    const ReachableNullities equal(head);
    EXPECT_EQ(equal.query(1).exact, 1);
    EXPECT_EQ(equal.joint().exact, joint_by_hand(head));
    for (Index c = 0; c < 4; ++c) head.values(1, c) *= 1 + (c % 2 == 0 ? 1 : -1) * 0x1p-50;
    const ReachableNullities almost(head);
    for (const int row : {1, 2, 6}) EXPECT_EQ(almost.query(row).exact, equal.query(row).exact) << row;
    EXPECT_EQ(almost.joint().exact, equal.joint().exact);
    EXPECT_TRUE(almost.query(1).certain() && almost.joint().certain());
  }
}

TEST(ReachableNullities, of_numbers_that_are_not_finite_are_nan) {
  auto head = random_head(6, 4, 4, 1);
  head.keys(2, 2) = NAN;
  const ReachableNullities reach(head);
  EXPECT_TRUE(std::isnan(reach.query(0).exact));
  EXPECT_TRUE(std::isnan(reach.query(std::vector<int>{0, 1}).margin));
  EXPECT_TRUE(std::isnan(reach.joint().exact));
}

TEST(SampledRows, are_different_and_all_equally_likely) {
  const RandomStream stream(1, "rows");
  EXPECT_EQ(sampled_rows(5, 8, stream), (std::vector<int>{0, 1, 2, 3, 4}));
  std::vector<int> hits(20, 0);
  for (std::uint64_t k = 0; k < 2000; ++k) {
    const auto rows = sampled_rows(20, 8, stream.item(k));
    EXPECT_EQ(std::set<int>(rows.begin(), rows.end()).size(), 8u);
    for (const int row : rows) ++hits[row];
  }
  // 800 expected, standard deviation sqrt(2000 * 0.4 * 0.6) = 22; five of them.
  for (const int count : hits) EXPECT_NEAR(count, 800, 110);
}

}  // namespace
}  // namespace fluxformer::identifiability
