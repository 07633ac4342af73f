#pragma once

// Random perturbations of a model's input. Draws are keyed by seed and by the key of the sample: the same for
// every model, in any batch, on any number of ranks. All levels use the same draw, so that a curve over
// levels shows their effect alone. Fillers and padding do not change. Nothing here is collective.

#include <cstdint>
#include <vector>

#include "analysis/model_input.hpp"

namespace fluxformer::perturbation {

/// x += level * unit(sample) * (standard normal numbers), keyed by token and channel or feature. Features are
/// not limited to a range.
void add_noise(const ModelInput& input, std::uint64_t seed, double level, std::vector<double>& x);

/// The batch with a share of the real tokens of each sample (rounded to whole tokens) replaced by features 0
/// (for images, the mean pixel) or by the word `unknown` (Dataset::unknown_word). Positions and segments do not change. A larger share includes the
/// tokens of a smaller one. `spec`: of the models that will read it. Throws BadInput unless 0 <= share <= 1.
Batch drop_tokens(const ModelSpec& spec, const Batch& batch, std::uint64_t seed, double share, int unknown);

}  // namespace fluxformer::perturbation
