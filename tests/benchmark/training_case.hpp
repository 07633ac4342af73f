#pragma once

// Whole training steps of the benchmark networks: embedding, layers, readout, loss, all gradients, their sum
// over the ranks, clipping, AdamW.

#include <cmath>
#include <memory>
#include <vector>

#include "model/backpropagation.hpp"
#include "model/make_depth_model.hpp"
#include "tests/benchmark/network.hpp"
#include "training/trainer.hpp"

namespace fluxformer::bench {

inline constexpr int features = 16, classes = 10;

class TrainingCase {
 public:
  /// Each rank of `comm` has size.batch / ranks samples of the batch.
  TrainingCase(MPI_Comm comm, const Size& size, Precision precision)
      : line_(TokenLine::even(MPI_COMM_SELF, size.columns, size.rows)),
        context_{&line_, share(comm, size.batch), size.width, {}, nullptr},
        parameters_(spec(size)) {
    initialise_standard(parameters_, 1, 0, 1, 1);
    model_ = make_depth_model(parameters_, context_, precision);
    march_ = std::make_unique<Backpropagation>(*model_, DepthCells{size.layers, size.layers}, 1);
    evaluator_ = std::make_unique<GradientEvaluator>(parameters_, context_, *march_, Loss{});
    TrainerSettings settings;
    settings.clip = 1;
    settings.schedule.decay = Decay::constant;
    trainer_ = std::make_unique<Trainer>(comm, parameters_, *evaluator_, settings);
    const auto samples = static_cast<std::size_t>(context_.samples);
    batch_.input.resize(samples * static_cast<std::size_t>(size.columns * size.rows * features));
    for (std::size_t j = 0; j < batch_.input.size(); ++j) batch_.input[j] = std::sin(static_cast<double>(j));
    for (std::size_t b = 0; b < samples; ++b) batch_.label.push_back(static_cast<int>(b) % classes);
    batch_.weight.assign(samples, 1.0 / size.batch);
  }

  void step() { trainer_->step(batch_); }
  double kept_megabytes() const { return 1e-6 * static_cast<double>(march_->kept_bytes()); }

 private:
  static int share(MPI_Comm comm, int batch) {
    int ranks = 1;
    MPI_Comm_size(comm, &ranks);
    return batch / ranks;
  }
  static ModelSpec spec(const Size& size) {
    auto model = model_spec(size);
    model.features = features;
    model.tokens = size.columns * size.rows;
    model.classes = classes;
    return model;
  }
  TokenLine line_;
  SlabContext context_;
  Parameters parameters_;
  std::unique_ptr<DepthModel> model_;
  std::unique_ptr<Backpropagation> march_;
  std::unique_ptr<GradientEvaluator> evaluator_;
  std::unique_ptr<Trainer> trainer_;
  Batch batch_;
};

}  // namespace fluxformer::bench
