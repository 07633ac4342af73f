#pragma once

// Counter-based random numbers (Philox 4x32-10): a number depends on seed, stream and index only, not on rank
// or order. Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace fluxformer {

/// Four random words for a counter and a key: one block of Philox 4x32-10.
std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key);

/// Stream of random numbers keyed by index. `purpose` ("weights", "digits", ...) makes streams of one seed
/// independent.
class RandomStream {
 public:
  /// Makes the key, a hash of `seed` and `purpose`. There is no other state: a stream can be copied and
  /// shared.
  RandomStream(std::uint64_t seed, std::string_view purpose);

  /// Independent stream for one item (a sample, say); items of items have streams, too.
  RandomStream item(std::uint64_t index) const;

  /// Uniform random number in (0, 1), an odd multiple of 2^-53.
  double uniform(std::uint64_t index) const;
  /// Uniform random number in (low, high).
  double uniform(std::uint64_t index, double low, double high) const;
  /// Standard normal random number (Box-Muller on the two halves of one block).
  double normal(std::uint64_t index) const;
  /// Uniform random number among 0 .. count-1.
  std::uint64_t below(std::uint64_t index, std::uint64_t count) const;
  /// Four words of 32 random bits.
  std::array<std::uint32_t, 4> bits(std::uint64_t index) const { return block(index); }
  /// Fills `words` with the words of the blocks `first`, `first` + 1, ..., the last of which may be cut.
  /// Computes several blocks at once: for many numbers.
  void bits(std::uint64_t first, std::span<std::uint32_t> words) const;

 private:
  std::array<std::uint32_t, 4> block(std::uint64_t index) const;
  std::array<std::uint32_t, 2> key_;
  std::uint64_t item_;
};

/// Numbers 0 .. size-1 in a random order that seed, purpose and item decide (Fisher and Yates).
std::vector<std::size_t> shuffled(std::size_t size, std::uint64_t seed, std::string_view purpose,
                                  std::uint64_t item);

}  // namespace fluxformer
