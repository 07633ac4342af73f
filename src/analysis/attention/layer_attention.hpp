#pragma once

// The attention of a model's layers, for the samples of a batch and compared with that of other models.

#include <cstdint>
#include <vector>

#include "analysis/attention/attention_measures.hpp"
#include "analysis/model_probe.hpp"
#include "model/sample_set.hpp"

namespace fluxformer::attention {

/// The attention of each layer of a model for one batch.
class LayerAttention {
 public:
  /// `probe` is borrowed. Memory: a slab for each layer. Throws BadInput unless cells end where layers do.
  explicit LayerAttention(ModelProbe& probe);

  /// Selects a batch. Cost: a forward pass.
  void show(const Batch& batch);
  /// [sample][head][query][key] of layer l = 1 .. S, valid until the next call.
  const std::vector<double>& of_layer(int l);
  int heads() const { return probe_.spec().attention.heads; }
  int layers() const { return probe_.spec().layers; }

 private:
  ModelProbe& probe_;
  std::vector<std::vector<double>> entries_;  // the state at which each layer begins
  std::vector<double> u_, k_;
};

/// The scores of the attention of `t` with that of each of the others, layer by layer (of the meter from 0).
/// Samples with fewer than two real tokens are left out: their rows carry no information. All models have
/// the same number of layers. `seed`: of the permuted keys. `pairs`: the heads of each of the others that were
/// matched, to keep the scores of each sample; empty: they are not kept. Collective over the ranks of the
/// samples.
std::vector<AttentionAccumulator> compare_attention(const SampleSet& samples, ModelProbe& t,
                                                    const std::vector<ModelProbe*>& others,
                                                    std::uint64_t seed,
                                                    const std::vector<HeadMatch>& pairs = {});

/// Attention of the first sample, averaged over the heads, [layer][query][key], on all ranks.
/// Collective.
std::vector<double> attention_map(const SampleSet& samples, ModelProbe& probe);

/// The best match of each layer (match_heads).
HeadMatch match_layers(const AttentionAccumulator& validation, RowScore by);
/// Head h with head h, as far as both models have one.
HeadMatch heads_in_order(const AttentionAccumulator::Shape& shape);

}  // namespace fluxformer::attention
