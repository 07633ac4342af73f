#pragma once

// The output file while it is being written (format: docs/output-format.md; names: io/layout.hpp).

#include <mpi.h>

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/index.hpp"
#include "io/hdf5/hdf5_objects.hpp"
#include "io/output_file.hpp"
#include "io/parts.hpp"
#include "io/variable.hpp"

namespace fluxformer::io {

/// A dataset of an archive that grows by rows, or a growing axis, which has rows of one number. ArchiveWriter
/// makes it and owns it. Collective; all ranks pass the same rows.
class Series {
 public:
  /// Called by ArchiveWriter. `dataset` has rows of `row` numbers, which also go into `values` (borrowed)
  /// unless that is null.
  Series(OutputFile& file, std::string path, DatasetHandle dataset, Index row, std::vector<double>* values);

  /// Appends a row; it is buffered in memory. std::logic_error if it has the wrong length.
  void append(std::span<const double> row);
  void append(double value) { append(std::span(&value, 1)); }
  /// Hands the buffered rows to HDF5.
  void write_pending();

 private:
  OutputFile& file_;
  std::string path_;
  DatasetHandle dataset_;
  Index row_;          ///< numbers in a row
  Index written_ = 0;  ///< rows
  std::vector<double> pending_;
  std::vector<double>* values_;
};

/// A field of an archive over time (growing), depth, token, sample and channel. ArchiveWriter makes it and
/// owns it.
class Field {
 public:
  /// Called by ArchiveWriter. The dataset is still to be created. Collective. `deflate`: 0 .. 9.
  Field(OutputFile& file, const Variable& variable, const FieldPart& part, const FieldSelection& selection,
        int deflate);

  /// Writes time `index` (at most one beyond the last written) from the rank's memory
  /// [cell][token][sample][channel], which may be null if the rank holds nothing. Collective.
  /// std::logic_error if there would be a gap.
  void write(Index index, const double* memory);
  /// Writes time `index` from numbers in file order, as returned by ArchiveReader::packed.
  void write_packed(Index index, const double* packed);

 private:
  friend class ArchiveWriter;

  OutputFile& file_;
  std::string name_;
  std::vector<std::string> axes_;
  FieldSlab slab_;
  std::vector<hsize_t> chunk_;
  Index pieces_;     ///< transfers for one time
  Index times_ = 0;  ///< times written
  int tokens_x_, tokens_y_;
  DatasetHandle dataset_;
  std::vector<double> scratch_;
};

/// Writes "<path>.part" with collective MPI-IO and renames it in `finish`. Every member is collective and
/// takes the same arguments on all ranks, except the rank's part and its memory. Errors: std::logic_error for
/// a call the format does not allow (same on all ranks); Error (exit code 1) naming the file if writing
/// fails. A writer destroyed before `finish` leaves the part file in place and `path` untouched.
class ArchiveWriter {
 public:
  /// Creates the part file. BadInput if `path` exists and `overwrite` is false, or its folder is missing or
  /// cannot be written.
  ArchiveWriter(MPI_Comm comm, const std::string& path, bool overwrite);
  /// Writes into a part file that was claimed earlier and has been locked since then.
  explicit ArchiveWriter(std::unique_ptr<PartFile> claim);

  /// Sets or replaces an attribute of a group (created if missing) or dataset.
  void attribute(const std::string& name, const AttributeValue& value, const std::string& object = "/");
  /// Defines a coordinate with these values at the root of the file. std::logic_error if there is one of that
  /// name.
  void axis(const Variable& coordinate, std::vector<double> values);
  /// Defines a coordinate that starts empty, at the root of the file, and returns it.
  Series& growing_axis(const Variable& coordinate);

  /// Writes `values`, row-major over the variable's axes, as <group>/<name>. std::logic_error if an axis is
  /// missing or the number of values does not match the axes.
  void write(const std::string& group, const Variable& variable, const std::vector<double>& values) {
    write(group, {{variable, values}});
  }
  /// Writes many variables of a group at once: the ranks agree once, not once per variable.
  void write(const std::string& group, const std::vector<std::pair<Variable, std::vector<double>>>& list);
  /// Writes many variables of a group at once from borrowed numbers, rank 0's, each with a digest by which
  /// readers find damage. The name of a variable may contain subgroups.
  void write_with_digests(const std::string& group,
                          const std::vector<std::pair<Variable, const double*>>& list);
  /// Writes <group>/<name> over two axes as compressed numbers of 4 bytes. Each rank passes its own rows;
  /// together they are all rows, in the order of the ranks. std::logic_error as for `write`.
  void rows(const std::string& group, const Variable& variable, std::span<const float> mine);
  /// Writes a list of words known to all ranks (rank 0's are written), as zero-padded UTF-8 strings of fixed
  /// length: MPI-IO cannot write strings of variable length. `axes`: those of the array, row-major; without,
  /// one axis that has no coordinate. std::logic_error if a word contains a zero byte, or their number does not
  /// match the axes.
  void words(const std::string& path, const std::vector<std::string>& words, const std::string& long_name,
             const std::vector<std::string>& axes = {});
  /// Writes words, row-major over the variable's axes, as <group>/<name>.
  void words(const std::string& group, const Variable& variable, const std::vector<std::string>& words);
  /// Writes /timing/<phase>: minimum, mean and maximum of the ranks' `seconds`.
  void timing(const std::string& phase, double seconds);

  /// Creates a dataset <group>/<name> that grows by rows; its first axis must be a growing one.
  Series& series(const std::string& group, const Variable& variable);
  /// Creates a field /field/<name> over a growing axis and four axes that are as long as the selection.
  /// `deflate`: 0 .. 9.
  Field& field(const Variable& variable, const FieldPart& part, const FieldSelection& selection,
               int deflate = 0);

  /// Adds channels (positions along the field's channel axis) of a sample to the side-car file; without a
  /// call none is written. The field must have all tokens.
  void show(const Field& field, Index sample, std::vector<Index> channels);

  /// Hands everything so far to the operating system: after a crash the part file is readable up to here.
  void flush();
  /// Sets the status (done, failed, interrupted), forces the file to disk, renames it and writes the XDMF
  /// side-car; the writer, its series and its fields cannot be used afterwards. Returns the file's name:
  /// incomplete_path if the run is not done and `path` holds a result that is done, or a file of another
  /// program.
  std::string finish(const std::string& status);

 private:
  struct Axis {
    DatasetHandle scale;
    bool growing = false;
    std::vector<double> values = {};  ///< values for the side-car file
    Index size = 0;                   ///< 0 for a growing axis
  };
  /// Numbers to be written, all borrowed.
  struct Numbers {
    const Variable& variable;
    std::string path;
    const double* data;
    std::vector<hsize_t> dims;
  };
  struct Shown {
    const Field& field;
    Index sample;
    std::vector<Index> channels;
  };

  Axis& create_axis(const Variable& coordinate, const DatasetShape& shape, std::vector<double> values);
  const Axis& known(const std::string& axis) const;
  /// Length of an axis that does not grow; one without coordinate ("extent_3") is created if missing.
  Index length(const std::string& axis, const std::string& path);
  Numbers numbers(const std::string& group, const Variable& variable, const double* data);
  /// Writes them all at once, with a digest each unless there are none.
  void write(const std::vector<Numbers>& list, const std::vector<std::uint64_t>& digests);
  void write_whole(hid_t dataset, bool whole_numbers, const double* data, Index count) const;
  void attach(hid_t dataset, const std::vector<std::string>& axes) const;
  void attach(hid_t dataset, const Variable& variable) const;
  std::string side_car(const std::string& file) const;
  bool root() const { return rank_ == 0; }

  OutputFile file_;
  int rank_ = 0;
  std::map<std::string, Axis> axes_;
  std::map<std::string, Series> series_;  ///< series by absolute path, growing axes as well
  std::map<std::string, Field> fields_;   ///< fields by name
  std::vector<Shown> shown_;
};

}  // namespace fluxformer::io
