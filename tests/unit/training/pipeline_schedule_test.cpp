// The order of a pipeline's passes: every pass comes once and can be made, and stages wait as long as the formula says.

#include "training/pipeline_schedule.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/error.hpp"

namespace fluxformer {
namespace {

using enum PipelineSchedule;

struct Slots {
  int steps = 0;  ///< until the last pass ends
  int idle = 0;   ///< of the first stage
  std::vector<int> most_kept;
};

/// Plays the passes of all stages, one time slot each; a pass starts when what it needs has come.
Slots play(PipelineSchedule schedule, int stages, int micro_batches) {
  std::vector<std::vector<Pass>> todo;
  for (int stage = 0; stage < stages; ++stage)
    todo.push_back(passes_of(schedule, stage, stages, micro_batches));
  std::map<std::tuple<int, bool, int>, int> done_at;  // stage, forward, micro-batch: first slot after it
  std::vector<std::size_t> next(todo.size(), 0);
  std::vector<int> kept(todo.size(), 0);
  Slots slots{0, 0, std::vector<int>(todo.size(), 0)};
  const auto done = [&](int stage, bool forward, int micro) {
    const auto found = done_at.find({stage, forward, micro});
    return found != done_at.end() && found->second <= slots.steps;
  };
  while (std::ranges::any_of(
      next, [&](const auto& n) { return n < todo[static_cast<std::size_t>(&n - next.data())].size(); })) {
    for (int stage = 0; stage < stages; ++stage) {
      const auto s = static_cast<std::size_t>(stage);
      const bool over = next[s] == todo[s].size();
      const auto pass = over ? Pass{} : todo[s][next[s]];
      const bool forward = pass.way == Pass::Way::forward;
      const bool ready =
          !over && (forward ? stage == 0 || done(stage - 1, true, pass.micro_batch)
                            : done(stage, true, pass.micro_batch) &&
                                  (stage + 1 == stages || done(stage + 1, false, pass.micro_batch)));
      if (!ready) {
        if (stage == 0) ++slots.idle;
        continue;
      }
      const bool fresh =
          done_at.emplace(std::tuple{stage, forward, pass.micro_batch}, slots.steps + 1).second;
      EXPECT_TRUE(fresh) << "a pass is made twice";
      kept[s] += forward ? 1 : -1;
      slots.most_kept[s] = std::max(slots.most_kept[s], kept[s]);
      ++next[s];
    }
    if (++slots.steps > 1000) throw std::logic_error("the stages wait for each other");
  }
  EXPECT_EQ(done_at.size(), static_cast<std::size_t>(2 * stages * micro_batches));
  return slots;
}

TEST(PipelineSchedule, has_the_bubble_and_the_activations_of_the_formulas) {
  for (const int stages : {1, 2, 3, 4, 6, 16})
    for (const int micro_batches : {1, 2, 5, 8})
      for (const auto schedule : {one_f_one_b, gpipe}) {
        const auto slots = play(schedule, stages, micro_batches);
        EXPECT_EQ(slots.steps, 2 * (micro_batches + stages - 1));
        EXPECT_DOUBLE_EQ(static_cast<double>(slots.idle) / slots.steps, bubble(stages, micro_batches));
        for (int stage = 0; stage < stages; ++stage) {
          const int kept = slots.most_kept[static_cast<std::size_t>(stage)];
          EXPECT_EQ(kept, most_in_flight(schedule, stage, stages, micro_batches));
          EXPECT_EQ(kept, schedule == gpipe ? micro_batches : std::min(micro_batches, stages - stage));
        }
      }
}

TEST(PipelineSchedule, adds_gradients_in_the_same_order) {
  for (const auto schedule : {one_f_one_b, gpipe}) {
    int expected = 0;
    for (const auto& pass : passes_of(schedule, 1, 4, 7))
      if (pass.way == Pass::Way::backward) {
        EXPECT_EQ(pass.micro_batch, expected++);
      }
  }
}

TEST(PipelineSchedule, is_named_by_a_word) {
  EXPECT_EQ(pipeline_schedule_named("1f1b"), one_f_one_b);
  EXPECT_EQ(pipeline_schedule_named("gpipe"), gpipe);
  EXPECT_THROW(pipeline_schedule_named("2f2b"), BadInput);
}

}  // namespace
}  // namespace fluxformer
