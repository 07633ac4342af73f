#pragma once

// Reads archives, model files and checkpoints. Attributes and small arrays are read by rank 0 and broadcast;
// fields by all ranks with collective MPI-IO, independently of the rank count that wrote them.

#include <mpi.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/index.hpp"
#include "io/hdf5/handles.hpp"
#include "io/hdf5/hdf5_objects.hpp"
#include "io/parts.hpp"

namespace fluxformer::io {

/// A small array, the same on all ranks; row-major.
struct Array {
  std::vector<Index> shape;
  std::vector<double> values;
};

/// A finished file, opened for reading. Every member is collective and takes the same arguments on all ranks,
/// except the part and its memory. Objects that are missing, damaged or of the wrong type give BadInput that
/// names file and object; so do links and datasets that lead to other files.
class ArchiveReader {
 public:
  /// BadInput if the file is missing, not HDF5, truncated, not written by this program (no schema_version),
  /// or of a newer schema. `purpose` stands before the path in messages: "model.file = ".
  ArchiveReader(MPI_Comm comm, const std::string& path, const std::string& purpose = {});

  MPI_Comm comm() const { return comm_; }
  const std::string& path() const { return path_; }
  /// The file as messages name it.
  const std::string& called() const { return called_; }
  /// True if a group or dataset of this path exists.
  bool has(const std::string& object) const;
  /// Compares everything in a group with the digests written with it (CheckpointWriter); each rank reads its
  /// share. BadInput if something is damaged or missing; nothing happens for a group without a digest.
  void require_digests(const std::string& group) const;
  /// Names of the objects in a group, in alphabetical order.
  std::vector<std::string> children(const std::string& group) const;

  /// True if a group or dataset (by default the root) has this attribute.
  bool has_attribute(const std::string& name, const std::string& object = "/") const;
  /// Value of an attribute that is a text.
  std::string text(const std::string& name, const std::string& object = "/") const;
  /// Value of an attribute that is a whole number.
  long integer(const std::string& name, const std::string& object = "/") const;
  /// Value of an attribute that is a number; whole numbers are accepted, too.
  double real(const std::string& name, const std::string& object = "/") const;

  /// The shape of a dataset of numbers.
  std::vector<Index> shape(const std::string& dataset) const;
  /// A dataset of numbers as a whole.
  Array array(const std::string& dataset) const;
  /// A dataset of numbers as a whole; BadInput unless it has the expected shape.
  Array array(const std::string& dataset, const std::vector<Index>& expected) const;

  /// A list of words: a one-dimensional dataset of strings of fixed or variable length.
  std::vector<std::string> words(const std::string& dataset) const;

  /// Reads the rank's part of a dataset [depth, token, sample, channel], or of one with a leading time at
  /// `time`, into memory [cell][token][sample][channel]. BadInput if the dataset has another shape.
  void field(const std::string& dataset, const FieldPart& part, double* memory,
             std::optional<Index> time = {}) const;
  /// Reads this rank's pieces of a list of `part.size` numbers. BadInput if the dataset has another shape.
  void pieces(const std::string& dataset, const FlatPart& part, double* memory) const;
  /// The rank's numbers at `time` of a dataset that holds a selection of a field, in file order, as
  /// Field::write_packed takes them.
  std::vector<double> packed(const std::string& dataset, const FieldPart& part,
                             const FieldSelection& selection, Index time) const;

 private:
  /// Reads on rank 0 and broadcasts; any failure is attributed to the file.
  std::string from_file(const std::function<std::string()>& read) const;
  Array read_array(const std::string& dataset, const std::vector<Index>* expected) const;
  void require_shape(const std::string& dataset, const std::vector<Index>& found,
                     const std::vector<Index>& expected) const;
  void read(const std::string& dataset, const FieldSlab& slab, double* packed,
            std::optional<Index> time) const;
  /// The file as all ranks have it open; within a collective call.
  hid_t shared_file() const;
  std::optional<AttributeValue> attribute(const std::string& name, const std::string& object) const;
  AttributeValue required(const std::string& name, const std::string& object) const;

  MPI_Comm comm_;
  std::string path_, called_;
  bool root_ = false;
  FileHandle small_;           ///< file opened by rank 0, ordinary access
  mutable FileHandle shared_;  ///< file opened by all ranks (MPI-IO) at the first field
};

/// Time of the last change of a file, ns since 1970; std::nullopt if there is no file. Collective; rank 0
/// looks.
std::optional<std::int64_t> time_written(MPI_Comm comm, const std::string& path);

/// The file that an earlier run has left under the name of a result, if there is one.
struct EarlierResult {
  std::optional<std::int64_t> written;  ///< time of its last change (time_written)
  std::string status;                   ///< attribute of the root; "" if it cannot be read

  /// True if the file is the result of a run that did not complete: `failed` or `interrupted`.
  bool incomplete() const;
};

/// Looks at the file of a result. Collective; rank 0 looks.
EarlierResult earlier_result(MPI_Comm comm, const std::string& path);

}  // namespace fluxformer::io
