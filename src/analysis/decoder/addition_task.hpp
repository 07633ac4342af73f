#pragma once

// Addition of two numbers of five digits as next-token prediction: the task of arXiv 2410.10986. A sequence
// is 5 digits, '+', 5 digits, '=', 6 digits of the sum (leading zero kept): 18 tokens from the 10 digits, '+'
// = 10 and '=' = 11. The loss is that of rows 11 .. 16 (from 0), whose outputs predict the digits of the sum,
// tokens 12 .. 17.

#include <cstdint>
#include <vector>

#include "base/index.hpp"

namespace fluxformer::decoder {

/// Sequences of equal length, and the scored rows [first_scored, end_scored) of each, whose outputs enter the
/// loss.
struct TokenBatch {
  Index length = 0, first_scored = 0, end_scored = 0;
  std::vector<int> tokens;  ///< [sequence][token]

  Index sequences() const { return std::ssize(tokens) / length; }
  Index scored() const { return sequences() * (end_scored - first_scored); }
  /// Scored rows of all sequences, one sequence below the other.
  std::vector<Index> scored_rows() const;
};

inline constexpr int addition_vocabulary = 12;
inline constexpr Index addition_length = 18;

/// Sequences [first, first + count) of a batch: uniform digits; with probability 1/5 for a batch, a fifth of
/// the digit positions is overwritten on one side, so that the pair sums to 9 and carries run far. Numbers
/// are keyed by (seed, batch, sequence): the shares of ranks make up the same batch.
TokenBatch addition_batch(std::uint64_t seed, std::uint64_t batch, Index first, Index count);

}  // namespace fluxformer::decoder
