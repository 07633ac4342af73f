#pragma once

// Mutations of files: bits, numbers, blocks, decimal numbers in text, words of the formats.

#include <cstdint>
#include <span>
#include <string>

#include "tests/fuzz/reader.hpp"

namespace fluxformer::fuzz {

/// Numbers determined by a key alone (splitmix64), so that every input can be made again.
class Draws {
 public:
  explicit Draws(std::uint64_t key) : state_(key) {}
  std::uint64_t next();
  /// 0 .. bound - 1; 0 for bound 0.
  std::size_t below(std::size_t bound);
  bool one_in(std::size_t chances) { return below(chances) == 0; }

 private:
  std::uint64_t state_;
};

/// Changes `bytes` in one to about ten places; `other` is a seed that blocks may be taken from. The result
/// has at most `most` bytes.
void mutate(Bytes& bytes, std::span<const std::uint8_t> other, Draws& draws, std::size_t most);

}  // namespace fluxformer::fuzz
