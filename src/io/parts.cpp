#include <algorithm>
#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "io/digest.hpp"
#include "io/hdf5/handles.hpp"
#include "io/hdf5/hdf5_objects.hpp"
#include "io/parts.hpp"

namespace fluxformer::io {

namespace {

/// The chosen indices, all of them if none is named. Throws BadInput if they are not ascending or not below
/// `size`.
std::vector<int> resolve(const std::vector<int>& chosen, int size, const char* what) {
  std::vector<int> all(size);
  std::iota(all.begin(), all.end(), 0);
  if (chosen.empty()) return all;
  for (Index k = 0; k < std::ssize(chosen); ++k)
    if (chosen[k] < 0 || chosen[k] >= size || (k > 0 && chosen[k] <= chosen[k - 1]))
      throw BadInput("output selection: " + std::string(what) + " " + std::to_string(chosen[k]) +
                     " is out of order or not one of 0 .. " + std::to_string(size - 1));
  return chosen;
}

}  // namespace

std::vector<int> FieldSelection::every(int stride, int size, int first) {
  std::vector<int> chosen;
  for (int k = first; k < size; k += stride) chosen.push_back(k);
  return chosen;
}

FieldSlab::FieldSlab(const FieldPart& part, const FieldSelection& selection)
    : local_tokens_(part.block.count()), samples_(part.samples), channels_(part.channels) {
  const TokenBlock& block = part.block;
  if (part.first_cell < 0 || part.first_cell + part.cell_count > part.cells || block.x0 < 0 || block.y0 < 0 ||
      block.x0 + block.nx > part.tokens_x || block.y0 + block.ny > part.tokens_y)
    throw std::logic_error("a field part reaches beyond its field");
  const auto depths = resolve(selection.depths, part.cells, "depth cell");
  const auto tokens = resolve(selection.tokens, part.tokens_x * part.tokens_y, "token");
  const auto samples = resolve(selection.samples, part.samples, "sample");
  const auto channels = resolve(selection.channels, part.channels, "channel");
  shape_ = {depths.size(), tokens.size(), samples.size(), channels.size()};
  samples_here_.assign(samples.begin(), samples.end());
  channels_here_.assign(channels.begin(), channels.end());

  // Ascending cells: those of this rank are consecutive among the chosen ones, and so in the file.
  const auto mine = std::lower_bound(depths.begin(), depths.end(), part.first_cell);
  first_depth_ = mine - depths.begin();
  for (auto cell = mine; cell != depths.end() && *cell < part.first_cell + part.cell_count; ++cell)
    cells_here_.push_back(*cell - part.first_cell);

  // The chosen tokens within this rank's block, in the order of the file.
  std::vector<hsize_t> positions;
  for (Index p = 0; p < std::ssize(tokens); ++p) {
    const int x = tokens[p] % part.tokens_x - block.x0, y = tokens[p] / part.tokens_x - block.y0;
    if (x < 0 || x >= block.nx || y < 0 || y >= block.ny) continue;
    positions.push_back(p);
    tokens_here_.push_back(y * block.nx + x);
  }
  token_runs_ = runs(positions);
  count_ = std::ssize(cells_here_) * std::ssize(tokens_here_) * std::ssize(samples_here_) *
           std::ssize(channels_here_);
  whole_ = count_ == part.size();
}

std::vector<FieldSlab::Run> FieldSlab::runs(const std::vector<hsize_t>& positions) {
  std::vector<Run> found;
  for (const hsize_t p : positions) {
    if (!found.empty() && found.back().start + found.back().block == p)
      ++found.back().block;
    else
      found.push_back({p, 1, 1, 1});
  }
  return found;
}

// A rectangle of the lattice is one regular hyperslab (ny blocks of nx tokens, tokens_x apart); any other
// selection of tokens is a union of runs.
std::vector<FieldSlab::Run> FieldSlab::merged(const std::vector<Run>& runs) {
  if (runs.size() < 2) return runs;
  const hsize_t stride = runs[1].start - runs[0].start;
  for (Index k = 1; k < std::ssize(runs); ++k)
    if (runs[k].block != runs[0].block || runs[k].start - runs[k - 1].start != stride) return runs;
  return {{runs[0].start, stride, runs.size(), runs[0].block}};
}

Index FieldSlab::pieces(MPI_Comm comm) const {
  constexpr std::int64_t most = 64;  // with more pieces the transfers become too small
  std::int64_t runs = std::ssize(token_runs_);
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &runs, 1, MPI_INT64_T, MPI_MAX, comm));
  return runs > 1 && runs <= most ? runs : 1;
}

const double* FieldSlab::pack(const double* memory, std::vector<double>& scratch) const {
  if (whole_) return memory;
  scratch.resize(count_);
  double* to = scratch.data();
  // memory[cell][token][sample][channel], of which the selected entries are kept in this order
  for (const Index cell : cells_here_)
    for (const Index token : tokens_here_)
      for (const Index sample : samples_here_) {
        const double* row = memory + ((cell * local_tokens_ + token) * samples_ + sample) * channels_;
        for (const Index channel : channels_here_) *to++ = row[channel];
      }
  return scratch.data();
}

std::uint64_t FieldSlab::digest(const double* packed) const {
  if (count_ == 0) return 0;
  const Index token = shape_[2] * shape_[3];  // numbers of a token
  std::uint64_t sum = 0;
  // The numbers of a run of tokens are consecutive in the file, from place (depth * tokens + start) * token
  // on.
  for (Index cell = 0; cell < std::ssize(cells_here_); ++cell)
    for (const Run& run : token_runs_) {
      const Index size = run.block * token;
      sum += digest_of(packed, size, ((first_depth_ + cell) * shape_[1] + run.start) * token);
      packed += size;
    }
  return sum;
}

SpaceHandle FieldSlab::select(hid_t space, hsize_t index, Index piece, Index pieces) const {
  const int rank = h5(H5Sget_simple_extent_ndims(space), "asking for the rank of a field");
  const int lead = rank == 5 ? 0 : 1;  // without a leading dimension its entry is skipped
  const hsize_t held[] = {1, cells_here_.size(), tokens_here_.size(), shape_[2], shape_[3]};
  SpaceHandle local(h5(H5Screate_simple(rank, held + lead, nullptr), "describing memory"));
  const bool in_pieces = pieces > 1;
  if (count_ == 0 || (in_pieces && piece >= std::ssize(token_runs_))) {
    h5(H5Sselect_none(space), "selecting nothing");
    h5(H5Sselect_none(local), "selecting nothing");
    return local;
  }
  const auto runs = in_pieces ? std::vector{token_runs_[piece]} : merged(token_runs_);
  H5S_seloper_t how = H5S_SELECT_SET;  // the first run replaces the whole space, the others are added
  for (const Run& run : runs) {
    const hsize_t start[] = {index, first_depth_, run.start, 0, 0};
    const hsize_t stride[] = {1, 1, run.stride, 1, 1};
    const hsize_t count[] = {1, 1, run.count, 1, 1};
    const hsize_t block[] = {1, cells_here_.size(), run.block, shape_[2], shape_[3]};
    h5(H5Sselect_hyperslab(space, how, start + lead, stride + lead, count + lead, block + lead),
       "selecting a part of a field");
    how = H5S_SELECT_OR;
  }
  // In packed memory [cell][token here][sample][channel] the runs follow one another along the tokens.
  if (in_pieces) {
    hsize_t before = 0;
    for (Index k = 0; k < piece; ++k) before += token_runs_[k].block;
    const hsize_t start[] = {0, 0, before, 0, 0};
    const hsize_t block[] = {1, cells_here_.size(), token_runs_[piece].block, shape_[2], shape_[3]};
    h5(H5Sselect_hyperslab(local, H5S_SELECT_SET, start + lead, nullptr, block + lead, nullptr),
       "selecting a part of memory");
  }
  return local;
}

void write_slab(hid_t dataset, const FieldSlab& slab, hsize_t index, const double* packed, Index pieces) {
  static constexpr double nothing = 0;  // HDF5 needs a valid address even for no data
  const SpaceHandle space(h5(H5Dget_space(dataset), "H5Dget_space"));
  const PropertyHandle transfer = collective_transfer();
  for (Index piece = 0; piece < pieces; ++piece) {
    const SpaceHandle local = slab.select(space, index, piece, pieces);
    h5(H5Dwrite(dataset, H5T_NATIVE_DOUBLE, local, space, transfer, slab.count() > 0 ? packed : &nothing),
       "writing");
  }
}

void read_slab(hid_t dataset, const FieldSlab& slab, hsize_t index, double* packed, Index pieces) {
  double nothing = 0;  // HDF5 needs a valid address even for no data
  const SpaceHandle space(h5(H5Dget_space(dataset), "H5Dget_space"));
  const PropertyHandle transfer = collective_transfer();
  for (Index piece = 0; piece < pieces; ++piece) {
    const SpaceHandle local = slab.select(space, index, piece, pieces);
    h5(H5Dread(dataset, H5T_NATIVE_DOUBLE, local, space, transfer, slab.count() > 0 ? packed : &nothing),
       "reading");
  }
}

namespace {

/// Selection of the pieces in a list of `size` numbers; the member `start` tells where a piece begins in it.
SpaceHandle selected(Index size, const FlatPart& part, Index FlatPart::Piece::*start) {
  const hsize_t extent = size;
  SpaceHandle space(h5(H5Screate_simple(1, &extent, nullptr), "selecting parts of a list"));
  h5(H5Sselect_none(space), "selecting nothing");
  for (const auto& piece : part.pieces) {
    const hsize_t first = piece.*start, count = piece.count;
    h5(H5Sselect_hyperslab(space, H5S_SELECT_OR, &first, nullptr, &count, nullptr),
       "selecting parts of a list");
  }
  return space;
}

/// Selections of the pieces in the file and in memory.
std::pair<SpaceHandle, SpaceHandle> spaces(const FlatPart& part) {
  const Index end = part.pieces.empty() ? 1 : part.pieces.back().at + part.pieces.back().count;
  return {selected(part.size, part, &FlatPart::Piece::first), selected(end, part, &FlatPart::Piece::at)};
}

}  // namespace

void write_pieces(hid_t dataset, const FlatPart& part, const double* memory) {
  static constexpr double nothing = 0;  // HDF5 needs a valid address even for no data
  const auto [file, here] = spaces(part);
  h5(H5Dwrite(dataset, H5T_NATIVE_DOUBLE, here, file, collective_transfer(),
              memory != nullptr ? memory : &nothing),
     "writing");
}

void read_pieces(hid_t dataset, const FlatPart& part, double* memory) {
  double nothing = 0;
  const auto [file, here] = spaces(part);
  h5(H5Dread(dataset, H5T_NATIVE_DOUBLE, here, file, collective_transfer(),
             memory != nullptr ? memory : &nothing),
     "reading");
}

}  // namespace fluxformer::io
