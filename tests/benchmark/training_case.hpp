#pragma once

// Whole training steps of the benchmark networks: embedding, layers, readout, loss, all gradients, their sum
// over the ranks, clipping, AdamW.

#include <cmath>
#include <memory>
#include <vector>

#include "base/mpi.hpp"
#include "model/depth_march.hpp"
#include "model/depth_model.hpp"
#include "tests/benchmark/network.hpp"
#include "training/stage_cells.hpp"
#include "training/trainer.hpp"

namespace fluxformer::bench {

inline constexpr int features = 16, classes = 10;

/// Quantity that the ranks of a case share: the samples of a batch, or the depth.
enum class Over { samples, depth };

class TrainingCase {
 public:
  /// Each rank of `comm` has size.batch / ranks samples of the batch, or its share of the layers and all
  /// samples. They are cut into micro-batches.
  TrainingCase(MPI_Comm comm, const Size& size, Precision precision, Over over = Over::samples,
               int micro_batches = 1)
      : stages_(over == Over::depth ? mpi::size(comm) : 1),
        stage_(over == Over::depth ? mpi::rank(comm) : 0),
        samples_(over == Over::depth ? size.batch : size.batch / mpi::size(comm)),
        line_(TokenLine::even(MPI_COMM_SELF, size.columns, size.rows)),
        context_{&line_, micro_batch_size(samples_, micro_batches), size.width, {}, nullptr},
        depth_{size.layers, size.layers},
        range_(balanced_stages(size.layers, stages_)[static_cast<std::size_t>(stage_)]),
        parameters_(spec(size), share_of(spec(size), depth_, range_)) {
    initialise_standard(parameters_, 1, 0, 1, 1);
    model_ = make_depth_model(parameters_, context_, precision);
    const PipelineSettings through{.schedule = PipelineSchedule::one_f_one_b, .micro_batches = micro_batches};
    const auto make_slot = [&] {
      Slot slot{std::make_unique<Backpropagation>(*model_, depth_, 1, range_), nullptr};
      slot.evaluator = std::make_unique<GradientEvaluator>(parameters_, context_, *slot.march, Loss{});
      marches_.push_back(slot.march.get());
      return slot;
    };
    TrainerSettings settings;
    settings.clip = 1;
    settings.schedule.decay = Decay::constant;
    const auto ranks =
        over == Over::depth ? TrainingRanks{comm, MPI_COMM_SELF, comm} : TrainingRanks::without_stages(comm);
    trainer_ = std::make_unique<Trainer>(ranks, parameters_, *model_,
                                         Pipeline(ranks.depth, through, make_slot), settings);
    const auto samples = static_cast<std::size_t>(samples_);
    batch_.input.resize(samples * static_cast<std::size_t>(size.columns * size.rows * features));
    for (std::size_t j = 0; j < batch_.input.size(); ++j) batch_.input[j] = std::sin(static_cast<double>(j));
    for (std::size_t b = 0; b < samples; ++b) batch_.label.push_back(static_cast<int>(b) % classes);
    batch_.weight.assign(samples, 1.0 / size.batch);
  }

  void step() { trainer_->step(batch_); }
  /// Memory of the activations of all micro-batches that are kept at a time.
  double kept_megabytes() const {
    double bytes = 0;
    for (const auto* march : marches_) bytes += static_cast<double>(march->kept_bytes());
    return 1e-6 * bytes;
  }
  double parameter_megabytes() const { return 8e-6 * static_cast<double>(parameters_.values.size()); }

 private:
  static ModelSpec spec(const Size& size) {
    auto model = model_spec(size);
    model.features = features;
    model.tokens = size.columns * size.rows;
    model.classes = classes;
    return model;
  }
  int stages_, stage_, samples_;
  TokenLine line_;
  SlabContext context_;
  DepthCells depth_;
  DepthRange range_;
  Parameters parameters_;
  std::unique_ptr<DepthModel> model_;
  std::vector<const DepthMarch*> marches_;  // of the slots
  std::unique_ptr<Trainer> trainer_;
  Batch batch_;
};

}  // namespace fluxformer::bench
