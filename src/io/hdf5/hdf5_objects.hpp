#pragma once

// Groups, attributes and datasets in the few forms the files use, and HDF5's failures as Error. Rank-local
// calls: on a file opened for MPI-IO every rank must make the same calls with the same arguments.

#include <hdf5.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.hpp"
#include "io/hdf5/handles.hpp"

namespace fluxformer::io {

/// Stops HDF5 from printing its error stack; the innermost message of the stack becomes part of an Error.
void quiet_hdf5();

/// The complaint of hdf5_complaint() about a file that is sound but locked.
inline constexpr const char* lock_refused =
    "is locked by another process, or its file system has no locks; HDF5_USE_FILE_LOCKING=FALSE opens it "
    "without one";

/// The innermost messages of HDF5's error stack; "no space left on device" if that was the system error, and
/// `lock_refused` if a lock was not granted.
std::string hdf5_complaint();

/// Returns `result`; throws Error (exit code 1) "<doing>: <HDF5's innermost message>" if it is negative.
/// Collective callers wrap it in `collectively`.
template <class Result>
Result h5(Result result, std::string_view doing) {
  if (result < 0) throw Error(ExitCode::failure, std::string(doing) + ": " + hdf5_complaint());
  return result;
}

/// Value of an attribute: UTF-8 text, a 64-bit integer or a double.
using AttributeValue = std::variant<std::string, long, double>;

/// Properties of a new dataset; with `extendible` and a first dimension of size 0 it grows along that
/// dimension.
struct DatasetShape {
  std::vector<hsize_t> dims;
  std::vector<hsize_t> chunk = {};  ///< empty: contiguous
  bool extendible = false;          ///< true if it grows along the first dimension
  int deflate = 0;                  ///< 0: none, 1 .. 9
};

/// Opens the group at an absolute path; creates it and its parents if missing.
GroupHandle open_group(hid_t file, const std::string& path);
/// Names of the objects in an open group, in alphabetical order.
std::vector<std::string> members_of(hid_t group);
/// Names of an open object's attributes, in alphabetical order.
std::vector<std::string> attributes_of(hid_t object);
/// True if every link of an absolute path exists. Throws Error (bad input) for a soft or external link: the
/// files of the program have none, and they lead elsewhere.
bool path_exists(hid_t file, const std::string& path);

/// Sets (or replaces) an attribute of a group or dataset. Text is UTF-8 of variable length.
void write_attribute(hid_t object, const std::string& name, const AttributeValue& value);
/// Value of an attribute; std::nullopt if there is none of that name. Throws Error if it is neither a single
/// number nor a single text.
std::optional<AttributeValue> read_attribute(hid_t object, const std::string& name);

/// Creates a dataset and its parent groups at an absolute path. It is not filled: the caller must write all
/// of it.
DatasetHandle create_dataset(hid_t file, const std::string& path, hid_t type, const DatasetShape& shape);
/// Opens a dataset for reading. Throws Error (bad input) that names it if it is missing, if its numbers are
/// in other files (a virtual dataset, external storage), or if it announces more than the file can hold of
/// it.
DatasetHandle open_dataset(hid_t file, const std::string& path);
/// The shape of an open dataset; empty for a scalar.
std::vector<hsize_t> dataset_shape(hid_t dataset);
/// The largest chunk of at most a megabyte that keeps the last dimensions whole: one depth cell of a field,
/// or less.
std::vector<hsize_t> chunk_within_a_depth_cell(const std::vector<hsize_t>& field_shape);
/// Count of the numbers that a dataset of this shape occupies on disk: the product of its extents, each
/// rounded up to whole chunks (none: contiguous).
hsize_t stored_numbers(const std::vector<hsize_t>& dims, const std::vector<hsize_t>& chunk);

/// A type of UTF-8 text of `size` bytes, padded with zero bytes, or of variable length (H5T_VARIABLE).
TypeHandle utf8_type(std::size_t size);

/// Properties of a collective transfer.
PropertyHandle collective_transfer();
/// Writes a whole contiguous dataset from one rank alone. (A chunked one would need all ranks: finding a
/// chunk reads metadata, which is collective.)
void write_contiguous(hid_t dataset, hid_t memory_type, const void* data);
/// Writes `data` (of type `memory_type`) into `rows` of a dataset, given by the first row and their number,
/// from each rank with `writes`; the other ranks take part without data. Collective.
void write_rows(hid_t dataset, bool writes, hid_t memory_type, const void* data,
                std::pair<hsize_t, hsize_t> rows);

}  // namespace fluxformer::io
