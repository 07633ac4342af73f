#pragma once

// The order in which a stage of depth works through the micro-batches of a step. Sources: Huang et al., "GPipe", arXiv
// 1811.06965; Narayanan et al., "PipeDream" (SOSP 2019) and arXiv 2104.04473 (1F1B with a flush at the end of a step).

#include <string>
#include <vector>

namespace fluxformer {

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

}  // namespace fluxformer
