// Networks without some of their heads, beside smaller networks and differences.

#include "analysis/paths/head_pruning.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "analysis/paths/learner_weights.hpp"
#include "base/error.hpp"

namespace fluxformer::paths {
namespace {

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
      for (const int h : kept[static_cast<std::size_t>(l)]) take(block, static_cast<std::size_t>(h), 10);
  for (int l = 0; l < 2; ++l)
    for (const int h : kept[static_cast<std::size_t>(l)])
      take(all.values(weights), static_cast<std::size_t>(3 * l + h), 9);
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
  for (Index k = 0; k < 4; ++k)
    EXPECT_LT((pruned.row(paths[static_cast<std::size_t>(k)]) - left.row(k)).cwiseAbs().maxCoeff(), 1e-15);
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
  EXPECT_EQ(entropies[1], 0);
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

}  // namespace
}  // namespace fluxformer::paths
