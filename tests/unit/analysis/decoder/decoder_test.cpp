// Products with the Hessian of a stack of layers against hyper-dual numbers in a plain forward pass, and
// against the closed form of a single layer.

#include "analysis/decoder/decoder.hpp"

#include <gtest/gtest.h>

#include "analysis/decoder/attention_layer.hpp"
#include "tests/support/plain_attention.hpp"
#include "tests/support/reached.hpp"
#include "tests/unit/analysis/decoder/layer_case.hpp"
#include "tests/unit/analysis/decoder/slopes.hpp"

namespace fluxformer::decoder {
namespace {

using namespace test;

const TokenBatch small_batch{5, 1, 4, {0, 3, 1, 2, 2, 1, 1, 0, 3, 2}};

DecoderShape small_shape(Scores scores, std::optional<double> epsilon, NormPlace place = NormPlace::before) {
  return {4, 5, 4, 3, 2, scores, Mask::causal, 0.8, epsilon, place};
}

// Away from the initial values, so that biases are not zero and no gradient is small.
DecoderWeights some_weights(const DecoderShape& shape) {
  const Index p = flattened(initial_decoder(shape, 1)).size();
  return unflattened(0.8 * fill(60, p, 1), shape);
}

// Logits of the scored rows, all sequences.
template <class T>
std::vector<T> plain_logits(const DecoderShape& shape, const TokenBatch& batch, const std::vector<T>& theta) {
  const auto d = static_cast<std::size_t>(shape.width), h = static_cast<std::size_t>(shape.hidden),
             v = static_cast<std::size_t>(shape.vocabulary), length = static_cast<std::size_t>(shape.length);
  const auto at_place = [&](NormPlace place) {
    return [epsilon = shape.norms(place)](const Table<T>& x) { return epsilon ? normed(x, *epsilon) : x; };
  };
  const auto n = at_place(NormPlace::before), behind = at_place(NormPlace::behind);
  std::vector<T> logits;
  for (Index s = 0; s < batch.sequences(); ++s) {
    std::size_t at = 0;
    const Table<T> embedding = take(theta, at, v, d), position = take(theta, at, length, d);
    Table<T> x = position;
    for (std::size_t i = 0; i < length; ++i) {
      const auto token = static_cast<std::size_t>(batch.tokens[static_cast<std::size_t>(s) * length + i]);
      for (std::size_t j = 0; j < d; ++j) x(i, j) += embedding(token, j);
    }
    for (Index l = 0; l < shape.depth; ++l) {
      const Table<T> q = take(theta, at, d, d), k = take(theta, at, d, d), val = take(theta, at, d, d),
                     o = take(theta, at, d, d), in = take(theta, at, d, h), b_in = take(theta, at, 1, h),
                     out = take(theta, at, h, d), b_out = take(theta, at, 1, d);
      const Table<T> y = n(x);
      const Table<T> r = behind(
          plus(times(attend(times(y, q), times(y, k), times(y, val), shape.form()), o), x, shape.residual));
      x = behind(plus(r, plus_row(times(relu(plus_row(times(n(r), in), b_in)), out), b_out)));
    }
    const Table<T> w_u = take(theta, at, d, v), b_u = take(theta, at, 1, v);
    const Table<T> all = plus_row(times(n(x), w_u), b_u);
    for (auto i = static_cast<std::size_t>(batch.first_scored);
         i < static_cast<std::size_t>(batch.end_scored); ++i)
      for (std::size_t c = 0; c < v; ++c) logits.push_back(all(i, c));
  }
  return logits;
}

template <class T>
T plain_loss(const DecoderShape& shape, const TokenBatch& batch, LogitLoss kind, double weight,
             const std::vector<T>& logits) {
  std::vector<int> labels;
  for (Index s = 0; s < batch.sequences(); ++s)
    for (Index i = batch.first_scored; i < batch.end_scored; ++i)
      labels.push_back(batch.tokens[s * batch.length + i + (kind == LogitLoss::cross_entropy ? 1 : 0)]);
  if (kind == LogitLoss::cross_entropy) return cross_entropy_of(logits, labels, weight);
  Matrix target = Matrix::Zero(static_cast<Index>(labels.size()), shape.vocabulary);
  for (Index i = 0; i < target.rows(); ++i) target(i, labels[i]) = 1;
  return squared_error_of(logits, target, weight);
}

// The product with each block's share of a direction, compared on the rows of each block.
void compare_products(const DecoderShape& shape, LogitLoss kind) {
  const double weight = 1 / 6.0;
  const DecoderWeights weights = some_weights(shape);
  const Vector theta = flattened(weights);
  const DecoderProducts products(shape, weights, small_batch, kind, weight);
  const auto logits = [&](const auto& at) { return plain_logits(shape, small_batch, at); };
  const auto loss = [&](const auto& y) { return plain_loss(shape, small_batch, kind, weight, y); };

  std::vector<HyperDual> at(theta.data(), theta.data() + theta.size());
  const auto y = logits(at);
  const auto outputs = static_cast<Index>(y.size());
  EXPECT_NEAR(products.loss(), loss(y).f, 1e-13);
  Matrix j(outputs, theta.size());
  Vector gradient(theta.size()), point(outputs);
  for (Index a = 0; a < theta.size(); ++a) {
    at[a].f1 = 1;
    const auto dot = logits(at);
    for (Index i = 0; i < outputs; ++i) j(i, a) = dot[i].f1;
    gradient(a) = loss(dot).f1;
    at[a].f1 = 0;
  }
  for (Index i = 0; i < outputs; ++i) point(i) = y[i].f;
  EXPECT_LT((products.gradient() - gradient).norm(), 1e-13 * gradient.norm());
  const Matrix curved = numeric_derivatives(loss, point).hessian;

  const auto blocks = parameter_blocks(shape);
  for (const ParameterBlock& columns : blocks) {
    if (columns.size() == 0) continue;
    Vector v = Vector::Zero(theta.size());
    v.segment(columns.begin, columns.size()) = fill(61, columns.size(), 1);
    for (Index a = 0; a < theta.size(); ++a) at[a].f2 = v(a);
    Vector expected(theta.size());
    for (Index a = 0; a < theta.size(); ++a) {
      at[a].f1 = 1;
      expected(a) = loss(logits(at)).f12;
      at[a].f1 = 0;
    }
    const Vector with_curvature = curved * Vector(j * v);
    const Vector outer = j.transpose() * with_curvature;
    const Vector total = products.product(HessianTerm::total, v),
                 gauss_newton = products.product(HessianTerm::outer, v),
                 functional = products.product(HessianTerm::functional, v);
    EXPECT_LT((total - gauss_newton - functional).norm(), 1e-14 * (total.norm() + gauss_newton.norm()));
    for (const ParameterBlock& rows : blocks) {
      if (rows.size() == 0) continue;
      const auto compare = [&](const Vector& found, const Vector& wanted, const char* part) {
        const Vector f = found.segment(rows.begin, rows.size()), w = wanted.segment(rows.begin, rows.size());
        // Round-off is that of the terms of a sum over rows, of which some blocks keep little.
        const double scale = std::max(w.norm(), 1e-3 * wanted.norm());
        EXPECT_LT(reached("decoder products against hyper-dual numbers", (f - w).norm() / scale), 1e-12)
            << part << ' ' << rows.name << rows.layer << ' ' << columns.name << columns.layer;
      };
      compare(total, expected, "H");
      compare(gauss_newton, outer, "H_o");
    }
  }
}

TEST(DecoderProducts, equal_hyper_dual_numbers_block_by_block) {
  for (const Scores scores : {Scores::softmax, Scores::linear}) {
    for (const std::optional<double> epsilon : {std::optional<double>{}, std::optional<double>{1e-2}}) {
      compare_products(small_shape(scores, epsilon),
                       scores == Scores::softmax ? LogitLoss::cross_entropy : LogitLoss::squared_error);
    }
  }
}

TEST(DecoderProducts, of_post_norm_decoders_equal_hyper_dual_numbers_block_by_block) {
  for (const Scores scores : {Scores::softmax, Scores::linear})
    compare_products(small_shape(scores, 1e-2, NormPlace::behind),
                     scores == Scores::softmax ? LogitLoss::cross_entropy : LogitLoss::squared_error);
}

TEST(DecoderProducts, cover_decoders_without_mlps) {
  DecoderShape shape = small_shape(Scores::linear, {});
  shape.hidden = 0;
  shape.residual = 0;
  compare_products(shape, LogitLoss::squared_error);
  const auto layer = [&](Index hidden) {
    DecoderShape one = shape;
    one.hidden = hidden;
    one.depth = 1;
    DecoderWeights without = initial_decoder(one, 5);
    without.layers[0].out.setZero();
    return block_norm(attention_layers(one, without, small_batch, LogitLoss::squared_error, 1), Weight::query,
                      Weight::query, HessianTerm::total);
  };
  EXPECT_NEAR(layer(0), layer(3), 1e-14 * layer(3));
}

TEST(DecoderProducts, of_a_single_layer_equal_the_closed_form) {
  const TokenBatch batch = addition_batch(1234, 0, 0, 3);
  const double weight = 1 / static_cast<double>(batch.scored());
  for (const Scores scores : {Scores::softmax, Scores::linear}) {
    for (const auto& [epsilon, place] : {std::pair{std::optional<double>{}, NormPlace::before},
                                         std::pair{std::optional{1e-5}, NormPlace::before},
                                         std::pair{std::optional{1e-5}, NormPlace::behind}}) {
      for (const LogitLoss loss : {LogitLoss::cross_entropy, LogitLoss::squared_error}) {
        const DecoderShape shape{12, 18, 5, 7, 1, scores, Mask::causal, 0.9, epsilon, place};
        DecoderWeights weights = initial_decoder(shape, 1234);
        weights.readout_bias = 0.2 * fill(62, 1, 12);
        weights.layers[0].in_bias = 0.2 * fill(63, 1, 7);
        const DecoderProducts products(shape, weights, batch, loss, weight);
        const auto layers = attention_layers(shape, weights, batch, loss, weight);
        double sum = 0;
        for (const auto& layer : layers) sum += layer.loss();
        EXPECT_NEAR(products.loss(), sum, 1e-14 * sum);
        for (const ParameterBlock& at : parameter_blocks(shape)) {
          const bool value = at.name == "W_V", query = at.name == "W_Q", key = at.name == "W_K";
          if (!value && !query && !key) continue;
          const Weight part_of_layer = value ? Weight::value : query ? Weight::query : Weight::key;
          for (const HessianTerm part : {HessianTerm::total, HessianTerm::outer}) {
            Matrix expected = Matrix::Zero(at.size(), at.size());
            for (const auto& layer : layers)
              expected += decoder::block(layer.hessian(part), layer.map(), part_of_layer, part_of_layer);
            EXPECT_LT(
                reached("decoder products against the closed form",
                        (products.block(part, at.begin, at.size()) - expected).norm() / expected.norm()),
                1e-12)
                << at.name;
            EXPECT_NEAR(block_norm(layers, part_of_layer, part_of_layer, part), expected.norm(),
                        1e-12 * expected.norm());
          }
        }
      }
    }
  }
}

TEST(DecoderWeights, have_their_blocks_in_the_order_of_the_flat_vector) {
  const DecoderShape shape = small_shape(Scores::softmax, {});
  const DecoderWeights weights = some_weights(shape);
  const Vector theta = flattened(weights);
  std::string names;
  Index end = 0;
  for (const ParameterBlock& block : parameter_blocks(shape)) {
    EXPECT_EQ(block.begin, end);
    end += block.size();
    if (block.layer < 1) names += block.name + ' ';
  }
  EXPECT_EQ(end, theta.size());
  EXPECT_EQ(names, "W_E W_pos W_Q W_K W_V W_O W_in b_in W_out b_out W_U b_U ");
  EXPECT_EQ(flattened(unflattened(theta, shape)), theta);
  EXPECT_EQ(theta(theta.size() - shape.vocabulary), weights.readout_bias(0, 0));
}

TEST(DecoderWeights, are_drawn_with_the_stated_deviation_and_scaled_with_common_numbers) {
  const DecoderShape shape{12, 18, 64, 256, 2};
  DecoderWeights weights = initial_decoder(shape, 1234);
  const Matrix& in = weights.layers[1].in;
  const double count = static_cast<double>(in.size());
  // Four standard errors of a mean and of a mean square of normal numbers.
  EXPECT_NEAR(in.mean(), 0, 4 * 0.1 / std::sqrt(count));
  EXPECT_NEAR(in.squaredNorm() / count, 0.01, 4 * 0.01 * std::sqrt(2 / count));
  EXPECT_GT((weights.layers[0].in - in).norm(), in.norm());  // layers are independent
  EXPECT_EQ(weights.layers[0].in_bias.norm(), 0);
  scale_embeddings(weights, 1234, 2);
  const Matrix twice = weights.embedding;
  scale_embeddings(weights, 1234, 1e-2);
  EXPECT_LT((twice - 200 * weights.embedding).norm(), 1e-14 * twice.norm());
}

}  // namespace
}  // namespace fluxformer::decoder

// Growth of the blocks of whole decoders with the size of their embeddings.

namespace fluxformer::decoder {
namespace {

using namespace test;

const TokenBatch batch = addition_batch(1234, 0, 0, 2);

double norm_of(const DecoderShape& shape, const std::string& name, Index layer, HessianTerm part,
               LogitLoss loss, double sigma) {
  DecoderWeights weights = initial_decoder(shape, 1234);
  scale_embeddings(weights, 1234, sigma);
  const DecoderProducts products(shape, weights, batch, loss, 1.0 / 12);
  for (const ParameterBlock& block : parameter_blocks(shape)) {
    if (block.name == name && block.layer == layer)
      return products.block(part, block.begin, block.size()).norm();
  }
  throw std::logic_error("no block " + name);
}

struct Expected {
  const char* name;
  Index layer;
  HessianTerm part;
  double power;
};

void expect_powers(const DecoderShape& shape, LogitLoss loss, const std::vector<Expected>& all, double low,
                   double high) {
  for (const Expected& one : all) {
    const auto norm = [&](double sigma) {
      return norm_of(shape, one.name, one.layer, one.part, loss, sigma);
    };
    EXPECT_NEAR(fitted_slope(norm, low, high), one.power, 0.05)
        << one.name << one.layer << " of " << shape.depth << ", part " << static_cast<int>(one.part);
  }
}

TEST(DecoderScaling, of_softmax_attention_is_the_same_in_every_layer_but_for_the_last_value) {
  for (Index depth = 1; depth <= 3; ++depth) {
    DecoderShape shape{12, 18, 4, 6, depth};
    std::vector<Expected> all;
    for (Index l = 0; l < depth; ++l) {
      all.push_back({"W_V", l, HessianTerm::outer, 2});
      all.push_back({"W_Q", l, HessianTerm::outer, 6});
      all.push_back({"W_Q", l, HessianTerm::functional, 5});
      if (l + 1 < depth) all.push_back({"W_V", l, HessianTerm::functional, 3});
    }
    expect_powers(shape, LogitLoss::cross_entropy, all, 1e-3, 1e-2);
    EXPECT_EQ(norm_of(shape, "W_V", depth - 1, HessianTerm::functional, LogitLoss::cross_entropy, 1), 0);
  }
}

TEST(DecoderScaling, of_linear_attention_triples_with_every_layer) {
  for (Index depth = 1; depth <= 3; ++depth) {
    DecoderShape shape{12, 18, 4, 6, depth, Scores::linear, Mask::causal, 0};
    std::vector<Expected> all;
    const double n = std::pow(3, static_cast<double>(depth));
    for (const char* name : {"W_V", "W_Q"}) {
      for (Index l = 0; l < depth; ++l) {
        all.push_back({name, l, HessianTerm::outer, 2 * n});
        if (l + 1 < depth) all.push_back({name, l, HessianTerm::functional, n});
      }
    }
    expect_powers(shape, LogitLoss::squared_error, all, 1e-2, 1e-1);
  }
}

// The residual, which is not normalised, dominates at large sigma: the last LayerNorm gives 1 / sigma.
TEST(DecoderScaling, of_pre_norm_is_flat_at_small_sigma_and_falls_at_large) {
  const DecoderShape shape{12, 18, 6, 8, 1, Scores::softmax, Mask::causal, 1, 1e-14};
  const auto powers = [](double v_o, double v_f, double q_o, double q_f, double q) {
    return std::vector<Expected>{{"W_V", 0, HessianTerm::outer, v_o},
                                 {"W_V", 0, HessianTerm::functional, v_f},
                                 {"W_Q", 0, HessianTerm::outer, q_o},
                                 {"W_Q", 0, HessianTerm::functional, q_f},
                                 {"W_Q", 0, HessianTerm::total, q}};
  };
  // The correction is of order sigma times the size of R over that of X, which is about ten.
  expect_powers(shape, LogitLoss::cross_entropy, powers(0, 0, 0, 0, 0), 1e-4, 1e-3);
  expect_powers(shape, LogitLoss::cross_entropy, powers(-2, -2, -2, -1, -1), 1e2, 1e3);
}

// LayerNorm behind the sums takes one power of sigma from every derivative.
TEST(DecoderScaling, of_post_norm_is_flat_in_value_and_of_fourth_power_in_query) {
  const DecoderShape shape{12, 18, 6, 8, 1, Scores::softmax, Mask::causal, 1, 1e-14, NormPlace::behind};
  const std::vector<Expected> powers{{"W_V", 0, HessianTerm::outer, 0},
                                     {"W_V", 0, HessianTerm::functional, 0},
                                     {"W_Q", 0, HessianTerm::outer, 4},
                                     {"W_Q", 0, HessianTerm::functional, 4},
                                     {"W_K", 0, HessianTerm::total, 4}};
  expect_powers(shape, LogitLoss::cross_entropy, powers, 1e-4, 1e-3);
}

}  // namespace
}  // namespace fluxformer::decoder
