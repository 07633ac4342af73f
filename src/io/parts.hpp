#pragma once

// The part of a field [depth, token, sample, channel] that a rank holds, and its position in the file.

#include <hdf5.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "io/hdf5/handles.hpp"
#include "mesh/token_line.hpp"

namespace fluxformer::io {

/// The part on one rank: contiguous memory [cell][local token][sample][channel]. A rank may hold no cells or
/// tokens.
struct FieldPart {
  int cells = 0, first_cell = 0,
      cell_count = 0;              ///< all cells; this rank has first_cell .. first_cell + cell_count - 1
  int tokens_x = 1, tokens_y = 1;  ///< the whole lattice; global token = y * tokens_x + x
  TokenBlock block;                ///< mine
  int samples = 1, channels = 1;   ///< held whole by every rank

  std::size_t size() const;  ///< numbers in this rank's memory
};

/// The selection of a field that is written: ascending global indices; an empty list means all.
struct FieldSelection {
  std::vector<int> depths = {}, tokens = {}, samples = {}, channels = {};

  /// first, first + stride, ... below `size`.
  static std::vector<int> every(int stride, int size, int first = 0);
};

/// A part combined with a selection: shape in the file, this rank's hyperslab in it, and the packing of its
/// numbers.
class FieldSlab {
 public:
  FieldSlab() = default;
  /// Throws BadInput if a list is not ascending or exceeds the field, std::logic_error if the part exceeds
  /// it. Rank-local.
  FieldSlab(const FieldPart& part, const FieldSelection& selection = {});

  /// [depth, token, sample, channel] in the file.
  const std::vector<hsize_t>& shape() const { return shape_; }
  /// Numbers that this rank contributes.
  std::size_t count() const { return count_; }
  /// This rank's numbers in file order: `memory` itself if all are selected, else packed into `scratch`.
  const double* pack(const double* memory, std::vector<double>& scratch) const;
  /// Digest of this rank's numbers at their places in the file (digest.hpp); `packed` as from `pack`. Those of
  /// all ranks add up to the digest of the stored field.
  std::uint64_t digest(const double* packed) const;
  /// Collective over `comm`: number of transfers for a chunked dataset, the largest number of token runs on
  /// any rank. HDF5 maps chunks quickly only if memory and file selections have the same shape; otherwise it
  /// goes element by element, ten times as slowly.
  std::size_t pieces(MPI_Comm comm) const;
  /// Selects this rank's share of piece `piece` of `pieces` in a file space of 4 dimensions, or of 5 at
  /// `index` of the leading one, and returns the matching selection of its packed memory.
  SpaceHandle select(hid_t space, hsize_t index = 0, std::size_t piece = 0, std::size_t pieces = 1) const;

 private:
  struct Run {
    hsize_t start, stride, count, block;
  };
  static std::vector<Run> runs(const std::vector<hsize_t>& positions);
  static std::vector<Run> merged(const std::vector<Run>& runs);

  std::vector<hsize_t> shape_;
  std::size_t count_ = 0;
  bool whole_ = true;
  std::size_t local_tokens_ = 0, samples_ = 0, channels_ = 0;
  std::vector<std::size_t> cells_here_, tokens_here_, samples_here_, channels_here_;  ///< selected, local
  hsize_t first_depth_ = 0;  ///< this rank's first row of the file; its rows are consecutive there
  std::vector<Run> token_runs_;
};

/// Collective: writes every rank's numbers (in file order, as `pack` gives them) into an open dataset of the
/// slab's shape, or at `index` of its leading dimension, in as many transfers as `pieces` says (the same on
/// all ranks).
void write_slab(hid_t dataset, const FieldSlab& slab, hsize_t index, const double* packed,
                std::size_t pieces = 1);
/// Collective: reads them back.
void read_slab(hid_t dataset, const FieldSlab& slab, hsize_t index, double* packed, std::size_t pieces = 1);

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
