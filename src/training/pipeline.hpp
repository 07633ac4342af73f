#pragma once

// Gradient and loss of a batch over stages of depth: the batch is cut into micro-batches, which travel up through the
// stages as states and down as adjoints. In the language of docs/model.md: equation (1) at Courant number 1 with an inflow
// that changes at each step, and the adjoint wave.

#include <mpi.h>

#include <exception>
#include <span>
#include <string>
#include <vector>

#include "model/gradient_evaluator.hpp"

namespace fluxformer {

// The order in which a stage of depth works through the micro-batches of a step. Sources: Huang et al., "GPipe", arXiv
// 1811.06965; Narayanan et al., "PipeDream" (SOSP 2019) and arXiv 2104.04473 (1F1B with a flush at the end of a step).

/// one_f_one_b: after P - 1 - p forward passes, stage p (from 0) of P alternates: one forward, one backward.
/// gpipe: all forward passes come first.
enum class PipelineSchedule { one_f_one_b, gpipe };

/// One pass of a micro-batch (0 .. m - 1) through a stage.
struct Pass {
  enum class Way { forward, backward } way;
  int micro_batch;
  bool operator==(const Pass&) const = default;
};

/// The passes of stage `stage` (from 0) of `stages`. Backward passes are in the order of the micro-batches, so that both
/// schedules add up gradients in the same order.
std::vector<Pass> passes_of(PipelineSchedule schedule, int stage, int stages, int micro_batches);

/// The largest number of micro-batches whose activations a stage keeps: m for gpipe, min(m, P - p) else.
int most_in_flight(PipelineSchedule schedule, int stage, int stages, int micro_batches);

/// The share of a step that a stage waits if all passes take equally long: (P - 1) / (m + P - 1).
double bubble(int stages, int micro_batches);

/// "1f1b" or "gpipe"; BadInput for another word.
PipelineSchedule pipeline_schedule_named(const std::string& word);

/// How a batch goes through the stages.
struct PipelineSettings {
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;
  int micro_batches = 1;
};

/// Samples in a micro-batch of the largest kind.
int micro_batch_size(int samples, int micro_batches);
/// The micro-batches of a batch, all of the same number of samples: fillers have weight 0. Throws std::invalid_argument for
/// more of them than samples.
std::vector<Batch> cut_batch(const Batch& batch, int micro_batches);

/// The part of it that one stage does. Each evaluator is a slot for the activations of one micro-batch.
class Pipeline {
 public:
  /// `depth` is a communicator of the ranks with the same samples and tokens, in the order of their stages. The evaluators are
  /// of the same stage, most_in_flight of them, all borrowed. A slab must fit into a message: 2^31 - 1 numbers.
  Pipeline(MPI_Comm depth, std::vector<GradientEvaluator*> slots, PipelineSettings settings);
  Pipeline(Pipeline&&) = default;

  /// As GradientEvaluator::gradient, of this stage; `ready` is called during the backward pass of the last micro-batch.
  /// The loss is that of the last stage, 0 on the others. Collective over the depth. A stage that fails goes on with the messages, so that no
  /// other waits for it, and throws at the end.
  Evaluation gradient(const Batch& batch, std::span<double> gradient, const GradientReady& ready);
  /// The loss of the labels of one batch of the size of a micro-batch, likewise. A stage that is behind may still be
  /// busy with it when this returns.
  Evaluation evaluate(const Batch& batch);
  /// Takes part in the messages of `evaluate`, where this rank has no batch to evaluate.
  void pass_on();
  /// Waits for what this rank has sent.
  void settle();

  bool has_loss() const { return slots_.front()->has_loss(); }
  DepthMarch& march() const { return slots_.front()->march(); }

 private:
  /// A neighbour in depth, from which one kind of slabs comes, and to which the other goes.
  class Neighbour {
   public:
    /// `size`: of a slab.
    Neighbour(MPI_Comm comm, int rank, int tag_in, int tag_out, std::size_t slots, std::size_t size);
    /// That so many slabs will come, of which the first is waited for in the background.
    void expect(int slabs);
    /// The next one; `slab` gives its room to the one after that.
    void take(std::vector<double>& slab);
    /// Sends it from where it is: it must not change before `release` of the slot.
    void send(std::size_t slot, const std::vector<double>& slab);
    void release(std::size_t slot);
    bool exists() const { return rank_ != MPI_PROC_NULL; }

   private:
    void post();
    MPI_Comm comm_;
    int rank_, tag_in_, tag_out_, coming_ = 0;
    std::vector<double> next_;
    MPI_Request request_ = MPI_REQUEST_NULL;
    std::vector<MPI_Request> sent_;
  };
  void run(const Pass& pass, const Batch& batch, std::span<double> gradient, const GradientReady& ready);

  PipelineSettings settings_;
  std::vector<GradientEvaluator*> slots_;
  std::vector<Pass> passes_;
  Neighbour below_, above_;
  Evaluation sum_;
  std::exception_ptr failure_;  // the first one of this call
};

}  // namespace fluxformer
