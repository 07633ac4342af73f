// What the Hessian of every attention layer must satisfy: symmetry, signs, rank, and the directions that
// change nothing.

#include <gtest/gtest.h>

#include "analysis/decoder/row_maps.hpp"
#include "analysis/dense_matrices.hpp"
#include "tests/unit/analysis/decoder/layer_comparison.hpp"

namespace fluxformer::decoder {
namespace {

using namespace test;

const LayerCase structure_at{5, 4, 3, 2};

Tail structure_mean_squared() {
  return squared_error(structure_at.target_of(0, structure_at.values),
                       structure_at.mean(structure_at.values));
}

AttentionLayer layer_of(Scores scores, const Matrix& x, const Tail& tail = structure_mean_squared(),
                        std::vector<Index> scored = every_row(structure_at.tokens)) {
  return {{x, structure_at.weights(), structure_at.form(scores, Mask::causal)}, tail, std::move(scored)};
}

TEST(LayerHessian, is_symmetric_with_a_positive_semidefinite_outer_part) {
  for (const Scores scores : {Scores::softmax, Scores::linear}) {
    const auto layer = layer_of(scores, structure_at.tokens_of(0));
    for (const HessianTerm part : {HessianTerm::total, HessianTerm::outer, HessianTerm::functional}) {
      const Matrix h = layer.hessian(part);
      EXPECT_LE((h - h.transpose()).norm(), 1e-13 * h.norm());
      // The dense matrix is symmetric by construction; the products are so only if every formula is right.
      const Vector v = fill(40, h.rows(), 1), w = fill(41, h.rows(), 1);
      EXPECT_NEAR(w.dot(layer.product(part, v)), v.dot(layer.product(part, w)),
                  1e-13 * h.norm() * v.norm() * w.norm());
    }
    const auto eigen = symmetric_eigen(layer.hessian(HessianTerm::outer), Eigen::EigenvaluesOnly);
    EXPECT_GE(eigen.values.minCoeff(), -1e-13 * eigen.values.maxCoeff());
  }
}

TEST(LayerHessian, has_an_outer_part_of_rank_at_most_the_number_of_scored_outputs) {
  // Two scored rows with two outputs each; the fifth eigenvalue is round-off.
  const auto layer = layer_of(Scores::softmax, structure_at.tokens_of(0), structure_mean_squared(), {1, 3});
  const auto eigen = symmetric_eigen(layer.hessian(HessianTerm::outer), Eigen::EigenvaluesOnly);
  const Index p = eigen.values.size();
  EXPECT_GT(eigen.values(p - 4), 1e-5 * eigen.values(p - 1));
  EXPECT_LT(eigen.values.head(p - 4).cwiseAbs().maxCoeff(), 1e-13 * eigen.values(p - 1));
}

TEST(LayerHessian, has_no_functional_part_between_values) {
  for (const Scores scores : {Scores::softmax, Scores::linear}) {
    const auto layer = layer_of(scores, structure_at.tokens_of(0));
    const Matrix h = layer.hessian(HessianTerm::functional);
    EXPECT_TRUE((block(h, layer.map(), Weight::value, Weight::value).array() == 0).all());
    if (scores == Scores::linear) {
      EXPECT_TRUE((block(h, layer.map(), Weight::query, Weight::query).array() == 0).all());
      EXPECT_TRUE((block(h, layer.map(), Weight::key, Weight::key).array() == 0).all());
    }
  }
}

// W_Q -> W_Q (I + E), W_K -> W_K (I - E^T) leaves W_Q W_K^T unchanged to first order.
TEST(LayerHessian, knows_the_gauge_of_query_and_key) {
  for (const Scores scores : {Scores::softmax, Scores::linear}) {
    const auto layer = layer_of(scores, structure_at.tokens_of(0));
    const DecoderAttentionWeights w = structure_at.weights(), g = unflattened(layer.gradient(), w);
    const Matrix e = fill(42, structure_at.inner, structure_at.inner);
    const Matrix no_value = Matrix::Zero(structure_at.width, structure_at.values);
    const Vector gauge = flattened({no_value, w.query * e, -w.key * e.transpose()});
    const double scale = layer.hessian(HessianTerm::total).norm() * gauge.norm();
    const Vector expected = -flattened({no_value, g.query * e.transpose(), -g.key * e});
    ASSERT_GT(expected.norm(), 1e-4 * scale);
    EXPECT_NEAR(layer.gradient().dot(gauge), 0, 1e-10 * layer.gradient().norm() * gauge.norm());
    EXPECT_LT((layer.hessian(HessianTerm::outer) * gauge).norm(), 1e-10 * scale);
    EXPECT_LT((layer.hessian(HessianTerm::total) * gauge - expected).norm(), 1e-10 * scale);
  }
}

TEST(LayerHessian, behind_layer_norm_has_exact_null_vectors) {
  const auto layer = layer_of(Scores::softmax, RowNorm(structure_at.tokens_of(0), 1e-5).values());
  const Matrix h = layer.hessian(HessianTerm::total);
  const Matrix ones = Matrix::Ones(structure_at.width, 1);
  const DecoderAttentionWeights zero = unflattened(Vector::Zero(layer.size()), structure_at.weights());
  for (Matrix DecoderAttentionWeights::*part :
       {&DecoderAttentionWeights::value, &DecoderAttentionWeights::query, &DecoderAttentionWeights::key}) {
    DecoderAttentionWeights direction = zero;
    direction.*part = ones * fill(43, 1, (zero.*part).cols());
    const Vector v = flattened(direction);
    EXPECT_LT((h * v).norm(), 1e-14 * h.norm() * v.norm());
  }
}

TEST(LayerHessian, of_linear_attention_is_homogeneous_in_the_data) {
  const double s = 1.7;
  const Matrix h = layer_of(Scores::linear, structure_at.tokens_of(0)).hessian(HessianTerm::outer);
  const Matrix scaled = layer_of(Scores::linear, s * structure_at.tokens_of(0)).hessian(HessianTerm::outer);
  const double error = (scaled - std::pow(s, 6) * h).norm() / scaled.norm();
  EXPECT_LT(reached("homogeneity of linear attention", error), 1e-13);
}

TEST(LayerHessian, of_linear_attention_has_a_symmetric_functional_spectrum_in_query_and_key) {
  const auto layer = layer_of(Scores::linear, structure_at.tokens_of(0));
  const Index both = 2 * layer.map().size(Weight::query);
  const Matrix h = layer.hessian(HessianTerm::functional).bottomRightCorner(both, both);
  const auto values = symmetric_eigen(h, Eigen::EigenvaluesOnly).values;
  EXPECT_GT(values.maxCoeff(), 1e-3);
  EXPECT_LT((values + values.reverse()).norm(), 1e-13 * values.norm());
}

// The three remainders of l(theta + h v): orders 1, 2 and 3; central differences of the gradient: order 2.
TEST(LayerHessian, is_what_taylor_remainders_see) {
  const Tail tail = behind(projection(0.85 * fill(19, structure_at.values, 5)),
                           cross_entropy(cycling_labels(structure_at.tokens, 5), 0.2));
  const Vector theta = flattened(structure_at.weights());
  const auto layer_at = [&](const Vector& point) {
    return AttentionLayer({structure_at.tokens_of(0), unflattened(point, structure_at.weights()),
                           structure_at.form(Scores::softmax, Mask::causal)},
                          tail, every_row(structure_at.tokens));
  };
  const auto layer = layer_at(theta);
  const Vector v = fill(44, theta.size(), 1).normalized();
  const Vector hv = layer.product(HessianTerm::total, v);
  const double slope = layer.gradient().dot(v), curvature = v.dot(hv);
  std::vector<double> sizes, errors[4];
  for (double h = 0.1; h > 0.005; h /= 2) {
    const double change = layer_at(theta + h * v).loss() - layer.loss();
    const Vector difference =
        (layer_at(theta + h * v).gradient() - layer_at(theta - h * v).gradient()) / (2 * h);
    sizes.push_back(h);
    errors[0].push_back(std::abs(change));
    errors[1].push_back(std::abs(change - h * slope));
    errors[2].push_back(std::abs(change - h * slope - h * h / 2 * curvature));
    errors[3].push_back((difference - hv).norm());
  }
  const double orders[] = {1, 2, 3, 2};
  for (int k = 0; k < 4; ++k) {
    // The next term of the series shifts the slope between h = 0.00625 and 0.0125 by less than 0.05.
    EXPECT_NEAR(std::log2(errors[k][errors[k].size() - 2] / errors[k].back()), orders[k], 0.05)
        << "remainder " << k;
  }
}

}  // namespace
}  // namespace fluxformer::decoder
