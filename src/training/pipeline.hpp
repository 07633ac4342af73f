#pragma once

// Gradient and loss of a batch over stages of depth: the batch is cut into micro-batches, which travel up
// through the stages as states and down as adjoints. In the language of docs/model.md: equation (1) at
// Courant number 1 with an inflow that changes at each step, and the adjoint wave.

#include <mpi.h>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/index.hpp"
#include "model/gradient_evaluator.hpp"

namespace fluxformer {

/// The order in which a stage of depth works through the micro-batches of a step.
/// one_f_one_b: after P - 1 - p forward passes, stage p (from 0) of P alternates: one forward, one backward.
/// gpipe: all forward passes come first.
/// Sources: Huang et al., "GPipe", arXiv 1811.06965; Narayanan et al., "PipeDream" (SOSP 2019) and arXiv
/// 2104.04473 (1F1B with a flush at the end of a step).
enum class PipelineSchedule { one_f_one_b, gpipe };

/// One pass of a micro-batch (0 .. m - 1) through a stage.
struct Pass {
  enum class Way { forward, backward } way;
  int micro_batch;
  bool operator==(const Pass&) const = default;
};

/// The passes of stage `stage` (from 0) of `stages`. Backward passes are in the order of the micro-batches,
/// so that both schedules add up gradients in the same order.
std::vector<Pass> passes_of(PipelineSchedule schedule, int stage, int stages, int micro_batches);

/// The largest number of micro-batches whose activations a stage keeps: m for gpipe, min(m, P - p) else.
int most_in_flight(PipelineSchedule schedule, int stage, int stages, int micro_batches);

/// The share of a step that a stage waits if all passes take equally long: (P - 1) / (m + P - 1).
double bubble(int stages, int micro_batches);

/// The schedule named by "1f1b" or "gpipe"; throws BadInput for another word.
PipelineSchedule pipeline_schedule_named(const std::string& word);

/// The schedule of a step and the number of micro-batches.
struct PipelineSettings {
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;
  int micro_batches = 1;
};

/// Number of samples in the largest micro-batch.
int micro_batch_size(int samples, int micro_batches);
/// The micro-batches of a batch. All have the same number of samples; fillers have weight 0. Throws
/// std::invalid_argument for more micro-batches than samples.
std::vector<Batch> cut_batch(const Batch& batch, int micro_batches);

/// A march through the cells of a stage and an evaluator on it, with room for the activations of one
/// micro-batch.
struct Slot {
  std::unique_ptr<DepthMarch> march;
  std::unique_ptr<GradientEvaluator> evaluator;
};

/// The part of a pipeline that one stage does.
class Pipeline {
 public:
  /// `depth` is a communicator of the ranks with the same samples and tokens, in the order of their stages.
  /// `make_slot` makes a slot of this stage; the pipeline owns most_in_flight of them. A slab must fit into a
  /// message: 2^31 - 1 numbers. Not collective.
  Pipeline(MPI_Comm depth, PipelineSettings settings, const std::function<Slot()>& make_slot);
  Pipeline(Pipeline&&) = default;

  /// The gradient of this stage, as by GradientEvaluator::gradient; `ready` is called during the backward
  /// pass of the last micro-batch. The loss is that of the last stage, 0 on the others. Collective over the
  /// depth. A stage that fails goes on with the messages, so that no other waits for it, and throws at the
  /// end.
  Evaluation gradient(const Batch& batch, std::span<double> gradient, const GradientReady& ready);
  /// The loss of the labels of one batch of the size of a micro-batch, without depth losses; on the last
  /// stage, 0 on the others. Collective over the depth. Later stages may still be busy with the batch when
  /// this returns.
  Evaluation evaluate(const Batch& batch);
  /// Takes part in the messages of `evaluate` without a batch: passes on the states and computes nothing.
  void forward_only();
  /// Waits until all messages of this rank have been sent.
  void wait_all();

  bool has_loss() const { return slots_.front().evaluator->has_loss(); }

 private:
  /// A neighbouring stage, which sends slabs of one kind (states or adjoints) and receives slabs of the
  /// other.
  class Neighbour {
   public:
    /// `size` is the number of entries of a slab.
    Neighbour(MPI_Comm comm, int rank, int tag_in, int tag_out, Index slots, Index size);
    /// Announces `slabs` messages and posts the first receive.
    void expect(int slabs);
    /// Waits for the next slab and swaps it into `slab`; the old buffer receives the following one.
    void take(std::vector<double>& slab);
    /// Sends `slab` from where it is: it must not change before `release` of the slot.
    void send(Index slot, const std::vector<double>& slab);
    /// Waits until the slab of this slot has been sent.
    void release(Index slot);
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
  std::vector<Pass> passes_;
  std::vector<Slot> slots_;
  Neighbour below_, above_;
  Evaluation sum_;
  RankFailure failure_;  // the first failure of this call
};

}  // namespace fluxformer
