#pragma once

// The parts of fields and of lists of numbers that a rank holds, and their places in a file.

#include <hdf5.h>

#include <cstdint>
#include <vector>

#include "base/index.hpp"
#include "io/hdf5/handles.hpp"
#include "mesh/token_line.hpp"

namespace fluxformer::io {

/// A rank's part of a field [depth, token, sample, channel]: contiguous memory [cell][local
/// token][sample][channel]. A rank may hold no cells or tokens.
struct FieldPart {
  int cells = 0;                   ///< depth cells of the whole field
  int first_cell = 0;              ///< first cell of this rank, counted from 0
  int cell_count = 0;              ///< cells of this rank
  int tokens_x = 1, tokens_y = 1;  ///< the whole lattice; global token = y * tokens_x + x
  TokenBlock block;                ///< tokens of this rank
  int samples = 1, channels = 1;   ///< samples and channels, all of them on every rank

  /// Count of the numbers in this rank's memory.
  Index size() const { return Index{cell_count} * block.count() * samples * channels; }
};

/// The part of a field that is written: ascending global indices along each axis; an empty list means all.
struct FieldSelection {
  std::vector<int> depths = {}, tokens = {}, samples = {}, channels = {};

  /// The indices first, first + stride, ... below `size`.
  static std::vector<int> every(int stride, int size, int first = 0);
};

/// A rank's part of a field combined with a selection of it: the shape in the file, this rank's hyperslab in
/// it, and the packing of its numbers.
class FieldSlab {
 public:
  FieldSlab() = default;
  /// Throws BadInput if a list is not ascending or exceeds the field, std::logic_error if the part exceeds
  /// it. Rank-local.
  FieldSlab(const FieldPart& part, const FieldSelection& selection = {});

  /// Extents [depth, token, sample, channel] of the selection, as the file holds it.
  const std::vector<hsize_t>& shape() const { return shape_; }
  /// Count of the numbers that this rank contributes.
  Index count() const { return count_; }
  /// This rank's numbers in file order: `memory` itself if all are selected, otherwise packed into `scratch`.
  const double* pack(const double* memory, std::vector<double>& scratch) const;
  /// Digest of this rank's numbers at their places in the file (io/digest.hpp); `packed` is in file order.
  /// The digests of all ranks add up to the digest of the stored field.
  std::uint64_t digest(const double* packed) const;
  /// Number of transfers for a chunked dataset: the largest number of runs of tokens on any rank. HDF5 maps
  /// chunks quickly only if the selections in memory and file have the same shape; otherwise it goes element
  /// by element, ten times as slowly. Collective over `comm`.
  Index pieces(MPI_Comm comm) const;
  /// Selects this rank's share of piece `piece` of `pieces` in a file space of 4 dimensions, or of 5 at
  /// `index` of the leading one, and returns the matching selection of its packed memory.
  SpaceHandle select(hid_t space, hsize_t index = 0, Index piece = 0, Index pieces = 1) const;

 private:
  /// Positions along the tokens of the file: `count` blocks of `block` positions each, `stride` apart.
  struct Run {
    hsize_t start, stride, count, block;
  };
  static std::vector<Run> runs(const std::vector<hsize_t>& positions);
  static std::vector<Run> merged(const std::vector<Run>& runs);

  std::vector<hsize_t> shape_;
  Index count_ = 0;
  bool whole_ = true;                                    ///< true if all numbers of this rank are selected
  Index local_tokens_ = 0, samples_ = 0, channels_ = 0;  ///< extents of this rank's memory
  std::vector<Index> cells_here_, tokens_here_, samples_here_, channels_here_;  ///< selected, local
  hsize_t first_depth_ = 0;  ///< this rank's first row of the file; its rows are consecutive there
  std::vector<Run> token_runs_;
};

/// Writes every rank's numbers (in file order, as FieldSlab::pack gives them) into an open dataset of the
/// slab's shape, or at `index` of its leading dimension, in `pieces` transfers (the same number on all
/// ranks). Collective.
void write_slab(hid_t dataset, const FieldSlab& slab, hsize_t index, const double* packed, Index pieces = 1);
/// Reads what write_slab wrote. Collective.
void read_slab(hid_t dataset, const FieldSlab& slab, hsize_t index, double* packed, Index pieces = 1);

/// A rank's part of a long list of numbers: places in the file and in the rank's memory, both in ascending
/// order.
struct FlatPart {
  /// Numbers that are consecutive in the file and in memory.
  struct Piece {
    Index first, count;  ///< places first .. first + count - 1 of the list
    Index at;            ///< place of the first number in memory
  };
  Index size = 0;  ///< numbers in the whole list
  std::vector<Piece> pieces;

  /// Appends a piece, or lengthens the last piece if the new one continues it in file and memory.
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
  /// Count of the numbers in all pieces.
  Index count() const {
    Index sum = 0;
    for (const auto& piece : pieces) sum += piece.count;
    return sum;
  }
};

/// Writes each rank's pieces from `memory` into an open dataset of `part.size` numbers. Collective.
void write_pieces(hid_t dataset, const FlatPart& part, const double* memory);
/// Reads each rank's pieces of an open dataset of `part.size` numbers into `memory`. Collective.
void read_pieces(hid_t dataset, const FlatPart& part, double* memory);

}  // namespace fluxformer::io
