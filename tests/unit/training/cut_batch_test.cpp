// Micro-batches of a batch.

#include <gtest/gtest.h>

#include <numeric>

#include "training/pipeline.hpp"

namespace fluxformer {
namespace {

Batch numbered(int samples) {
  Batch batch;
  for (int b = 0; b < samples; ++b) {
    batch.input.insert(batch.input.end(), {10.0 * b, 10.0 * b + 1});
    batch.length.push_back(b + 1);
    batch.label.push_back(100 + b);
    batch.weight.push_back(0.5 + b);
    batch.key.push_back(1000 + b);
    batch.masked.push_back({.sample = b, .token = b, .word = 7 + b, .weight = 0.1 * b});
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
          const auto& word = micro.masked.at(real++);
          EXPECT_EQ(word.sample, static_cast<int>(slot));
          EXPECT_EQ(word.word, 7 + b);
        }
        EXPECT_EQ(micro.masked.size(), real);
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
