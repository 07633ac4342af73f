#include "solvers/spectra/blocks.hpp"

#include <algorithm>
#include <string>

#include "base/error.hpp"

namespace fluxformer::spectra {

PetscInt block_size(const Block& block) {
  PetscInt size = 0;
  for (const auto& range : block) size += range.end - range.begin;
  return size;
}

void check_block(const Block& block, PetscInt size) {
  if (block.empty()) throw BadInput("a block without entries");
  PetscInt before = 0;
  for (const auto& [begin, end] : block) {
    if (begin < before || end <= begin || end > size)
      throw BadInput("a block with the range " + std::to_string(begin) + " to " + std::to_string(end) +
                     ": ranges have entries, are ascending and end at " + std::to_string(size) + " at most");
    before = end;
  }
}

Block common(const Block& block, PetscInt first, PetscInt last) {
  Block shared;
  for (const auto& range : block) {
    const IndexRange part{std::max(range.begin, first), std::min(range.end, last)};
    if (part.begin < part.end) shared.push_back(part);
  }
  return shared;
}

}  // namespace fluxformer::spectra
