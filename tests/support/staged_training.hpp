#pragma once

// Training on a few samples through stages of depth: every rank of a communicator is a stage.

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "base/mpi.hpp"
#include "model/depth_march.hpp"
#include "model/depth_model.hpp"
#include "model/initialise.hpp"
#include "tests/support/listed_samples.hpp"
#include "training/stage_cells.hpp"
#include "training/trainer.hpp"

namespace fluxformer::test {

/// The stage of one rank. `Wrap` may put something in front of the march of each slot.
class StagedTraining {
 public:
  using Wrap = std::function<std::unique_ptr<DepthMarch>(std::unique_ptr<DepthMarch>)>;

  StagedTraining(MPI_Comm comm, const ModelSpec& spec, int cells, const data::Dataset& data, int batch,
                 PipelineSettings settings, const TrainerSettings& trainer_settings = {},
                 const Wrap& wrap = {})
      : stage(mpi::rank(comm)),
        stages(mpi::size(comm)),
        batches(data, all_of(data), batch, {}, 1),
        line(TokenLine::even(MPI_COMM_SELF, data.tokens_x(), data.tokens_y())),
        context{&line, micro_batch_size(batch, settings.micro_batches), spec.width, {}, nullptr},
        depth{spec.layers, cells},
        range(balanced_stages(cells, stages)[static_cast<std::size_t>(stage)]),
        parameters(spec, share_of(spec, depth, range)) {
    initialise_standard(parameters, 3, 0, 1, 1);
    model = make_depth_model(parameters, context, Precision::float64);
    const auto make_slot = [&] {
      Slot slot{std::make_unique<Backpropagation>(*model, depth, 1, range), nullptr};
      if (wrap) slot.march = wrap(std::move(slot.march));
      slot.evaluator = std::make_unique<GradientEvaluator>(parameters, context, *slot.march, Loss{});
      marches.push_back(slot.march.get());
      return slot;
    };
    trainer = std::make_unique<Trainer>(TrainingRanks{comm, MPI_COMM_SELF, comm}, parameters, *model,
                                        Pipeline(comm, settings, make_slot), trainer_settings);
  }
  StagedTraining(const StagedTraining&) = delete;
  StagedTraining& operator=(const StagedTraining&) = delete;

  StepReport step(long number) { return trainer->step(batches.at(number)); }
  /// Memory of the activations of all slots.
  std::size_t kept_bytes() const {
    std::size_t bytes = 0;
    for (const auto* march : marches) bytes += march->kept_bytes();
    return bytes;
  }

  int stage, stages;
  Batches batches;
  TokenLine line;
  SlabContext context;
  DepthCells depth;
  DepthRange range;
  Parameters parameters;
  std::unique_ptr<DepthModel> model;
  std::vector<const DepthMarch*> marches;  ///< of the slots
  std::unique_ptr<Trainer> trainer;
};

}  // namespace fluxformer::test
