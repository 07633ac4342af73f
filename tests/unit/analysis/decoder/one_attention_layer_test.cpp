// The layer map of a model that is one attention layer, with products through its tapes, against the closed
// form of that layer's Hessian: two implementations that share nothing.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "model/depth_model.hpp"
#include "tests/support/reached.hpp"
#include "tests/support/small_problem.hpp"
#include "tests/support/test_vectors.hpp"
#include "tests/unit/analysis/decoder/layer_case.hpp"

namespace fluxformer::decoder {
namespace {

using namespace test;
using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

constexpr int one_attention_layer_tokens = 5, width = 4;

/// One layer: u -> attention(u) W_O with W_O = I and nothing else.
ModelSpec one_layer(Normalisation normalisation, bool causal) {
  auto spec = small_model(1);
  spec.width = width;
  spec.norm = Norm::none;
  spec.attention.heads = 1;
  spec.attention.layer_norm = false;
  spec.attention.normalisation = normalisation;
  spec.order = SubLayerOrder::parallel;
  spec.residual = false;
  spec.causal = causal;
  return spec;
}

/// W_Q, W_K and W_V of a model are transposed: y = W x.
RowMajor transposed(std::span<const double> weights) {
  return Eigen::Map<const RowMajor>(weights.data(), width, width).transpose();
}
DecoderAttentionWeights weights_of(const Parameters& p) {
  return {transposed(p.view("layers/1/W_V")), transposed(p.view("layers/1/W_Q")),
          transposed(p.view("layers/1/W_K"))};
}

class OneAttentionLayer : public testing::TestWithParam<std::pair<Normalisation, bool>> {};

TEST_P(OneAttentionLayer, has_the_closed_form_as_its_hessian) {
  const auto [normalisation, causal] = GetParam();
  const auto spec = one_layer(normalisation, causal);
  Parameters parameters = random_parameters({.model = spec, .kappa = 0, .alpha = 1, .rho = 0});
  for (const char* zero : {"b_Q", "b_K", "b_V", "b_O"})
    std::ranges::fill(parameters.view(std::string("layers/1/") + zero), 0.0);
  const auto w_o = parameters.view("layers/1/W_O");
  for (std::size_t j = 0; j < w_o.size(); ++j) w_o[j] = j % (width + 1) == 0 ? 1 : 0;

  const auto line = TokenLine::even(MPI_COMM_SELF, one_attention_layer_tokens, 1, 1);
  const SlabContext context{&line, 1, width, {{}, causal, {}}, nullptr};
  Parameters direction(spec);
  const auto map = make_depth_model(parameters, context, Precision::float64);
  const auto tape = map->make_tape(Order::second);
  const DepthPoint at{1, 0};
  const auto u = random_vector(context.size(), 3, 1.0), target = random_vector(context.size(), 4, 1.0);
  std::vector<double> v(u.size()), w(u.size()), u_bar(u.size()), gradient(parameters.values.size(), 0.0);
  map->map(at, 1, u.data(), v.data(), tape.get());
  // L = c |v - target|^2, with gradient w.
  constexpr double c = 0.3;
  for (std::size_t j = 0; j < v.size(); ++j) w[j] = 2 * c * (v[j] - target[j]);
  map->pull(at, 1, u.data(), w.data(), u_bar.data(), gradient, tape.get(), Order::second);

  const auto rows = [](const std::vector<double>& slab) -> Matrix {
    return Eigen::Map<const RowMajor>(slab.data(), one_attention_layer_tokens, width);
  };
  const AttentionForm form{normalisation == Normalisation::softmax ? Scores::softmax : Scores::linear,
                           causal ? Mask::causal : Mask::none, 1 / std::sqrt(double{width})};
  const AttentionLayer closed(AttentionMap(rows(u), weights_of(parameters), form),
                              squared_error(rows(target), c), every_row(one_attention_layer_tokens));
  EXPECT_LT((rows(v) - closed.map().values()).norm(), 1e-14 * rows(v).norm());

  const auto of_flat = [&](const std::vector<double>& flat) {
    Parameters all(spec);
    all.values = flat;
    return flattened(weights_of(all));
  };
  EXPECT_LT((of_flat(gradient) - closed.gradient()).norm(), 1e-13 * closed.gradient().norm());
  for (unsigned seed = 1; seed <= 3; ++seed) {
    direction.values.assign(direction.values.size(), 0.0);
    for (const char* weight : {"W_Q", "W_K", "W_V"})
      std::ranges::copy(random_vector(width * width, seed, 1.0),
                        direction.view(std::string("layers/1/") + weight).begin());
    const std::vector<double> still(u.size(), 0.0);
    std::vector<double> v_dot(u.size()), w_dot(u.size());
    const fluxformer::Point point{u.data(), still.data()};
    map->push(at, 1, point, direction.values, v_dot.data(), tape.get());
    for (std::size_t j = 0; j < v_dot.size(); ++j) w_dot[j] = 2 * c * v_dot[j];
    for (const auto part : {HessianTerm::total, HessianTerm::outer}) {
      std::vector<double> product(gradient.size(), 0.0);
      if (part == HessianTerm::total)
        map->pull_along(at, 1, point, w_dot.data(), direction.values, u_bar.data(), product, *tape);
      else
        map->pull(at, 1, u.data(), w_dot.data(), u_bar.data(), product, tape.get(), Order::first);
      const Vector expected = closed.product(part, of_flat(direction.values));
      const double error = (of_flat(product) - expected).norm() / expected.norm();
      EXPECT_LT(reached("products through a model against the closed form", error), 1e-11);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, OneAttentionLayer,
                         testing::Values(std::pair{Normalisation::softmax, false},
                                         std::pair{Normalisation::softmax, true},
                                         std::pair{Normalisation::linear, false},
                                         std::pair{Normalisation::linear, true}));

}  // namespace
}  // namespace fluxformer::decoder
