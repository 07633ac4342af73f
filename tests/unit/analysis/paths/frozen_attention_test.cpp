// Attention columns of both forms, and attentioned inputs against products of full matrices.

#include "analysis/paths/frozen_attention.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.hpp"
#include "base/random.hpp"
#include "tests/support/reached.hpp"

namespace fluxformer::paths {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr Index dimension = 9, tokens = 7;

MatrixXd random_matrix(Index rows, Index columns, std::uint64_t seed) {
  const RandomStream stream(seed, "attention paths of a test");
  MatrixXd a(rows, columns);
  for (Index i = 0; i < a.size(); ++i) a.data()[i] = stream.normal(static_cast<std::uint64_t>(i));
  return a;
}

/// Logits of the order of 1.
FrozenHead random_head(std::uint64_t seed) {
  if (seed % 2 == 0) return BilinearHead{random_matrix(dimension, dimension, seed) / dimension};
  return QueryKeyHead{random_matrix(5, dimension, 1000 + seed) / 3, random_matrix(5, dimension, seed) / 3};
}

double logit(const BilinearHead& head, const VectorXd& key, const VectorXd& query) {
  double sum = 0;
  for (Index i = 0; i < key.size(); ++i)
    for (Index j = 0; j < query.size(); ++j) sum += key[i] * head.weights(i, j) * query[j];
  return sum;
}

double logit(const QueryKeyHead& head, const VectorXd& key, const VectorXd& query) {
  double sum = 0;
  for (Index g = 0; g < head.key.rows(); ++g) sum += head.key.row(g).dot(key) * head.query.row(g).dot(query);
  return sum / std::sqrt(static_cast<double>(head.key.rows()));
}

/// All of A, entry by entry.
MatrixXd plain_attention(const FrozenHead& head, const MatrixXd& x) {
  MatrixXd a(x.cols(), x.cols());
  for (Index t = 0; t < x.cols(); ++t) {
    for (Index s = 0; s < x.cols(); ++s)
      a(s, t) = std::exp(std::visit([&](const auto& one) { return logit(one, x.col(s), x.col(t)); }, head));
    a.col(t) /= a.col(t).sum();
  }
  return a;
}

FrozenAttention random_attention(const std::vector<int>& heads, ReadOut read_out, std::uint64_t seed) {
  std::vector<std::vector<FrozenHead>> layers(heads.size());
  for (std::size_t l = 0; l < heads.size(); ++l)
    for (int h = 0; h < heads[l]; ++h) layers[l].push_back(random_head(seed++));
  return {std::move(layers), read_out};
}

/// x A^1 A^2 ... A^L, read out at the end.
VectorXd plain_input(const FrozenAttention& attention, ReadOut read_out, int path, const MatrixXd& x) {
  const auto heads = heads_of_path(path, attention.heads());
  MatrixXd z = x;
  for (std::size_t l = 0; l < heads.size(); ++l) {
    const MatrixXd a = plain_attention(attention.head(static_cast<int>(l), heads[l]), x);
    z = (z * a).eval();
  }
  if (read_out == ReadOut::last_token) return z.rightCols(1);
  return z.rowwise().mean();
}

// Sums of at most D terms of the order of 1 in logits and in each product: some tens of round-offs.
constexpr double round_off = 1e-13;

TEST(FrozenAttention, is_the_softmax_over_keys) {
  const MatrixXd x = random_matrix(dimension, tokens, 1);
  for (const std::uint64_t seed : {2, 3}) {
    const auto head = random_head(seed);
    const MatrixXd a = attention_columns(head, x, x), expected = plain_attention(head, x);
    EXPECT_LT((a - expected).cwiseAbs().maxCoeff(), round_off);
    EXPECT_GT((a.transpose() - expected).cwiseAbs().maxCoeff(), 0.01);  // keys and queries do differ
  }
}

// Numbers of at most 1 are divided by their sum: a round-off for each.
TEST(FrozenAttention, columns_sum_to_one) {
  const MatrixXd x = random_matrix(dimension, tokens, 1);
  for (const double scale : {0.0, 1.0, 100.0}) {
    const BilinearHead head{scale * random_matrix(dimension, dimension, 2)};
    const MatrixXd a = attention_columns(head, x, x);
    EXPECT_LT((a.colwise().sum().array() - 1).abs().maxCoeff(), 2.3e-16 * tokens);
    EXPECT_GE(a.minCoeff(), 0);
  }
}

TEST(FrozenAttention, stays_finite_where_exponentials_do_not) {
  const MatrixXd x = random_matrix(dimension, tokens, 1);
  const BilinearHead head{1e6 * random_matrix(dimension, dimension, 2)};
  const MatrixXd a = attention_columns(head, x, x);
  EXPECT_TRUE(a.allFinite());
  // All weight is on the largest logit.
  const MatrixXd logits = x.transpose() * head.weights * x;
  for (Index t = 0; t < tokens; ++t) {
    Index largest = 0;
    logits.col(t).maxCoeff(&largest);
    EXPECT_EQ(a(largest, t), 1);
  }
}

TEST(FrozenAttention, without_weights_is_uniform) {
  const MatrixXd x = random_matrix(dimension, tokens, 1);
  const MatrixXd a = attention_columns(BilinearHead{MatrixXd::Zero(dimension, dimension)}, x, x);
  EXPECT_EQ(a, MatrixXd::Constant(tokens, tokens, 1.0 / tokens));
}

TEST(FrozenAttention, of_queries_and_keys_is_bilinear) {
  const MatrixXd x = random_matrix(dimension, tokens, 1);
  const QueryKeyHead head{random_matrix(5, dimension, 2), random_matrix(5, dimension, 3)};
  const BilinearHead same{head.key.transpose() * head.query / std::sqrt(5.0)};
  // Logits reach some tens, and their round-off is relative to the weight.
  const double error = (attention_columns(head, x, x) - attention_columns(same, x, x)).cwiseAbs().maxCoeff();
  EXPECT_LT(test::reached("queries and keys against their bilinear form", error), round_off);
}

TEST(FrozenAttention, of_some_queries_is_those_columns) {
  const MatrixXd x = random_matrix(dimension, tokens, 1);
  for (const std::uint64_t seed : {2, 3}) {
    const auto head = random_head(seed);
    const MatrixXd all = attention_columns(head, x, x), last = attention_columns(head, x, x.rightCols(2));
    EXPECT_LT((last - all.rightCols(2)).cwiseAbs().maxCoeff(), round_off);
  }
}

TEST(AttentionedInputs, are_products_of_full_matrices) {
  double worst = 0;
  for (const auto read_out : {ReadOut::last_token, ReadOut::average_pooling})
    for (const auto& heads : {std::vector<int>{3}, {2, 3}, {3, 1}, {2, 3, 2}}) {
      const auto attention = random_attention(heads, read_out, 10 * heads.size());
      EXPECT_EQ(attention.heads(), heads);
      EXPECT_EQ(attention.dimension(), dimension);
      const int paths = path_count(heads);
      const auto x = [](int k) {
        return random_matrix(dimension, tokens + k, 50 + static_cast<std::uint64_t>(k));
      };
      const RowMatrix inputs = attentioned_inputs(attention, 3, x);
      ASSERT_EQ(inputs.rows(), 3);
      ASSERT_EQ(inputs.cols(), paths * dimension);
      for (int k = 0; k < 3; ++k)
        for (int path = 0; path < paths; ++path) {
          const VectorXd expected = plain_input(attention, read_out, path, x(k));
          const VectorXd xi = inputs.row(k).segment(path * dimension, dimension).transpose();
          worst = std::max(worst, (xi - expected).norm() / expected.norm());
        }
    }
  EXPECT_LT(test::reached("attentioned inputs against products of full matrices", worst), round_off);
}

TEST(AttentionedInputs, of_one_path_do_not_need_the_other_heads) {
  const auto attention = random_attention({2, 3, 2}, ReadOut::average_pooling, 4);
  const MatrixXd x = random_matrix(dimension, tokens, 1);
  std::vector<double> all(12 * dimension), one(dimension);
  attention.attentioned_inputs(x, all);
  for (int path = 0; path < 12; ++path) {
    const auto h = heads_of_path(path, attention.heads());
    const FrozenAttention alone(
        {{attention.head(0, h[0])}, {attention.head(1, h[1])}, {attention.head(2, h[2])}},
        ReadOut::average_pooling);
    alone.attentioned_inputs(x, one);
    for (std::size_t i = 0; i < dimension; ++i)
      EXPECT_NEAR(one[i], all[static_cast<std::size_t>(path) * dimension + i], round_off);
  }
}

TEST(FrozenAttention, refuses_heads_that_do_not_fit) {
  const auto make = [](std::vector<std::vector<FrozenHead>> layers) {
    return FrozenAttention(std::move(layers), ReadOut::last_token);
  };
  const BilinearHead good{random_matrix(4, 4, 1)};
  EXPECT_NO_THROW(make({{good}, {good, QueryKeyHead{random_matrix(2, 4, 1), random_matrix(2, 4, 2)}}}));
  EXPECT_THROW(make({}), BadInput);
  EXPECT_THROW(make({{good}, {}}), BadInput);
  EXPECT_THROW(make({{BilinearHead{}}}), BadInput);
  EXPECT_THROW(make({{BilinearHead{random_matrix(4, 5, 1)}}}), BadInput);
  EXPECT_THROW(make({{good}, {BilinearHead{random_matrix(5, 5, 1)}}}), BadInput);
  EXPECT_THROW(make({{QueryKeyHead{random_matrix(2, 4, 1), random_matrix(3, 4, 2)}}}), BadInput);
  EXPECT_THROW(make({{QueryKeyHead{random_matrix(2, 4, 1), random_matrix(2, 5, 2)}}}), BadInput);
  EXPECT_THROW(make({{QueryKeyHead{MatrixXd(0, 4), MatrixXd(0, 4)}}}), BadInput);
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THROW(make({{BilinearHead{MatrixXd::Constant(4, 4, nan)}}}), BadInput);
  EXPECT_THROW(make({{QueryKeyHead{MatrixXd::Constant(2, 4, nan), random_matrix(2, 4, 2)}}}), BadInput);
}

TEST(AttentionedInputs, refuse_examples_that_do_not_fit) {
  const auto attention = random_attention({2, 2}, ReadOut::last_token, 4);
  std::vector<double> row(4 * dimension), short_row(4 * dimension - 1);
  const MatrixXd x = random_matrix(dimension, tokens, 1);
  EXPECT_NO_THROW(attention.attentioned_inputs(x, row));
  EXPECT_THROW(attention.attentioned_inputs(x, short_row), BadInput);
  EXPECT_THROW(attention.attentioned_inputs(random_matrix(dimension + 1, tokens, 1), row), BadInput);
  EXPECT_THROW(attention.attentioned_inputs(MatrixXd(dimension, 0), row), BadInput);
  EXPECT_THROW(attentioned_inputs(attention, 0, [&](int) { return x; }), BadInput);
}

}  // namespace
}  // namespace fluxformer::paths
