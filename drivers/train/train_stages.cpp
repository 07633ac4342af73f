#include "drivers/train/train_stages.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/error.hpp"
#include "drivers/common/model_options.hpp"
#include "model/backpropagation.hpp"
#include "solvers/adjoint/adjoint_march.hpp"
#include "training/stage_cells.hpp"

namespace fluxformer {

std::vector<DepthRange> cells_of_stages(const Settings& settings, const ModelSpec& spec,
                                        const InputShape& input, int stages) {
  const auto ends = end_work(spec, input, settings.real("train.masked"));
  return balanced_stages(equation_spec(settings, spec).depth.cells, stages, ends);
}

ShareOf share_of_stage(const Settings& settings, const InputShape& input, int stages, int stage) {
  if (stages == 1) return {};
  return [&settings, input, stages, stage](const ModelSpec& spec) {
    const auto cells = cells_of_stages(settings, spec, input, stages)[stage];
    auto share = share_of(spec, equation_spec(settings, spec).depth, cells);
    share.words = share.head && input.word_head && !input.own_word_matrix;
    // Both knots of a term of the penalty must be on one stage.
    if (settings.real("train.smoothness") > 0)
      share.last_knot = std::min(share.last_knot + 1, spec.knots - 1);
    return share;
  };
}

PipelineSettings pipeline_settings(const Settings& settings, int samples, int stages) {
  PipelineSettings s;
  s.schedule = pipeline_schedule_named(settings.word("train.pipeline"));
  s.micro_batches = settings.count("train.micro_batches");
  // With four micro-batches for each stage the bubble is below a fifth of a step.
  constexpr int for_each_stage = 4;
  if (s.micro_batches == 0) s.micro_batches = stages == 1 ? 1 : std::min(samples, for_each_stage * stages);
  if (s.micro_batches > samples)
    throw BadInput("train.micro_batches = " + std::to_string(s.micro_batches) + ": a group of ranks has " +
                   std::to_string(samples) + " samples of a batch");
  return s;
}

std::unique_ptr<DepthMarch> make_march(DepthModel& model, const Settings& settings, DepthRange cells) {
  const auto equation = equation_spec(settings, model.spec());
  if (settings.word("train.gradient") == "backprop")
    return std::make_unique<Backpropagation>(model, equation.depth, equation.speed, cells);
  AdjointSettings s;
  s.method = settings.word("adjoint.method");
  s.theta = settings.real("adjoint.theta");
  const auto& keep = settings.word("adjoint.keep");
  const int segment = settings.count("adjoint.segment");
  s.tapes = keep == "tapes";
  if (keep == "segments" || keep == "disk")
    s.every =
        segment > 0 ? segment : std::max(1, static_cast<int>(std::lround(std::sqrt(cells.count() / 8.0))));
  s.on_disk = keep == "disk";
  s.folder = settings.word("adjoint.folder");
  if (precision_of(settings) == Precision::float32)
    s.newton_tolerance = s.linear_tolerance = 1e-5;  // no tighter than the round-off of the kernels
  return std::make_unique<AdjointMarch>(model, equation.depth, equation.speed, s, cells);
}

}  // namespace fluxformer
