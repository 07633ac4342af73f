#pragma once

// The stages of depth of a training (docs/user-guide.md): cells and parameters of each, and how a batch goes
// through them.

#include <memory>
#include <vector>

#include "base/settings.hpp"
#include "model/depth_march.hpp"
#include "model/model_file.hpp"
#include "training/pipeline.hpp"

namespace fluxformer {

/// Cells of all stages. `input` decides the cost of the ends of the depth: the heads of a model file may be
/// replaced. Throws BadInput.
std::vector<DepthRange> cells_of_stages(const Settings& settings, const ModelSpec& spec,
                                        const InputShape& input, int stages);
/// Parameters that stage `stage` (from 0) of `stages` holds; all of them without stages. `settings` is
/// borrowed.
ShareOf share_of_stage(const Settings& settings, const InputShape& input, int stages, int stage);
/// Settings of train.pipeline and train.micro_batches for a group with `samples` samples of a batch. Throws
/// BadInput for more parts than samples.
PipelineSettings pipeline_settings(const Settings& settings, int samples, int stages);
/// Makes the march of train.gradient and adjoint.* through these cells of `model` (borrowed). Throws
/// BadInput.
std::unique_ptr<DepthMarch> make_march(DepthModel& model, const Settings& settings, DepthRange cells);

}  // namespace fluxformer
