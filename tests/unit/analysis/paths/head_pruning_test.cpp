// Scores of heads and overlaps with the labels, on matrices small enough to see the answer.

#include <gtest/gtest.h>
#include <algorithm>
#include <cmath>
#include <set>

#include "analysis/paths/head_pruning.hpp"
#include "analysis/paths/path_kernels.hpp"
#include "analysis/paths/path_learner.hpp"
#include "base/error.hpp"
#include "model/tasks/task.hpp"
#include "tests/unit/analysis/paths/random_paths.hpp"
#include "tests/unit/analysis/probe_case.hpp"

namespace fluxformer::paths {
namespace {

using namespace test;
using Eigen::MatrixXd;

/// The order parameters of the published draws: four paths, N = 10.
MatrixXd published() {
  MatrixXd u(4, 4);
  u << 13.36534, -.00397, -5.39702, -.33955, -.00397, .54629, -.16442, .04432, -5.39702, -.16442, 6.74519,
      .01908, -.33955, .04432, .01908, .34342;
  return u;
}

TEST(HeadScores, are_those_of_the_published_order_parameters) {
  const auto scores = head_scores(published(), {2, 2});
  const std::vector<double> wanted = {25.81, 19.02, 31.96, 2.03};  // layer 1, layer 2
  ASSERT_EQ(scores.size(), wanted.size());
  for (std::size_t k = 0; k < wanted.size(); ++k) EXPECT_NEAR(scores[k], wanted[k], 0.005);  // printed digits
}

TEST(HeadScores, count_each_pair_of_paths_through_a_head_once) {
  const std::vector<int> heads = {2, 1, 3};
  const MatrixXd u = random_covariance(6, 3);
  const auto scores = head_scores(u, heads);
  ASSERT_EQ(scores.size(), 6U);
  std::size_t place = 0;
  for (std::size_t l = 0; l < 3; ++l)
    for (int h = 0; h < heads[l]; ++h, ++place) {
      double sum = 0;
      for (int p = 0; p < 6; ++p)
        for (int q = 0; q < 6; ++q)
          if (heads_of_path(p, heads)[l] == h || heads_of_path(q, heads)[l] == h) sum += std::abs(u(p, q));
      EXPECT_NEAR(scores[place], sum, 1e-13);
    }
  EXPECT_NEAR(scores[2], u.cwiseAbs().sum(), 1e-13);  // every path goes through a layer's only head
}

TEST(HeadScores, sort_heads_from_the_least) {
  const auto rising = in_rising_order({25.81, 19.02, 31.96, 2.03}, {2, 2});
  const std::vector<std::pair<int, int>> wanted = {{1, 1}, {0, 1}, {0, 0}, {1, 0}};
  for (std::size_t k = 0; k < wanted.size(); ++k) {
    EXPECT_EQ(rising[k].layer, wanted[k].first);
    EXPECT_EQ(rising[k].head, wanted[k].second);
  }
}

TEST(HeadScores, of_a_silenced_head_are_zero) {
  const auto u = without_head(published(), {0, 1}, {2, 2});  // paths 2 and 3
  EXPECT_EQ(u.topLeftCorner(2, 2), published().topLeftCorner(2, 2));
  EXPECT_EQ(u.bottomRows(2).cwiseAbs().sum(), 0);
  EXPECT_EQ(u.rightCols(2).cwiseAbs().sum(), 0);
  EXPECT_EQ(head_scores(u, {2, 2})[1], 0);
}

TEST(TaskOverlaps, are_1_where_the_labels_are_a_component) {
  const Eigen::Vector4d y(1, -1, -1, 1), other(1, 1, -1, -1);
  const MatrixXd k = 2 * y * y.transpose() + 5 * other * other.transpose();
  const auto overlaps = task_overlaps(k, y);
  EXPECT_NEAR(overlaps[0], 0, 1e-14);  // the other one has the largest eigenvalue
  EXPECT_NEAR(overlaps[1], 1, 1e-14);
  EXPECT_NEAR(task_overlaps(random_covariance(4, 1), y).squaredNorm(), 1, 1e-14);
}

// Networks without some of their heads, beside smaller networks and differences.

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr LearnerShape shape{.dimension = 5, .tokens = 4, .width = 3, .layers = 2, .heads = 3, .key = 2};

PathExamples some_examples(Index count) {
  PathExamples examples{.inputs = RowMatrix::Random(count, 9 * 5), .targets = VectorXd::Ones(count)};
  examples.targets.head(count / 2).setConstant(-1);
  return examples;
}

/// The weights of a network that has these heads of both layers only.
std::vector<double> smaller(const LearnerWeights& all, const std::vector<double>& weights,
                            const std::vector<std::vector<int>>& kept) {
  std::vector<double> left;
  const auto take = [&](std::span<const double> from, std::size_t place, std::size_t size) {
    left.insert(left.end(), from.begin() + static_cast<std::ptrdiff_t>(place * size),
                from.begin() + static_cast<std::ptrdiff_t>((place + 1) * size));
  };
  take(all.input(weights), 0, 15);
  for (int l = 0; l < 2; ++l)
    for (const auto& block : {all.queries(weights, l), all.keys(weights, l)})
      for (const int h : kept[l]) take(block, static_cast<std::size_t>(h), 10);
  for (int l = 0; l < 2; ++l)
    for (const int h : kept[l]) take(all.values(weights), static_cast<std::size_t>(3 * l + h), 9);
  take(all.readout(weights), 0, 3);
  return left;
}

TEST(HeadPruning, IsASmallerNetwork) {
  const LearnerWeights all(shape);
  const auto weights = all.initial(2);
  const std::vector<HeadPlace> lost{{1, 2}, {0, 0}};
  const auto pruned = without_heads(all.input_weights(weights), {3, 3}, lost);
  auto fewer = shape;
  fewer.heads = 2;
  const LearnerWeights few(fewer);
  const auto left = few.input_weights(smaller(all, weights, {{1, 2}, {0, 1}}));
  // Paths 1 .. 2 of layer 1 and 0 .. 1 of layer 2.
  const std::vector<Index> paths{3, 4, 6, 7};
  for (Index k = 0; k < 4; ++k) EXPECT_LT((pruned.row(paths[k]) - left.row(k)).cwiseAbs().maxCoeff(), 1e-15);
  for (const Index gone : {0, 1, 2, 5, 8}) EXPECT_EQ(pruned.row(gone).cwiseAbs().maxCoeff(), 0);
  EXPECT_THROW(without_heads(pruned, {3, 3}, std::vector<HeadPlace>{{0, 0}, {0, 1}, {0, 2}}), BadInput);
}

TEST(HeadPruning, FirstOrderScoresAreSlopesOfTheLoss) {
  const std::vector<int> heads{3, 3};
  const LearnerWeights all(shape);
  const auto weights = all.input_weights(all.initial(4));
  const auto examples = some_examples(6);
  const auto scores = first_order_scores(examples, weights, heads);
  const auto places = all_heads(heads);
  ASSERT_EQ(scores.size(), places.size());
  for (std::size_t k = 0; k < places.size(); ++k) {
    const VectorXd through = paths_through(places[k], heads);
    const auto losses = [&](double gate) -> VectorXd {
      const RowMatrix gated = (VectorXd::Ones(9) + (gate - 1) * through).asDiagonal() * weights;
      return (outputs(examples.inputs, gated) - examples.targets).array().square();
    };
    // The loss is a parabola in the gate: central differences are exact but for round-off.
    const VectorXd slopes = (losses(1.5) - losses(0.5));
    EXPECT_NEAR(scores[k], slopes.cwiseAbs().mean(), 1e-13);
  }
}

TEST(HeadPruning, EntropyIsThatOfTheAttention) {
  const MatrixXd nothing = MatrixXd::Zero(5, 5), sharp = 1e4 * MatrixXd::Identity(5, 5);
  const FrozenAttention attention({{BilinearHead{nothing}, BilinearHead{sharp}}}, ReadOut::average_pooling);
  const auto entropies =
      mean_entropies(attention, 2, [](int) -> MatrixXd { return MatrixXd::Identity(5, 4); });
  EXPECT_NEAR(entropies[0], std::log(4.0), 1e-14);
  // Vectorised exponentials end at the least normal number, not at 0.
  EXPECT_LT(entropies[1], 1e-300);
}

TEST(HeadPruning, CurvesEndWhereALayerIsEmpty) {
  const std::vector<int> heads{2, 3};
  const std::vector<HeadPlace> order{{1, 1}, {0, 0}, {0, 1}, {1, 0}, {1, 2}};
  const auto curve =
      pruning_curve(order, heads, [](auto lost) { return 1 - 0.1 * static_cast<double>(lost.size()); });
  ASSERT_EQ(curve.size(), 6U);
  for (std::size_t k = 0; k < 3; ++k) EXPECT_NEAR(curve[k], 1 - 0.1 * static_cast<double>(k), 1e-15);
  for (std::size_t k = 3; k < 6; ++k) EXPECT_TRUE(std::isnan(curve[k]));
  EXPECT_NEAR(pruning_loss(curve), 0.15, 1e-15);  // one and two of five
  const std::vector<double> other{1, 0.5, std::nan(""), 0, 0, 0}, none{0.9, std::nan("")};
  EXPECT_NEAR(pruning_gain(curve, other), 0.4, 1e-15);  // one of five alone: both have a number there
  EXPECT_NEAR(pruning_gain(other, curve), -0.4, 1e-15);
  EXPECT_TRUE(std::isnan(pruning_loss(none)));
}

TEST(HeadPruning, RandomOrdersHoldEachHeadOnce) {
  const std::vector<int> heads{2, 3};
  std::set<std::vector<int>> seen;
  for (std::uint64_t k = 0; k < 20; ++k) {
    std::vector<int> numbers;
    for (const auto& head : random_order(heads, 3, k)) numbers.push_back(10 * head.layer + head.head);
    seen.insert(numbers);
    std::ranges::sort(numbers);
    EXPECT_EQ(numbers, (std::vector<int>{0, 1, 10, 11, 12}));
  }
  EXPECT_GT(seen.size(), 10U);
}

// What heads of a small model are worth, beside sums over chains of tokens and differences of its loss.

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
    probe = std::make_unique<ModelProbe>(on_cells(parameters, 2), line, 1, Precision::float64);
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

/// Parameters in which the contribution of a head is multiplied by `gate`.
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
      const auto& a = layers[0][first].weights;
      const auto& b = layers[1][second].weights;
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
  EXPECT_NEAR(entropies[count], sum, 1e-13);
}

}  // namespace
}  // namespace fluxformer::paths
