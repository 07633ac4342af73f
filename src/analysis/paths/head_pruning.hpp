#pragma once

// What attention heads are worth, by the theory of attention paths and by usual rules, and networks that lose
// some of them without training again: networks of attention paths, and models of `train`. Source:
// docs/model.md, sections 11.6 and 11.14; first-order scores: Michel, Levy, Neubig, "Are sixteen heads really
// better than one?", NeurIPS 2019.

#include <Eigen/Core>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "analysis/identifiability/model_heads.hpp"
#include "analysis/paths/frozen_attention.hpp"
#include "analysis/paths/path_examples.hpp"

namespace fluxformer::paths {

/// One head; layer and head count from 0.
struct HeadPlace {
  int layer = 0, head = 0;
};

/// The heads of all layers, the first layer's first. "By layers" below means this order.
std::vector<HeadPlace> all_heads(const std::vector<int>& heads);

/// [path]: 1 for the paths through a head, 0 for the others.
Eigen::VectorXd paths_through(const HeadPlace& head, const std::vector<int>& heads);

/// score(l, h) = sum of |U_1^{pi pi'}| over the pairs of paths of which at least one goes through head h of
/// layer l. By layers; not normalised.
std::vector<double> head_scores(const Eigen::MatrixXd& u, const std::vector<int>& heads);

/// All heads, the smallest score first; of equal ones the first.
std::vector<HeadPlace> in_rising_order(const std::vector<double>& scores, const std::vector<int>& heads);

/// U_1 with zeros in the rows and columns of all paths through the head.
Eigen::MatrixXd without_head(const Eigen::MatrixXd& u, const HeadPlace& head, const std::vector<int>& heads);

/// Accuracy of a network without the heads given.
using PrunedAccuracy = std::function<double(std::span<const HeadPlace>)>;

/// Accuracies after one, two, ... heads of `order` are silenced. NaN from where a layer has no head left.
std::vector<double> accuracies_without(const std::vector<HeadPlace>& order, const std::vector<int>& heads,
                                       const PrunedAccuracy& accuracy);

/// The accuracy of the whole network, then `accuracies_without`.
std::vector<double> pruning_curve(const std::vector<HeadPlace>& order, const std::vector<int>& heads,
                                  const PrunedAccuracy& accuracy);

/// Gain of `curve` over `other`: the accuracy that `other` loses less that which `curve` loses, in the mean
/// over one, two, ... half of all heads, where neither is NaN; NaN if they have nothing in common. Both begin
/// with the same accuracy.
double pruning_gain(std::span<const double> curve, std::span<const double> other);
/// The accuracy that `curve` loses, in the mean over one, two, ... half of all heads.
double pruning_loss(std::span<const double> curve);

/// All heads in the random order of (seed, k).
std::vector<HeadPlace> random_order(const std::vector<int>& heads, std::uint64_t seed, std::uint64_t k);

/// Input weights (paths x D) of the network that has lost these heads: 0 for paths through them, the others
/// times sqrt(H / (H - k)) for each layer of H heads that has lost k. Throws BadInput if a layer has lost all
/// of them.
RowMatrix without_heads(const RowMatrix& input_weights, const std::vector<int>& heads,
                        std::span<const HeadPlace> lost);

/// Mean over examples of |d (f - y)^2 / d gate|, where a gate of 1 multiplies what a head adds. By layers.
std::vector<double> first_order_scores(const PathExamples& examples, const RowMatrix& input_weights,
                                       const std::vector<int>& heads);

/// - sum_s A_{s t} ln A_{s t} of each head, mean over queries t and examples, in nats. By layers. tokens(k)
/// gives x of example k.
std::vector<double> mean_entropies(const FrozenAttention& attention, int count,
                                   const std::function<Eigen::MatrixXd(int)>& tokens);

/// Takes away what these heads add to a model of `train`: their columns of W_O become 0. Throws BadInput for
/// a head that the model does not have.
void silence(Parameters& parameters, std::span<const HeadPlace> lost);

/// xi of every path of one sample of a model (paths x width): attention is that of the model's own states in
/// each layer, its input the embedded tokens, and the mean over tokens is read out. `layers`: the heads of
/// each layer; `embedded`: tokens x width.
RowMatrix attentioned_states(const std::vector<identifiability::LayerHeads>& layers,
                             const RowMatrix& embedded);

/// - sum A ln A of each head of a model, mean over the rows, in nats. By layers.
std::vector<double> row_entropies(const std::vector<identifiability::LayerHeads>& layers);

/// d loss / d gate of each head of a model at a batch of one sample, where a gate of 1 multiplies what a head
/// adds; the loss is cross entropy. By layers. Not collective: the sample is whole on this rank.
std::vector<double> gate_slopes(ModelProbe& probe, const Batch& batch);

}  // namespace fluxformer::paths
