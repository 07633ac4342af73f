// The order of a pipeline's passes: every pass comes once and can be made, and stages wait as long as the
// formula says.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "base/error.hpp"
#include "training/pipeline.hpp"

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
  while (std::ranges::any_of(next, [&](const auto& n) { return n < todo[&n - next.data()].size(); })) {
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
          const int kept = slots.most_kept[stage];
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

// Micro-batches of a batch.

namespace {

Batch numbered(int samples) {
  Batch batch;
  for (int b = 0; b < samples; ++b) {
    batch.input.insert(batch.input.end(), {10.0 * b, 10.0 * b + 1});
    batch.length.push_back(b + 1);
    batch.label.push_back(100 + b);
    batch.weight.push_back(0.5 + b);
    batch.key.push_back(1000 + b);
    batch.targets.push_back({.sample = b, .token = b, .word = 7 + b, .weight = 0.1 * b});
  }
  return batch;
}

TEST(CutBatch, shows_each_sample_once_and_fills_up_with_samples_of_no_weight) {
  for (const int samples : {5, 6, 8})
    for (int parts = 1; parts <= samples; ++parts) {
      const auto batch = numbered(samples);
      const int size = micro_batch_size(samples, parts);
      int next = 0;
      const auto cut = cut_batch(batch, parts);
      EXPECT_EQ(cut.size(), static_cast<std::size_t>(parts));
      for (const auto& micro : cut) {
        ASSERT_EQ(micro.label.size(), static_cast<std::size_t>(size));
        EXPECT_EQ(micro.input.size(), 2 * micro.label.size());
        EXPECT_EQ(micro.length.size(), micro.label.size());
        EXPECT_EQ(micro.key.size(), micro.label.size());
        std::size_t real = 0;
        for (std::size_t slot = 0; slot < micro.label.size(); ++slot) {
          const int b = micro.label[slot] - 100;
          EXPECT_EQ(micro.input[2 * slot + 1], 10.0 * b + 1);
          EXPECT_EQ(micro.length[slot], b + 1);
          EXPECT_EQ(micro.key[slot], 1000 + b);
          if (micro.weight[slot] == 0) continue;
          EXPECT_EQ(b, next++);
          EXPECT_EQ(micro.weight[slot], 0.5 + b);
          const auto& word = micro.targets.at(real++);
          EXPECT_EQ(word.sample, static_cast<int>(slot));
          EXPECT_EQ(word.word, 7 + b);
        }
        EXPECT_EQ(micro.targets.size(), real);
        EXPECT_GE(real, 1u);
      }
      EXPECT_EQ(next, samples);
    }
}

TEST(CutBatch, needs_a_sample_for_each_part) {
  EXPECT_THROW(cut_batch(numbered(3), 4), std::invalid_argument);
}

}  // namespace

}  // namespace fluxformer
