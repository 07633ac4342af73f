#pragma once

// The stages of depth of a training (docs/user-guide.md): their cells and parameters, and how a batch goes through them.

#include <memory>
#include <vector>

#include "base/settings.hpp"
#include "model/depth_march.hpp"
#include "model/model_file.hpp"
#include "training/pipeline.hpp"

namespace fluxformer {

/// The cells of all stages. `input` decides what the ends of the depth cost: of a model file the heads may be replaced. Throws
/// BadInput.
std::vector<DepthRange> cells_of_stages(const Settings& settings, const ModelSpec& spec,
                                        const InputShape& input, int stages);
/// The parameters that stage `stage` (from 0) of `stages` holds; all without stages. `settings` is borrowed.
ShareOf share_of_stage(const Settings& settings, const InputShape& input, int stages, int stage);
/// train.pipeline, train.micro_batches for a group with `samples` of a batch. Throws BadInput for more parts than these.
PipelineSettings pipeline_settings(const Settings& settings, int samples, int stages);
/// train.gradient, adjoint.*: a march of `model` (borrowed) through these cells. Throws BadInput.
std::unique_ptr<DepthMarch> make_march(DepthModel& model, const Settings& settings, DepthRange cells);

}  // namespace fluxformer
