#pragma once

// Heads of a trained network are silenced one after another, without training it again. Source: specification of attention
// paths, section 7.3; first-order scores: Michel, Levy, Neubig, "Are sixteen heads really better than one?", NeurIPS 2019.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "analysis/paths/frozen_attention.hpp"
#include "analysis/paths/head_scores.hpp"
#include "analysis/paths/path_examples.hpp"

namespace fluxformer::paths {

/// Accuracy of a network without these heads.
using PrunedAccuracy = std::function<double(std::span<const HeadPlace>)>;

/// After one, two, ... heads of `order`. NaN from where a layer has no head left.
std::vector<double> accuracies_without(const std::vector<HeadPlace>& order, const std::vector<int>& heads,
                                       const PrunedAccuracy& accuracy);

/// The same after that of the whole network.
std::vector<double> pruning_curve(const std::vector<HeadPlace>& order, const std::vector<int>& heads,
                                  const PrunedAccuracy& accuracy);

/// What `other` loses less what `curve` loses, in the mean over one, two, ... half of all heads, where neither is NaN; NaN if
/// they have nothing in common. Both begin with the same accuracy.
double pruning_gain(std::span<const double> curve, std::span<const double> other);
/// The same over a network that loses nothing, with the opposite sign: the accuracy lost.
double pruning_loss(std::span<const double> curve);

/// All heads in the random order of (seed, k).
std::vector<HeadPlace> random_order(const std::vector<int>& heads, std::uint64_t seed, std::uint64_t k);

/// Input weights (paths x D) of the network that has lost these heads: 0 for paths through them, the others times
/// sqrt(H / (H - k)) for each layer of H heads that has lost k. Throws BadInput if a layer has lost all of them.
RowMatrix without_heads(const RowMatrix& input_weights, const std::vector<int>& heads,
                        std::span<const HeadPlace> lost);

/// Mean over examples of |d (f - y)^2 / d gate|, where a gate of 1 multiplies what a head adds. By layers.
std::vector<double> first_order_scores(const PathExamples& examples, const RowMatrix& input_weights,
                                       const std::vector<int>& heads);

/// - sum_s A_{s t} ln A_{s t} of each head, mean over queries t and examples, in nats. By layers. tokens(k): x of example k.
std::vector<double> mean_entropies(const FrozenAttention& attention, int count,
                                   const std::function<Eigen::MatrixXd(int)>& tokens);

}  // namespace fluxformer::paths
