#pragma once

// `hessian_blocks` and `hessian_scaling`: the attention layers of a small decoder that adds numbers
// (analysis/decoder/decoder.hpp), with random weights from several seeds. `hessian_blocks` measures the sizes of
// the entries of the Hessian's blocks, `hessian_scaling` how their norms grow with the size of the embeddings.
// Places: kind of layer, seed and, where norms are followed, size of the embeddings.

#include <string>
#include <vector>

#include "analysis/decoder/layer_measures.hpp"
#include "base/settings.hpp"

namespace fluxformer {

/// Settings of a study of layers.
struct LayerPlan {
  std::vector<std::string> kinds;  ///< kinds of layers: softmax, linear, ...
  std::vector<long> seeds;
  decoder::LayerStudy common = {};  ///< decoder, loss and effort, before the kind and the seed are known
  bool heat_map = false;            ///< store the whole Hessian of the first seed of each kind, too
  /// Sizes of the embeddings for which norms are measured; empty: sizes of the entries are measured.
  std::vector<double> sigmas = {};

  bool follows_norms() const { return !sigmas.empty(); }
  /// Decoder of a kind, with weights and data of a seed.
  decoder::LayerStudy study_of(const std::string& kind, long seed) const;
};

/// The plan of `hessian_blocks` or `hessian_scaling`. Throws BadInput for a number that is too large.
LayerPlan layer_blocks_plan_of(const Settings& settings);
LayerPlan layer_scaling_plan_of(const Settings& settings);

}  // namespace fluxformer
