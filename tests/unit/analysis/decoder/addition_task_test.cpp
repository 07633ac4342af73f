// The addition task: its sums are right, its digits uniform, and shares of ranks make up the same batch.

#include <gtest/gtest.h>

#include "analysis/decoder/addition_task.hpp"

namespace fluxformer::decoder {
namespace {

std::vector<int> slice(const TokenBatch& batch, Eigen::Index sequence, std::size_t begin, std::size_t end) {
  const auto from = batch.tokens.begin() + sequence * batch.length;
  return {from + static_cast<std::ptrdiff_t>(begin), from + static_cast<std::ptrdiff_t>(end)};
}

long number(const std::vector<int>& digits) {
  long value = 0;
  for (const int digit : digits) value = 10 * value + digit;
  return value;
}

TEST(AdditionTask, writes_right_sums) {
  const TokenBatch batch = addition_batch(1234, 0, 0, 200);
  EXPECT_EQ(batch.sequences(), 200);
  EXPECT_EQ(batch.scored(), 1200);
  for (Eigen::Index n = 0; n < batch.sequences(); ++n) {
    EXPECT_EQ(slice(batch, n, 5, 6)[0], 10);
    EXPECT_EQ(slice(batch, n, 11, 12)[0], 11);
    EXPECT_EQ(number(slice(batch, n, 0, 5)) + number(slice(batch, n, 6, 11)),
              number(slice(batch, n, 12, 18)));
  }
}

TEST(AdditionTask, is_the_same_on_any_number_of_ranks) {
  const TokenBatch whole = addition_batch(7, 3, 0, 10), first = addition_batch(7, 3, 0, 4),
                   second = addition_batch(7, 3, 4, 6);
  std::vector<int> joined = first.tokens;
  joined.insert(joined.end(), second.tokens.begin(), second.tokens.end());
  EXPECT_EQ(joined, whole.tokens);
  EXPECT_NE(addition_batch(8, 3, 0, 10).tokens, whole.tokens);
  EXPECT_NE(addition_batch(7, 4, 0, 10).tokens, whole.tokens);
}

TEST(AdditionTask, draws_digits_uniformly_and_pairs_that_sum_to_nine_in_a_fifth_of_the_batches) {
  const int batches = 400, sequences = 10;
  std::vector<double> counts(10, 0);
  int with_nines = 0;
  for (int b = 0; b < batches; ++b) {
    const TokenBatch batch = addition_batch(5, static_cast<std::uint64_t>(b), 0, sequences);
    int nines = 0;
    for (Eigen::Index n = 0; n < sequences; ++n) {
      const auto x = slice(batch, n, 0, 5), y = slice(batch, n, 6, 11);
      for (std::size_t i = 0; i < 5; ++i) {
        ++counts[x[i]];
        nines += x[i] + y[i] == 9 ? 1 : 0;
      }
    }
    // Of 50 pairs 5 +- 2.1 sum to nine by chance, 14 +- 3.2 in the special batches: 9.5 separates them, but
    // for 2 in 100 ordinary and 8 in 100 special ones.
    with_nines += nines > 9 ? 1 : 0;
  }
  EXPECT_NEAR(with_nines, 0.2 * batches * 0.92 + 0.8 * batches * 0.02, 4 * std::sqrt(0.2 * 0.8 * batches));
  for (const double count : counts) EXPECT_NEAR(count, 2000, 4 * std::sqrt(20000 * 0.1 * 0.9));
}

}  // namespace
}  // namespace fluxformer::decoder
