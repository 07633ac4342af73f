#pragma once

// Counter-based random numbers (Philox 4x32-10): the number belonging to (seed, stream, index) is the same
// on any rank, in any order. Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as
// 1, 2, 3", SC 2011.

#include <array>
#include <cstdint>
#include <string_view>

namespace fluxformer {

/// One block of Philox 4x32-10.
std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key);

/// A family of numbers keyed by index. `purpose` ("weights", "digits", ...) keeps families of one seed apart.
class RandomStream {
 public:
  RandomStream(std::uint64_t seed, std::string_view purpose);

  /// The stream of one item (a sample, say) within this family; items of items are streams of their own too.
  RandomStream item(std::uint64_t index) const;

  /// Uniform on (0, 1): odd multiples of 2^-53.
  double uniform(std::uint64_t index) const;
  /// Uniform on (low, high).
  double uniform(std::uint64_t index, double low, double high) const;
  /// Standard normal (Box-Muller on the two halves of one block).
  double normal(std::uint64_t index) const;
  /// Uniform on 0..count-1.
  std::uint64_t below(std::uint64_t index, std::uint64_t count) const;
  /// Four words of 32 uniform bits.
  std::array<std::uint32_t, 4> bits(std::uint64_t index) const { return block(index); }

 private:
  std::array<std::uint32_t, 4> block(std::uint64_t index) const;
  std::array<std::uint32_t, 2> key_;
  std::uint64_t item_;
};

}  // namespace fluxformer
