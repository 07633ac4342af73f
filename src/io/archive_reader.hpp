#pragma once

// Reads archives, model files and checkpoints. Attributes and small arrays are read by rank 0 and broadcast;
// fields by all ranks with collective MPI-IO, independently of the rank count that wrote them.

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "io/hdf5/handles.hpp"
#include "io/hdf5/hdf5_objects.hpp"
#include "io/parts.hpp"

namespace fluxformer::io {

/// A small array, the same on all ranks; row-major.
struct Array {
  std::vector<std::size_t> shape;
  std::vector<double> values;
};

/// Every member is collective and takes the same arguments on all ranks, except the part and its memory.
/// Objects that are missing, damaged or of the wrong type give BadInput that names file and object; so do links
/// and datasets that lead to other files.
class ArchiveReader {
 public:
  /// BadInput if the file is missing, not HDF5, truncated, not one of ours (no schema_version), or of a newer
  /// schema. `purpose` stands before the path in messages: "model.file = ".
  ArchiveReader(MPI_Comm comm, const std::string& path, const std::string& purpose = {});

  MPI_Comm comm() const { return comm_; }
  const std::string& path() const { return path_; }
  /// The file as messages name it.
  const std::string& called() const { return called_; }
  /// Whether a group or dataset exists.
  bool has(const std::string& object) const;
  /// Compares everything in a group with the digests written with it (CheckpointWriter); each rank reads its
  /// share. BadInput if something is damaged or missing; nothing happens for a group without a digest.
  void require_digests(const std::string& group) const;
  /// Names in a group, in alphabetical order.
  std::vector<std::string> children(const std::string& group) const;

  /// Whether a group or dataset (by default the root) has this attribute, and its value: BadInput where it is
  /// missing or of another kind.
  bool has_attribute(const std::string& name, const std::string& object = "/") const;
  std::string text(const std::string& name, const std::string& object = "/") const;
  long integer(const std::string& name, const std::string& object = "/") const;
  /// Integer attributes are accepted too.
  double real(const std::string& name, const std::string& object = "/") const;

  /// The shape of a dataset.
  std::vector<std::size_t> shape(const std::string& dataset) const;
  Array array(const std::string& dataset) const;
  /// The same; BadInput unless it has this shape.
  Array array(const std::string& dataset, const std::vector<std::size_t>& expected) const;

  /// A list of words: a one-dimensional dataset of strings of fixed or variable length.
  std::vector<std::string> words(const std::string& dataset) const;

  /// The rank's part of a dataset [depth, token, sample, channel], or of one with a leading time at `time`,
  /// into memory [cell][token][sample][channel]. BadInput if the dataset has another shape.
  void field(const std::string& dataset, const FieldPart& part, double* memory,
             std::optional<std::size_t> time = {}) const;
  /// This rank's pieces of a list of `part.size` numbers. BadInput if the dataset has another shape.
  void pieces(const std::string& dataset, const FlatPart& part, double* memory) const;
  /// For a dataset that holds a selection of a field: the rank's numbers in file order, as
  /// ArchiveWriter::write_packed takes them.
  std::vector<double> packed(const std::string& dataset, const FieldPart& part,
                             const FieldSelection& selection, std::size_t time) const;

 private:
  /// Reads on rank 0 and broadcasts; any failure is attributed to the file.
  std::string from_file(const std::function<std::string()>& read) const;
  Array read_array(const std::string& dataset, const std::vector<std::size_t>* expected) const;
  void require_shape(const std::string& dataset, const std::vector<std::size_t>& found,
                     const std::vector<std::size_t>& expected) const;
  void read(const std::string& dataset, const FieldSlab& slab, double* packed,
            std::optional<std::size_t> time) const;
  /// The file as all ranks have it open; within a collective call.
  hid_t shared_file() const;
  std::optional<AttributeValue> attribute(const std::string& name, const std::string& object) const;
  AttributeValue required(const std::string& name, const std::string& object) const;

  MPI_Comm comm_;
  std::string path_, called_;
  bool root_ = false;
  FileHandle small_;           ///< rank 0, ordinary access
  mutable FileHandle shared_;  ///< all ranks, MPI-IO; opened when a field is first read
};

/// Time of the last change of a file, ns; none if there is no file. Collective; rank 0 looks.
std::optional<std::int64_t> time_written(MPI_Comm comm, const std::string& path);

/// A file, or none.
struct EarlierResult {
  std::optional<std::int64_t> written;  ///< as time_written
  std::string status;                   ///< as in the schema; "" if it cannot be read

  /// Of a run that did not complete: `failed` or `interrupted`.
  bool incomplete() const;
};

/// Collective; rank 0 looks.
EarlierResult earlier_result(MPI_Comm comm, const std::string& path);

}  // namespace fluxformer::io
