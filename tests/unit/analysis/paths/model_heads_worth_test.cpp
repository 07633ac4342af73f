// What heads of a small model are worth, beside sums over chains of tokens and differences of its loss.

#include "analysis/paths/model_heads_worth.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.hpp"
#include "model/loss.hpp"
#include "tests/unit/analysis/probe_case.hpp"

namespace fluxformer::paths {
namespace {

using namespace fluxformer::test;
using Eigen::Index;
using identifiability::ModelHeads;

constexpr int model_heads_worth_tokens = 7, features = 3;

ModelSpec classifier() {
  ModelSpec model = small_model(2);
  model.features = features;
  model.tokens = model_heads_worth_tokens;
  model.classes = 4;
  return model;
}

struct Probed {
  explicit Probed(Parameters weights) : parameters(std::move(weights)) {
    probe = std::make_unique<ModelProbe>(parameters, line, 1, 2, Precision::float64);
  }
  Batch batch(int length) const {
    return {.input = random_vector(static_cast<std::size_t>(model_heads_worth_tokens * features), 5),
            .length = {length},
            .label = {2},
            .weight = {1},
            .key = {0}};
  }
  double loss(int length) {
    std::vector<double> u;
    probe->embed(batch(length), u);
    const auto& logits = probe->forward(u);
    return loss_of({}, logits.data(), 4, 2, 1, nullptr);
  }
  TokenLine line = TokenLine::even(MPI_COMM_SELF, model_heads_worth_tokens, 1);
  Parameters parameters;
  std::unique_ptr<ModelProbe> probe;
};

Parameters some_parameters() {
  return random_parameters({.model = classifier(), .kappa = 0});
}

/// What a head adds, times `gate`.
Parameters gated(Parameters parameters, const HeadPlace& head, double gate) {
  const auto& spec = parameters.spec;
  const Index channels = spec.width / spec.attention.heads;
  Eigen::Map<RowMatrix>(parameters.view("layers/" + std::to_string(head.layer + 1) + "/W_O").data(),
                        spec.width, spec.width)
      .middleCols(head.head * channels, channels) *= gate;
  return parameters;
}

TEST(ModelHeadsWorth, SlopesOfGatesAreThoseOfDifferences) {
  const auto parameters = some_parameters();
  Probed whole(parameters);
  const auto heads = all_heads({parameters.spec.attention.heads, parameters.spec.attention.heads});
  for (const int length : {model_heads_worth_tokens, 4}) {
    const auto slopes = gate_slopes(*whole.probe, whole.batch(length));
    ASSERT_EQ(slopes.size(), heads.size());
    for (std::size_t k = 0; k < heads.size(); ++k) {
      constexpr double h = 3e-4;
      const auto at = [&](double gate) { return Probed(gated(parameters, heads[k], gate)).loss(length); };
      // Fourth order: h^4 = 1e-14, times a fifth derivative of some hundred, beside round-off of 1e-16 / h.
      const double slope = (8 * (at(1 + h) - at(1 - h)) - (at(1 + 2 * h) - at(1 - 2 * h))) / (12 * h);
      EXPECT_NEAR(slopes[k], slope, 1e-11);
    }
  }
}

TEST(ModelHeadsWorth, SilencedHeadsAddNothing) {
  const auto parameters = some_parameters();
  auto left = parameters;
  const std::vector<HeadPlace> lost{{1, 0}, {0, 1}};
  silence(left, lost);
  EXPECT_EQ(left.values, gated(gated(parameters, lost[0], 0), lost[1], 0).values);
  EXPECT_NE(Probed(left).loss(model_heads_worth_tokens), Probed(parameters).loss(model_heads_worth_tokens));
  EXPECT_THROW(silence(left, std::vector<HeadPlace>{{2, 0}}), BadInput);
  EXPECT_THROW(silence(left, std::vector<HeadPlace>{{0, parameters.spec.attention.heads}}), BadInput);
}

TEST(ModelHeadsWorth, AttentionedStatesAreSumsOverChainsOfTokens) {
  Probed one(some_parameters());
  ModelHeads heads(*one.probe);
  const auto batch = one.batch(5);
  heads.show(batch);
  std::vector<identifiability::LayerHeads> layers;
  for (int l = 1; l <= 2; ++l) {
    heads.select(l);
    layers.push_back(heads.of_sample(0));
  }
  const RowMatrix embedded = RowMatrix::Random(5, 6);
  const auto xi = attentioned_states(layers, embedded);
  const auto count = static_cast<Index>(heads.heads());
  ASSERT_EQ(xi.rows(), count * count);
  for (Index first = 0; first < count; ++first)
    for (Index second = 0; second < count; ++second) {
      const auto& a = layers[0][static_cast<std::size_t>(first)].weights;
      const auto& b = layers[1][static_cast<std::size_t>(second)].weights;
      Eigen::RowVectorXd sum = Eigen::RowVectorXd::Zero(6);
      for (Index read = 0; read < 5; ++read)
        for (Index middle = 0; middle < 5; ++middle)
          for (Index key = 0; key < 5; ++key) sum += b(read, middle) * a(middle, key) / 5 * embedded.row(key);
      // Sums of 125 products.
      EXPECT_LT((xi.row(first * count + second) - sum).cwiseAbs().maxCoeff(), 1e-14);
    }
  const auto entropies = row_entropies(layers);
  ASSERT_EQ(entropies.size(), static_cast<std::size_t>(2 * count));
  double sum = 0;
  const auto& a = layers[1][0].weights;
  for (Index i = 0; i < 5; ++i)
    for (Index j = 0; j < 5; ++j) sum -= a(i, j) * std::log(a(i, j)) / 5;
  EXPECT_NEAR(entropies[static_cast<std::size_t>(count)], sum, 1e-13);
}

}  // namespace
}  // namespace fluxformer::paths
