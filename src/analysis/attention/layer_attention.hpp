#pragma once

// Attention of the layers of a model: for the samples of a batch, and compared with that of other models.

#include <cstdint>
#include <vector>

#include "analysis/attention/attention_measures.hpp"
#include "analysis/model_probe.hpp"
#include "model/sample_set.hpp"

namespace fluxformer::attention {

/// Attention of each layer of a model for one batch.
class LayerAttention {
 public:
  /// `probe` is borrowed. Memory: a slab for each layer. Throws BadInput unless depth cells end where layers
  /// do.
  explicit LayerAttention(ModelProbe& probe);

  /// Selects a batch, at the cost of a forward pass.
  void show(const Batch& batch);
  /// Attention of layer l = 1 .. S, [sample][head][query][key], valid until the next call.
  const std::vector<double>& of_layer(int l);
  /// The keys that layer l sees of a sample with `length` real tokens among `tokens`.
  VisibleKeys keys(int l, int tokens, int length) const {
    return {tokens, length, reach_of(probe_.spec().causal, probe_.spec().window(l))};
  }
  int heads() const { return probe_.spec().attention.heads; }
  int layers() const { return probe_.spec().layers; }

 private:
  ModelProbe& probe_;
  std::vector<int> rows_;                     // at which layers end
  std::vector<std::vector<double>> entries_;  // the state at which each layer begins
  std::vector<double> u_, k_;
};

/// Attention of several models on the same samples, layer by layer (counted from 0).
struct ComparedAttention {
  std::vector<AttentionAccumulator> scores;  ///< of T with each of the others
  std::vector<HeadAccumulator> heads;        ///< of T, then of each of the others
};

/// Scores of the attention of `t` with that of each of the others, of which there may be none, and the measures
/// of the heads of all of them. The scores leave out samples in which no token sees another one: their rows
/// carry no information. All models have the same number of layers, and see the same keys in each. `seed` keys
/// the permutations of keys. `pairs` holds the matched heads of each of the others; with it, the scores of each
/// sample are kept. Collective over the ranks of the samples.
ComparedAttention compare_attention(const SampleSet& samples, ModelProbe& t,
                                    const std::vector<ModelProbe*>& others, std::uint64_t seed,
                                    const std::vector<HeadMatch>& pairs = {});

/// Attention of the first sample, averaged over the heads, [layer][query][key], on all ranks. Collective.
std::vector<double> attention_map(const SampleSet& samples, ModelProbe& probe);

/// Best match of the heads of each layer (match_heads).
HeadMatch match_layers(const AttentionAccumulator& validation, RowScore by);
/// Match of head h with head h, as far as both models have one.
HeadMatch heads_in_order(const AttentionAccumulator::Shape& shape);

}  // namespace fluxformer::attention
