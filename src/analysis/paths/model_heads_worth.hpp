#pragma once

// What the heads of a trained model are worth, by its attention paths and by usual rules, and the model without some of them.
// Source: specification of attention paths, sections 7.2 and 7.3.

#include <span>
#include <vector>

#include "analysis/identifiability/model_heads.hpp"
#include "analysis/paths/head_scores.hpp"
#include "analysis/paths/path_examples.hpp"

namespace fluxformer::paths {

/// The model without what these heads add: their columns of W_O become 0. Throws BadInput for a head that it does not have.
void silence(Parameters& parameters, std::span<const HeadPlace> lost);

/// xi of every path of one sample (paths x width): attention is that of the model's own states in each layer, its input the
/// embedded tokens, and the mean over tokens is read out. `layers`: the heads of each layer; `embedded`: tokens x width.
RowMatrix attentioned_states(const std::vector<identifiability::LayerHeads>& layers,
                             const RowMatrix& embedded);

/// - sum A ln A of each head, mean over the rows, in nats. By layers.
std::vector<double> row_entropies(const std::vector<identifiability::LayerHeads>& layers);

/// d loss / d gate of each head at a batch of one sample, where a gate of 1 multiplies what a head adds; the loss is cross
/// entropy. By layers. Not collective: the sample is whole on this rank.
std::vector<double> gate_slopes(ModelProbe& probe, const Batch& batch);

}  // namespace fluxformer::paths
