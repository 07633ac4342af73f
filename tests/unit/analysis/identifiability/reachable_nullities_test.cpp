// Freedom within the reach of a soft-max, against full Jacobians and finite differences.

#include "analysis/identifiability/reachable_nullities.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "tests/unit/analysis/identifiability/random_heads.hpp"

namespace fluxformer::identifiability {
namespace {

using namespace test;
using Eigen::MatrixXd;

/// diag(a) - a a^T of the keys that row i sees, 0 for others.
MatrixXd softmax_matrix(const AttentionHead& head, Index i) {
  const Eigen::VectorXd a = head.weights.row(i).transpose();
  MatrixXd c = -a * a.transpose();
  c.diagonal() += a;
  return c;
}

/// Tangent of (Q, K) -> A (n^2 rows) or -> A T (n d rows), written out; columns are the entries of dQ, then dK.
MatrixXd joint_jacobian(const AttentionHead& head, const MatrixXd& t) {
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

int joint_by_hand(const AttentionHead& head) {
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
    for (const int row : rows) ++hits[static_cast<std::size_t>(row)];
  }
  // 800 expected, standard deviation sqrt(2000 * 0.4 * 0.6) = 22; five of them.
  for (const int count : hits) EXPECT_NEAR(count, 800, 110);
}

}  // namespace
}  // namespace fluxformer::identifiability
