#pragma once

// The parts of one long list of numbers that a rank holds.

#include <hdf5.h>

#include <cstddef>
#include <vector>

namespace fluxformer::io {

/// Places in a list in a file and in a rank's memory, both in ascending order.
struct FlatPart {
  /// Consecutive numbers.
  struct Piece {
    std::size_t first, count;  ///< of the list
    std::size_t at;            ///< where they are in memory
  };
  std::size_t size = 0;  ///< of the whole list
  std::vector<Piece> pieces;

  /// Appends a piece, or lengthens the last one if it follows that in file and memory.
  void add(const Piece& piece) {
    if (!pieces.empty()) {
      auto& last = pieces.back();
      if (last.first + last.count == piece.first && last.at + last.count == piece.at) {
        last.count += piece.count;
        return;
      }
    }
    pieces.push_back(piece);
  }
  /// Numbers of all pieces.
  std::size_t count() const {
    std::size_t sum = 0;
    for (const auto& piece : pieces) sum += piece.count;
    return sum;
  }
};

/// Collective: each rank writes its pieces from `memory` into an open dataset of `part.size` numbers, or reads them.
void write_pieces(hid_t dataset, const FlatPart& part, const double* memory);
void read_pieces(hid_t dataset, const FlatPart& part, double* memory);

}  // namespace fluxformer::io
