// The closed form against the assembly from Kronecker products, and the two parametrisations of the scores
// against each other.

#include <gtest/gtest.h>

#include "tests/support/kronecker_hessian.hpp"
#include "tests/support/plain_attention.hpp"
#include "tests/unit/analysis/decoder/layer_comparison.hpp"

namespace fluxformer::decoder {
namespace {

using namespace test;

const LayerCase cases[] = {{}, {5, 4, 3, 2}};
const std::pair<Scores, Mask> kinds[] = {{Scores::softmax, Mask::none},
                                         {Scores::softmax, Mask::causal},
                                         {Scores::linear, Mask::none},
                                         {Scores::linear, Mask::causal}};

AttentionLayer layer_of(const LayerCase& at, const DecoderAttentionWeights& weights,
                        const AttentionForm& form) {
  return {{at.tokens_of(0), weights, form},
          squared_error(at.target_of(0, at.values), at.mean(at.values)),
          every_row(at.tokens)};
}

TEST(LayerHessian, equals_the_assembly_from_kronecker_products) {
  for (const LayerCase& at : cases) {
    for (const auto& [scores, mask] : kinds) {
      const auto layer = layer_of(at, at.weights(), at.form(scores, mask));
      for (const HessianTerm part : {HessianTerm::outer, HessianTerm::functional}) {
        const Matrix h = layer.hessian(part);
        const Matrix expected = kronecker_hessian(at.tokens_of(0), at.target_of(0, at.values), at.weights(),
                                                  at.form(scores, mask), at.mean(at.values), part);
        for (const Weight a : all_weights) {
          for (const Weight b : all_weights) {
            const Matrix block_expected = block(expected, layer.map(), a, b);
            const double error = (block(h, layer.map(), a, b) - block_expected).norm();
            // Zero blocks (VV, linear QQ and KK) are zeros in both.
            EXPECT_LE(error, 1e-13 * block_expected.norm()) << name_of(a) << name_of(b);
            if (block_expected.norm() > 0)
              reached("closed form against Kronecker products", error / block_expected.norm());
          }
        }
      }
    }
  }
}

TEST(LayerHessian, of_a_single_score_matrix_equals_hyper_dual_numbers) {
  const LayerCase at{5, 4, 4, 2};
  const DecoderAttentionWeights weights{0.7 * fill(14, 4, 2), 0.6 * fill(17, 4, 4), Matrix::Identity(4, 4)};
  const AttentionForm form{Scores::softmax, Mask::causal, 0.9};
  const auto layer = layer_of(at, weights, form);
  const Index p = layer.map().begin(Weight::key);
  const auto outputs = [&](const auto& theta) {
    using T = typename std::decay_t<decltype(theta)>::value_type;
    std::size_t position = 0;
    const Table<T> x(at.tokens_of(0)), v = take(theta, position, 4, 2), w = take(theta, position, 4, 4);
    return attend(times(x, w), x, times(x, v), form).entries;
  };
  const auto numeric = numeric_derivatives(
      outputs, [&](const auto& y) { return squared_error_of(y, at.target_of(0, 2), at.mean(2)); },
      flattened(weights).head(p));
  const Matrix outer = layer.hessian(HessianTerm::outer).topLeftCorner(p, p);
  const Matrix total = layer.hessian(HessianTerm::total).topLeftCorner(p, p);
  for (const Weight a : {Weight::value, Weight::query}) {
    for (const Weight b : {Weight::value, Weight::query}) {
      const auto& map = layer.map();
      EXPECT_LT((block(outer, map, a, b) - block(numeric.outer, map, a, b)).norm(),
                1e-12 * block(outer, map, a, b).norm());
      EXPECT_LT((block(total, map, a, b) - block(numeric.hessian, map, a, b)).norm(),
                1e-12 * block(total, map, a, b).norm());
    }
  }
}

// H_QQ = E_Q^T H_WW E_Q, H_KK = E_K^T H_WW E_K, H_QK = E_Q^T H_WW E_K + G_W (x) I at W = W_Q W_K^T.
TEST(LayerHessian, of_a_single_score_matrix_gives_that_of_query_and_key) {
  for (const LayerCase& at : cases) {
    for (const auto& [scores, mask] : kinds) {
      const DecoderAttentionWeights pair = at.weights();
      const auto two = layer_of(at, pair, at.form(scores, mask));
      const auto one =
          layer_of(at, {pair.value, pair.query * pair.key.transpose(), Matrix::Identity(at.width, at.width)},
                   at.form(scores, mask));
      const Index d = at.width, k = at.inner;
      const Matrix h = two.hessian(HessianTerm::total);
      const Matrix ww = block(one.hessian(HessianTerm::total), one.map(), Weight::query, Weight::query);
      const Vector g_w = one.gradient().segment(one.map().begin(Weight::query), d * d);
      const Matrix e_q = kronecker(Matrix::Identity(d, d), pair.key);
      const Matrix e_k = kronecker(pair.query, Matrix::Identity(d, d)) * commutation(d, k);
      const auto compare = [&](Weight a, Weight b, const Matrix& expected) {
        EXPECT_LT(reached("pair from single matrix",
                          (block(h, two.map(), a, b) - expected).norm() / expected.norm()),
                  1e-12)
            << name_of(a) << name_of(b);
      };
      compare(Weight::query, Weight::query, e_q.transpose() * ww * e_q);
      compare(Weight::key, Weight::key, e_k.transpose() * ww * e_k);
      compare(Weight::query, Weight::key,
              e_q.transpose() * ww * e_k +
                  kronecker(Eigen::Map<const Matrix>(g_w.data(), d, d), Matrix::Identity(k, k)));
    }
  }
}

}  // namespace
}  // namespace fluxformer::decoder
