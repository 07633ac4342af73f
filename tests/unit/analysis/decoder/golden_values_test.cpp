// Reference values of two tiny layers, from an independent implementation (automatic differentiation).

#include <gtest/gtest.h>

#include "analysis/decoder/row_maps.hpp"
#include "analysis/dense_matrices.hpp"
#include "tests/support/reached.hpp"
#include "tests/unit/analysis/decoder/layer_case.hpp"

namespace fluxformer::decoder {
namespace {

using namespace test;

// Large arguments of the sine lose about 1e-12.
constexpr double tolerance = 1e-9;

struct Golden {
  double loss, gradient, trace, outer_trace, norm, smallest, largest;
  double outer[6], functional[6];  // VV VQ VK QQ QK KK
};

void compare(const char* what, double found, double expected) {
  const double scale = expected == 0 ? 1 : std::abs(expected);
  EXPECT_LT(reached("Golden values", std::abs(found - expected) / scale), tolerance) << what << ' ' << found;
}

void compare_all(const AttentionLayer& layer, const Golden& golden) {
  const Matrix h = layer.hessian(HessianTerm::total), outer = layer.hessian(HessianTerm::outer),
               functional = layer.hessian(HessianTerm::functional);
  compare("loss", layer.loss(), golden.loss);
  compare("gradient", layer.gradient().norm(), golden.gradient);
  compare("trace", h.trace(), golden.trace);
  compare("trace of H_o", outer.trace(), golden.outer_trace);
  compare("norm", h.norm(), golden.norm);
  const auto eigen = symmetric_eigen(h, Eigen::EigenvaluesOnly);
  compare("smallest eigenvalue", eigen.values(0), golden.smallest);
  compare("largest eigenvalue", eigen.values(eigen.values.size() - 1), golden.largest);
  std::size_t pair = 0;
  for (int a = 0; a < 3; ++a) {
    for (int b = a; b < 3; ++b, ++pair) {
      SCOPED_TRACE(std::string(name_of(all_weights[a])) + name_of(all_weights[b]));
      compare("H_o", block(outer, layer.map(), all_weights[a], all_weights[b]).norm(), golden.outer[pair]);
      compare("H_f", block(functional, layer.map(), all_weights[a], all_weights[b]).norm(),
              golden.functional[pair]);
    }
  }
}

TEST(GoldenValues, hold_for_softmax_attention_with_mean_squared_error) {
  const LayerCase at;
  compare_all(
      {{at.tokens_of(0), at.weights(), at.form(Scores::softmax, Mask::none)},
       squared_error(at.target_of(0, 3), at.mean(3)),
       every_row(at.tokens)},
      {4.254934668948e-01,
       6.079530750755e-01,
       1.371728799268,
       1.369154318473,
       8.032234187697e-01,
       -7.376893249352e-02,
       4.680509641910e-01,
       {7.900024706362e-1, 6.725124601267e-3, 1.537508348127e-2, 1.520158718331e-4, 2.842614560474e-4,
        5.857960881490e-4},
       {0, 4.048578161768e-2, 9.599553248523e-2, 6.601810391773e-4, 4.364085001905e-2, 1.880851985047e-3}});
}

TEST(GoldenValues, hold_for_causal_attention_with_a_cross_entropy_readout) {
  const LayerCase at;
  compare_all(
      {{at.tokens_of(0), at.weights(), at.form(Scores::softmax, Mask::causal)},
       behind(projection(0.85 * fill(19, 3, 5)), cross_entropy(cycling_labels(4, 5), 0.25)),
       every_row(at.tokens)},
      {1.598775833682e+00,
       1.961650825050e-01,
       .9173873886975,
       .9174012309629,
       7.366886893143e-01,
       -6.102724367504e-03,
       7.086174484237e-01,
       {7.359340158935e-1, 1.894323161090e-4, 6.461214902912e-4, 7.235131647394e-7, 1.424679657028e-6,
        4.029961600052e-6},
       {0, 1.016935327834e-2, 2.147160637488e-2, 8.220104899328e-6, 2.175017120636e-3, 9.180053605563e-6}});
}

}  // namespace
}  // namespace fluxformer::decoder
