// The attention of a model's layers, and which heads are compared.

#include "analysis/attention/layer_attention.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.hpp"
#include "tests/support/listed_samples.hpp"
#include "tests/unit/analysis/probe_case.hpp"

namespace fluxformer::attention {
namespace {

using namespace test;

constexpr double layer_attention_rounding = 1e-12;

TEST(LayerAttention, is_that_of_the_cell_at_which_the_layer_begins) {
  ProbeCase c({.kind = ModelKind::pde, .layers = 2, .cells = 6}, 2);
  const auto batch = c.batch({1, 2});
  LayerAttention layers(c.probe);
  layers.show(batch);
  EXPECT_EQ(layers.layers(), 2);
  std::vector<double> u, expected;
  c.probe.embed(batch, u);
  std::vector<std::vector<double>> rows;
  c.probe.forward(u, Keep::nothing, [&](int, const double* row) { rows.emplace_back(row, row + u.size()); });
  for (const int l : {1, 2}) {
    c.probe.attention(3 * (l - 1), rows[3 * (l - 1)].data(), expected);
    EXPECT_EQ(layers.of_layer(l), expected);
  }
}

TEST(LayerAttention, is_refused_unless_cells_end_where_layers_do) {
  ProbeCase c({.kind = ModelKind::pde, .layers = 2, .cells = 5}, 1);
  EXPECT_THROW(LayerAttention{c.probe}, BadInput);
}

/// Samples of 5 tokens, the last of them of a single real one, and two models for them.
struct Compared {
  Compared() : data(make_data()), line(token_line(MPI_COMM_SELF, data)) {}
  static ListedSamples make_data() {
    auto content = ListedSamples::Content{.tokens_x = 5,
                                          .features = 3,
                                          .classes = 4,
                                          .input = random_vector(3 * 5 * 3, 4),
                                          .lengths = {5, 3, 1},
                                          .labels = {0, 1, 2}};
    return ListedSamples(std::move(content));
  }
  ModelProbe probe(double value) const {
    auto parameters = probe_parameters({.tokens_x = 5, .tokens_y = 1});
    for (auto& w : parameters.view("layers/1/W_Q")) w *= value;
    return {parameters, line, 3, Precision::float64};
  }
  SampleSet samples() const { return {MPI_COMM_SELF, line, data, all_of(data), 3}; }

  ListedSamples data;
  TokenLine line;
};

TEST(ComparedAttention, of_a_model_with_itself_is_perfect_and_leaves_single_tokens_out) {
  const Compared c;
  auto one = c.probe(1), other = c.probe(3);
  const auto meters = compare_attention(c.samples(), one, {&one, &other}, 1).scores;
  for (int l = 0; l < 2; ++l) {
    EXPECT_EQ(meters[0].samples(l), 2);
    for (int h = 0; h < 2; ++h) {
      EXPECT_NEAR(meters[0].score(RowScore::centred, l, h, h), 1, layer_attention_rounding);
      EXPECT_NEAR(meters[0].score(RowScore::tv, l, h, h), 0, layer_attention_rounding);
    }
  }
  EXPECT_GT(meters[1].score(RowScore::tv, 0, 0, 0), 1e-3);
}

TEST(ComparedAttention, keeps_each_sample_in_its_place_with_the_heads_that_were_matched) {
  const Compared c;
  auto one = c.probe(1), other = c.probe(3);
  const std::vector<HeadMatch> pairs{{{1, 0}, {0, 1}}, {{0, 1}, {1, 0}}};
  const std::vector<ModelProbe*> others{&other, &one};
  const auto meters = compare_attention(c.samples().with({1, 2, 0}, 3), one, others, 1, pairs).scores;
  for (std::size_t k = 0; k < 2; ++k) {
    const auto each = meters[k].by_sample().of(RowScore::kl, Against::match);
    ASSERT_EQ(each.size(), 3u);
    EXPECT_TRUE(std::isnan(each[1]));  // a single real token
    for (const std::size_t place : {0u, 2u}) {
      const auto alone =
          compare_attention(c.samples().with({place == 0 ? 1u : 0u}, 3), one, {others[k]}, 1).scores[0];
      double expected = 0;
      for (int l = 0; l < 2; ++l) expected += matched_score(alone, l, pairs[k][l], RowScore::kl) / 2;
      EXPECT_NEAR(each[place], expected, layer_attention_rounding);
      EXPECT_GT(expected, 1e-6);
    }
  }
}

TEST(AttentionMap, is_the_mean_over_the_heads_of_the_first_sample) {
  const Compared c;
  auto probe = c.probe(1);
  const auto map = attention_map(c.samples().with({1, 0}, 3), probe);
  ASSERT_EQ(map.size(), 2u * 5 * 5);
  for (std::size_t l = 0; l < 2; ++l)
    for (std::size_t query = 0; query < 3; ++query) {  // sample 1 has three real tokens
      const double* const row = map.data() + (l * 5 + query) * 5;
      EXPECT_NEAR(row[0] + row[1] + row[2], 1, layer_attention_rounding);
      EXPECT_EQ(row[3], 0);
      EXPECT_EQ(row[4], 0);
    }
}

TEST(HeadMatch, in_order_pairs_heads_as_far_as_there_are_so_many) {
  EXPECT_EQ(heads_in_order({2, 3, 3}), (HeadMatch{{0, 1, 2}, {0, 1, 2}}));
  EXPECT_EQ(heads_in_order({1, 3, 2}), (HeadMatch{{0, 1, -1}}));
  EXPECT_EQ(heads_in_order({1, 1, 4}), (HeadMatch{{0}}));
}

TEST(HeadMatch, of_layers_is_that_of_each_of_them) {
  const Compared c;
  auto one = c.probe(1);
  const auto meters = compare_attention(c.samples(), one, {&one}, 1).scores;
  EXPECT_EQ(match_layers(meters[0], RowScore::centred), heads_in_order(meters[0].shape()));
}

}  // namespace
}  // namespace fluxformer::attention
