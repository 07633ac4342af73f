// The linear MLP against hyper-dual numbers.

#include <gtest/gtest.h>

#include "analysis/decoder/layer_measures.hpp"
#include "tests/support/plain_attention.hpp"
#include "tests/unit/analysis/decoder/layer_comparison.hpp"

namespace fluxformer::decoder {
namespace {

using namespace test;

TEST(LinearMlp, equals_hyper_dual_numbers_block_by_block) {
  const std::vector<Matrix> weights{0.7 * fill(20, 4, 3), 0.8 * fill(21, 3, 5), 0.9 * fill(22, 5, 2),
                                    0.8 * fill(23, 2, 3)};
  const Matrix x = fill(110, 6, 4), y = fill(210, 6, 3);
  const LinearMlp mlp(x, y, 0.3, weights);
  Vector theta(0);
  std::vector<Index> begin{0};
  for (const Matrix& w : weights) {
    theta.conservativeResize(theta.size() + w.size());
    theta.tail(w.size()) = Eigen::Map<const Vector>(w.data(), w.size());
    begin.push_back(theta.size());
  }
  const auto outputs = [&](const auto& at) {
    using T = typename std::decay_t<decltype(at)>::value_type;
    Table<T> f(x);
    std::size_t position = 0;
    for (const Matrix& w : weights) {
      f = times(f,
                take(at, position, static_cast<std::size_t>(w.rows()), static_cast<std::size_t>(w.cols())));
    }
    return f.entries;
  };
  const auto numeric = numeric_derivatives(
      outputs, [&](const auto& f) { return squared_error_of(f, y, 0.3); }, theta);
  EXPECT_NEAR(mlp.loss(), numeric.loss, 1e-13 * numeric.loss);
  const Matrix outer = mlp.hessian(HessianTerm::outer), functional = mlp.hessian(HessianTerm::functional);
  for (std::size_t l = 0; l < weights.size(); ++l) {
    for (std::size_t m = 0; m < weights.size(); ++m) {
      const auto of = [&](const Matrix& h) -> Matrix {
        return h.block(begin[l], begin[m], weights[l].size(), weights[m].size());
      };
      EXPECT_LT(difference(of(outer), of(numeric.outer), 0), 1e-12) << l << m;
      if (l == m) {
        EXPECT_EQ(of(functional).norm(), 0);
        EXPECT_NEAR(mlp.diagonal_norm(l), of(outer).norm(), 1e-13 * of(outer).norm());
      } else {
        EXPECT_LT(difference(of(functional), of(numeric.hessian - numeric.outer), of(outer).norm()), 1e-11)
            << l << m;
      }
    }
  }
  EXPECT_LT((mlp.hessian(HessianTerm::total) - outer - functional).norm(), 1e-14 * outer.norm());
}

}  // namespace
}  // namespace fluxformer::decoder
