#pragma once

// Opens files that a user names: they may come from this program or another one, or may be no HDF5 files at
// all.

#include <hdf5.h>

#include <string>

#include "io/hdf5/handles.hpp"

namespace fluxformer::io {

/// Opens an HDF5 file for reading, without MPI-IO. Throws BadInput, without the name of the file, if it is
/// missing, no regular file, not HDF5, truncated or damaged. Rank-local. A
/// checker reads it first (io/hdf5/checker.hpp).
FileHandle open_finished(const std::string& path);

/// The words of a one-dimensional dataset of strings of fixed or variable length, each followed by a zero
/// byte (from_terminated splits them). Throws Error that names the dataset if it is missing or something
/// else. Rank-local.
std::string read_words(hid_t file, const std::string& dataset);

}  // namespace fluxformer::io
