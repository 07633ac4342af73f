#pragma once

// Random perturbations of a model's input. Draws are keyed by seed and by the key of the sample: the same for
// every model, in any batch, on any number of ranks. Different levels share one draw, so that a curve over
// levels shows the levels. Fillers and padding stay as they are. Nothing here is collective.

#include <cstdint>
#include <vector>

#include "analysis/model_input.hpp"

namespace fluxformer::perturbation {

/// x += level * unit(sample) * (standard normal numbers); index of a number: token * (numbers per token) +
/// place in the token. Features are not kept in any range.
void add_noise(const ModelInput& input, std::uint64_t seed, double level, std::vector<double>& x);

/// The batch with a share of the real tokens of each sample (rounded to whole tokens) emptied: features 0
/// (for the images here, the mean pixel), or the word <unk>. Positions stay. A larger share empties the
/// tokens of a smaller one too. `spec`: of the models that will read it. Throws BadInput unless 0 <= share
/// <= 1.
Batch drop_tokens(const ModelSpec& spec, const Batch& batch, std::uint64_t seed, double share);

}  // namespace fluxformer::perturbation
