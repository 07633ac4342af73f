#include "training/pipeline_schedule.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace fluxformer {
namespace {

/// Forward passes before the first backward pass, beside that pass's own.
int warm_up(PipelineSchedule schedule, int stage, int stages, int micro_batches) {
  return schedule == PipelineSchedule::gpipe ? micro_batches : std::min(micro_batches, stages - 1 - stage);
}

}  // namespace

std::vector<Pass> passes_of(PipelineSchedule schedule, int stage, int stages, int micro_batches) {
  std::vector<Pass> passes;
  const int ahead = warm_up(schedule, stage, stages, micro_batches);
  int next = 0;
  for (; next < ahead; ++next) passes.push_back({Pass::Way::forward, next});
  for (int back = 0; back < micro_batches; ++back) {
    if (next < micro_batches) passes.push_back({Pass::Way::forward, next++});
    passes.push_back({Pass::Way::backward, back});
  }
  return passes;
}

int most_in_flight(PipelineSchedule schedule, int stage, int stages, int micro_batches) {
  return std::min(micro_batches, warm_up(schedule, stage, stages, micro_batches) + 1);
}

double bubble(int stages, int micro_batches) {
  return static_cast<double>(stages - 1) / (micro_batches + stages - 1);
}

PipelineSchedule pipeline_schedule_named(const std::string& word) {
  if (word == "1f1b") return PipelineSchedule::one_f_one_b;
  if (word == "gpipe") return PipelineSchedule::gpipe;
  throw BadInput("train.pipeline = " + word + ": 1f1b or gpipe");
}

}  // namespace fluxformer
