#pragma once

// `hessian` with hessian.study = blocks or scaling: the attention layers of a small decoder that adds numbers
// (analysis/decoder/decoder.hpp), with random weights from several seeds. Places: kind of layer, seed and,
// where norms are followed, size of the embeddings.

#include <memory>

#include "drivers/common/experiment.hpp"

namespace fluxformer {

/// Variables and coordinates of the files of these studies, beside the seeds.
std::vector<io::Variable> layer_study_measures();
std::vector<io::Variable> layer_study_coordinates();
/// Makes the experiment. Collective; throws BadInput (agreed).
std::unique_ptr<Experiment> make_layer_study(const Settings& settings, const RunContext& context);

}  // namespace fluxformer
