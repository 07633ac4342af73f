#include "analysis/paths/head_pruning.hpp"

#include <cmath>
#include <limits>
#include <string>

#include "analysis/attention/field_attention.hpp"
#include "base/error.hpp"
#include "base/random.hpp"

namespace fluxformer::paths {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

std::vector<double> accuracies_without(const std::vector<HeadPlace>& order, const std::vector<int>& heads,
                                       const PrunedAccuracy& accuracy) {
  std::vector<double> accuracies;
  auto left = heads;
  bool whole = true;
  accuracies.reserve(order.size());
  for (std::size_t k = 0; k < order.size(); ++k) {
    whole = whole && --left[order[k].layer] > 0;
    accuracies.push_back(whole ? accuracy(std::span(order).first(k + 1))
                               : std::numeric_limits<double>::quiet_NaN());
  }
  return accuracies;
}

std::vector<double> pruning_curve(const std::vector<HeadPlace>& order, const std::vector<int>& heads,
                                  const PrunedAccuracy& accuracy) {
  std::vector<double> curve{accuracy({})};
  const auto rest = accuracies_without(order, heads, accuracy);
  curve.insert(curve.end(), rest.begin(), rest.end());
  return curve;
}

double pruning_gain(std::span<const double> curve, std::span<const double> other) {
  double sum = 0;
  int count = 0;
  for (std::size_t lost = 1; 2 * lost < curve.size(); ++lost) {
    const double gain = curve[lost] - other[lost];
    if (!std::isfinite(gain)) continue;
    sum += gain;
    ++count;
  }
  return count > 0 ? sum / count : std::numeric_limits<double>::quiet_NaN();
}

double pruning_loss(std::span<const double> curve) {
  return -pruning_gain(curve, std::vector<double>(curve.size(), curve.front()));
}

std::vector<HeadPlace> random_order(const std::vector<int>& heads, std::uint64_t seed, std::uint64_t k) {
  const auto all = all_heads(heads);
  std::vector<HeadPlace> order;
  order.reserve(all.size());
  for (const auto place : shuffled(all.size(), seed, "heads to silence", k)) order.push_back(all[place]);
  return order;
}

RowMatrix without_heads(const RowMatrix& input_weights, const std::vector<int>& heads,
                        std::span<const HeadPlace> lost) {
  RowMatrix left = input_weights;
  auto remaining = heads;
  for (const auto& head : lost) {
    left = (VectorXd::Ones(left.rows()) - paths_through(head, heads)).asDiagonal() * left;
    --remaining[head.layer];
  }
  for (std::size_t l = 0; l < heads.size(); ++l) {
    if (remaining[l] < 1) throw BadInput("layer " + std::to_string(l + 1) + " has lost all its heads");
    left *= std::sqrt(static_cast<double>(heads[l]) / remaining[l]);
  }
  return left;
}

std::vector<double> first_order_scores(const PathExamples& examples, const RowMatrix& input_weights,
                                       const std::vector<int>& heads) {
  const VectorXd error = outputs(examples.inputs, input_weights) - examples.targets;
  std::vector<double> scores;
  const auto all = all_heads(heads);
  scores.reserve(all.size());
  for (const auto& head : all) {
    const RowMatrix through = paths_through(head, heads).asDiagonal() * input_weights;
    scores.push_back(2 * error.cwiseProduct(outputs(examples.inputs, through)).cwiseAbs().mean());
  }
  return scores;
}

std::vector<double> mean_entropies(const FrozenAttention& attention, int count,
                                   const std::function<MatrixXd(int)>& tokens) {
  const auto all = all_heads(attention.heads());
  std::vector<double> entropies(all.size());
  for (int k = 0; k < count; ++k) {
    const MatrixXd x = tokens(k);
    for (std::size_t h = 0; h < all.size(); ++h) {
      const auto a = attention_columns(attention.head(all[h].layer, all[h].head), x, x);
      entropies[h] += attention::row_entropy(a.data(), static_cast<std::size_t>(a.size())) /
                      static_cast<double>(a.cols()) / count;
    }
  }
  return entropies;
}

}  // namespace fluxformer::paths
