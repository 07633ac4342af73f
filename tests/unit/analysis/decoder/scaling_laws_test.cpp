// Growth of each block with the size of the data, ||block||(sigma X) ~ sigma^power: the powers of the closed
// form.

#include <gtest/gtest.h>

#include "analysis/decoder/layer_measures.hpp"
#include "analysis/decoder/row_maps.hpp"
#include "tests/unit/analysis/decoder/layer_comparison.hpp"
#include "tests/unit/analysis/decoder/slopes.hpp"

namespace fluxformer::decoder {
namespace {

using namespace test;

constexpr double zero_block = -99;

// Powers of VV VQ VK QQ QK KK.
struct Powers {
  double outer[6], functional[6];
};

struct Window {
  double low, high, tolerance;
};
// Leading powers: the next term is smaller by a factor sigma or more.
constexpr Window small_sigma{1e-3, 1e-2, 0.05};

using MakeLayer = std::function<AttentionLayer(double sigma)>;

void expect_powers(const MakeLayer& make, const Powers& powers, const Window& window) {
  std::size_t pair = 0;
  for (int a = 0; a < 3; ++a) {
    for (int b = a; b < 3; ++b, ++pair) {
      for (const HessianTerm part : {HessianTerm::outer, HessianTerm::functional}) {
        const auto norm = [&](double sigma) {
          const auto layer = make(sigma);
          return block(layer.hessian(part), layer.map(), all_weights[a], all_weights[b]).norm();
        };
        const double expected = part == HessianTerm::outer ? powers.outer[pair] : powers.functional[pair];
        if (expected == zero_block) {
          EXPECT_EQ(norm(window.low), 0) << name_of(all_weights[a]) << name_of(all_weights[b]);
        } else {
          EXPECT_NEAR(fitted_slope(norm, window.low, window.high), expected, window.tolerance)
              << name_of(all_weights[a]) << name_of(all_weights[b])
              << (part == HessianTerm::outer ? " outer" : " functional");
        }
      }
    }
  }
}

const LayerCase at{6, 4, 3, 4};

Tail mean_squared() {
  return squared_error(at.target_of(0, 4), at.mean(4));
}

Tail readout() {
  return behind(projection(0.85 * fill(19, 4, 5)), cross_entropy(cycling_labels(at.tokens, 5), 1 / 6.0));
}

MakeLayer scaled(Scores scores, Mask mask, const Tail& tail) {
  return [=](double sigma) {
    return AttentionLayer({sigma * at.tokens_of(0), at.weights(), at.form(scores, mask)}, tail,
                          every_row(at.tokens));
  };
}

const Powers softmax{{2, 4, 4, 6, 6, 6}, {zero_block, 3, 3, 5, 3, 5}};

TEST(ScalingLaws, of_softmax_attention_differ_between_value_query_and_key) {
  for (const Mask mask : {Mask::none, Mask::causal}) {
    expect_powers(scaled(Scores::softmax, mask, mean_squared()), softmax, small_sigma);
    expect_powers(scaled(Scores::softmax, mask, readout()), softmax, small_sigma);
  }
}

TEST(ScalingLaws, of_linear_attention_are_the_same_for_all_blocks) {
  // H_o is a polynomial of degree 6 without other terms: exact for every sigma. With targets zero, so is H_f.
  const Powers exact{{6, 6, 6, 6, 6, 6}, {zero_block, 6, 6, zero_block, 6, zero_block}};
  const Tail no_target = squared_error(Matrix::Zero(at.tokens, 4), at.mean(4));
  expect_powers(scaled(Scores::linear, Mask::causal, no_target), exact, {0.1, 10, 1e-10});
  // With targets, H_f follows the residual: -Y at small sigma, F at large.
  const Powers small{{6, 6, 6, 6, 6, 6}, {zero_block, 3, 3, zero_block, 3, zero_block}};
  expect_powers(scaled(Scores::linear, Mask::none, mean_squared()), small, small_sigma);
  expect_powers(scaled(Scores::linear, Mask::none, mean_squared()), exact, {1e2, 1e3, 0.05});
}

TEST(ScalingLaws, of_a_single_score_matrix_are_those_of_the_query) {
  const auto make = [&](double sigma) {
    return AttentionLayer({sigma * at.tokens_of(0),
                           {0.7 * fill(14, 4, 4), fill(17, 4, 4), Matrix::Identity(4, 4)},
                           {Scores::softmax, Mask::none, 1}},
                          mean_squared(), every_row(at.tokens));
  };
  expect_powers(make, softmax, small_sigma);
}

TEST(ScalingLaws, vanish_behind_layer_norm) {
  const auto make = [&](double sigma) {
    return AttentionLayer(
        {RowNorm(sigma * at.tokens_of(0), 0).values(), at.weights(), at.form(Scores::softmax, Mask::none)},
        mean_squared(), every_row(at.tokens));
  };
  expect_powers(make, {{0, 0, 0, 0, 0, 0}, {zero_block, 0, 0, 0, 0, 0}}, {1e-3, 1e3, 1e-10});
}

// Also the functional part of VV grows, now that B^f is not zero: with power 0, as J_LN^2 sigma^2.
TEST(ScalingLaws, are_lower_by_two_in_front_of_layer_norm) {
  for (const double rho : {0.0, 1.0}) {
    const auto make = [&](double sigma) {
      return AttentionLayer(
          {sigma * at.tokens_of(0), at.weights(), at.form(Scores::softmax, Mask::none)},
          behind(shifted(rho * sigma * at.tokens_of(0)), behind(layer_norm(0), mean_squared())),
          every_row(at.tokens));
    };
    expect_powers(make, {{0, 2, 2, 4, 4, 4}, {0, 2, 2, 4, 2, 4}}, small_sigma);
  }
}

TEST(ScalingLaws, of_a_linear_mlp_are_two_for_every_layer_and_depth) {
  for (int depth = 1; depth <= 4; ++depth) {
    std::vector<Matrix> weights;
    for (int l = 0; l < depth; ++l)
      weights.push_back(0.6 * fill(20 + l, l == 0 ? 4 : 3, l + 1 == depth ? 2 : 3));
    for (std::size_t layer = 0; layer < weights.size(); ++layer) {
      const auto norm = [&](double sigma) {
        return LinearMlp(sigma * fill(110, 7, 4), fill(210, 7, 2), 1, weights).diagonal_norm(layer);
      };
      EXPECT_NEAR(fitted_slope(norm, 1e-2, 1e2), 2, 1e-10);
    }
  }
}

}  // namespace
}  // namespace fluxformer::decoder
