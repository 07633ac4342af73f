#pragma once

// The output file while it is being written (format: docs/output-format.md; names: io/layout.hpp).

#include <mpi.h>

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "io/hdf5/hdf5_objects.hpp"
#include "io/output_file.hpp"
#include "io/parts.hpp"
#include "io/variable.hpp"
#include "io/xdmf.hpp"

namespace fluxformer::io {

/// A coordinate at the root of the file; dimensions of datasets refer to it by name.
struct Axis {
  std::string name;
  std::vector<double> values;  ///< ignored if `growing`; values are appended instead
  std::string unit = {};       ///< "" for a pure number
  std::string long_name = {};
  bool growing = false;
  bool whole_numbers = false;  ///< stored as 64-bit integers
};

/// What the numbers of a dataset mean.
struct Meaning {
  std::string unit = {};  ///< "" for a pure number
  std::string long_name = {};
  bool whole_numbers = false;  ///< an array stored as 64-bit integers
};

/// What a variable says of its numbers, without its name and axes.
inline Meaning meaning_of(const Variable& variable) {
  return {variable.unit, variable.long_name, variable.whole_numbers};
}

/// A small array known to all ranks, row-major, at an absolute path. Dimensions without a named axis ("" or a
/// shorter list) get an anonymous one.
struct SmallArray {
  std::string path;
  std::vector<std::size_t> shape;
  const double* data;  ///< borrowed; rank 0's is written
  Meaning meaning = {};
  std::vector<std::string> axes = {};
  bool with_digest = false;  ///< damage is found by whoever reads it
};

/// Writes "<path>.part" with collective MPI-IO and renames it in `finish`. Every member is collective and
/// takes the same arguments on all ranks, except the rank's part and its memory. Errors: std::logic_error for
/// a call the format does not allow (same on all ranks); Error (exit code 1) naming the file if writing
/// fails. A writer destroyed before `finish` leaves the part file in place and `path` untouched.
class ArchiveWriter {
 public:
  /// BadInput if `path` exists and `overwrite` is false, or its folder is missing or cannot be written.
  ArchiveWriter(MPI_Comm comm, const std::string& path, bool overwrite);
  /// In a part file claimed earlier and locked since then.
  explicit ArchiveWriter(std::unique_ptr<PartFile> claim);

  /// Sets or replaces an attribute of a group (created if missing) or dataset.
  void attribute(const std::string& name, const AttributeValue& value, const std::string& object = "/");
  void axis(const Axis& axis);
  /// A coordinate with these values; a growing one starts empty.
  void axis(const Variable& coordinate, std::vector<double> values);
  void growing_axis(const Variable& coordinate);
  /// `values`, row-major over the variable's axes, as <group>/<name>. std::logic_error if an axis is missing
  /// or the number of values does not match the axes.
  void write(const std::string& group, const Variable& variable, const std::vector<double>& values) {
    write(group, {{variable, values}});
  }
  /// Many at once: the ranks agree once, not once per variable.
  void write(const std::string& group, const std::vector<std::pair<Variable, std::vector<double>>>& list);
  /// See SmallArray.
  void array(const std::string& path, const std::vector<std::size_t>& shape, const double* data,
             const Meaning& meaning = {}, const std::vector<std::string>& axes = {}) {
    arrays({{path, shape, data, meaning, axes}});
  }
  /// Many at once: the ranks agree once, not once per array.
  void arrays(const std::vector<SmallArray>& list);
  /// <group>/<name> over two axes as compressed numbers of 4 bytes, of which each rank passes its rows: all of them,
  /// in the order of the ranks. std::logic_error as `write`.
  void rows(const std::string& group, const Variable& variable, std::span<const float> mine);
  /// A list of words known to all ranks (rank 0's are written), as zero-padded UTF-8 strings of fixed length: MPI-IO
  /// cannot write those of variable length. std::logic_error if a word contains a zero byte.
  void words(const std::string& path, const std::vector<std::string>& words, const std::string& long_name,
             const std::string& axis = {});

  /// A dataset <group>/<name> that grows by rows; its first axis is a growing one.
  void series(const std::string& group, const Variable& variable);
  /// Appends a row to a series, or a value to a growing axis ("/time"). Buffered in memory.
  void append(const std::string& path, std::span<const double> row);
  void append(const std::string& path, double value) { append(path, std::span(&value, 1)); }

  /// A field over time (growing), depth, token, sample, channel, as long as the selection. `deflate`: 0 .. 9.
  void field(const Variable& variable, const FieldPart& part, const FieldSelection& selection,
             int deflate = 0);
  /// Time `index` (at most one beyond the last written) of a field from the rank's memory
  /// [cell][token][sample][channel]; may be null if the rank holds nothing.
  void write(const std::string& name, std::size_t index, const double* memory);
  /// The same from numbers in file order, as returned by ArchiveReader::packed.
  void write_packed(const std::string& name, std::size_t index, const double* packed);

  /// /timing/<phase>: minimum, mean and maximum of the ranks' `seconds`.
  void timing(const std::string& phase, double seconds);
  /// Views for the side-car file; without a call none is written. The field must have all tokens.
  void show(const XdmfChoice& choice) { shown_.push_back(choice); }

  /// Hands everything so far to the operating system: after a crash the part file is readable up to here.
  void flush();
  /// status (done, failed, interrupted), fsync, rename, XDMF side-car; the writer cannot be used afterwards.
  /// Returns the name: incomplete_path if the run is not done and `path` holds anything but such a result.
  std::string finish(const std::string& status);

 private:
  struct Growing {  // a series or a growing axis
    DatasetHandle dataset;
    std::size_t row = 1;   // numbers per row
    std::size_t rows = 0;  // written
    std::vector<double> pending;
  };
  struct KnownAxis {
    DatasetHandle scale;
    bool growing;
    std::vector<double> values;  // for the side-car file
    std::size_t size;
  };
  struct Field {
    DatasetHandle dataset;
    FieldSlab slab;
    std::vector<std::string> axes;
    std::vector<hsize_t> chunk;
    std::size_t times = 0, pieces = 1;
    int tokens_x, tokens_y;
  };

  Field& known_field(const std::string& name);
  const KnownAxis& known(const std::string& axis) const;
  const std::string& anonymous_axis(std::size_t size, std::size_t repetition);
  void write_whole(hid_t dataset, bool whole_numbers, const double* data, std::size_t count);
  std::vector<std::string> named_axes(const std::string& path, const std::vector<std::size_t>& shape,
                                      std::vector<std::string> axes);
  void attach(hid_t dataset, const std::vector<std::string>& axes);
  void attach(hid_t dataset, const std::vector<std::string>& axes, const Meaning& meaning);
  void write_pending(const std::string& path, Growing& growing);
  std::string side_car(const std::string& file) const;
  bool root() const { return rank_ == 0; }

  OutputFile file_;
  int rank_ = 0;
  std::map<std::string, KnownAxis> axes_;
  std::map<std::string, Growing> growing_;  // by absolute path
  std::map<std::string, Field> fields_;
  std::vector<XdmfChoice> shown_;
  std::vector<double> scratch_;
};

}  // namespace fluxformer::io
