#include "io/flat_part.hpp"

#include <utility>

#include "io/hdf5/handles.hpp"
#include "io/hdf5/hdf5_check.hpp"
#include "io/hdf5/hdf5_objects.hpp"

namespace fluxformer::io {
namespace {

/// The pieces of a list of `size` numbers that start where `start` says.
SpaceHandle selected(std::size_t size, const FlatPart& part, std::size_t FlatPart::Piece::*start) {
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

/// In the file and in memory.
std::pair<SpaceHandle, SpaceHandle> spaces(const FlatPart& part) {
  const std::size_t end = part.pieces.empty() ? 1 : part.pieces.back().at + part.pieces.back().count;
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
