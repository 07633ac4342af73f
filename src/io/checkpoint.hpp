#pragma once

// Restart files: named numbers, words and fields under /state of "<name>.checkpoint.h5". Fields are stored in
// their global layout, so any rank count can read them. Two generations are kept, so that one of them is
// complete whenever the program dies.

#include <mpi.h>

#include <string>
#include <vector>

#include "io/archive_reader.hpp"
#include "io/field_slab.hpp"
#include "io/output_file.hpp"

namespace fluxformer::io {

/// Writes one checkpoint. Every member is collective; replicated arguments are the same on all ranks. Errors
/// as ArchiveWriter; an earlier checkpoint is not touched before `commit` has written the new one to disk.
class CheckpointWriter {
 public:
  /// `output`: path of the run's output file; the checkpoint is written next to it.
  CheckpointWriter(MPI_Comm comm, const std::string& output);

  /// A word or a number (kept exactly).
  void put(const std::string& name, const AttributeValue& value);
  /// Numbers known to all ranks (rank 0's are written).
  void put(const std::string& name, const std::vector<double>& values);
  /// A field from the rank's memory [cell][token][sample][channel].
  void put(const std::string& name, const FieldPart& part, const double* memory);
  /// Marks it complete and renames it; the existing checkpoint becomes the previous generation.
  void commit();

 private:
  OutputFile file_;
  std::string previous_;
};

/// Reads what CheckpointWriter wrote, bit for bit.
class CheckpointReader {
 public:
  /// Collective: `path` is a checkpoint file; BadInput as ArchiveReader, or if the checkpoint is incomplete.
  CheckpointReader(MPI_Comm comm, const std::string& path);
  /// Collective: the newest complete generation for `output`; BadInput with the reasons if none can be read.
  static CheckpointReader newest(MPI_Comm comm, const std::string& output);

  const std::string& path() const { return reader_.path(); }
  /// Whether anything was put under this name, and what: BadInput if it is missing or of another kind.
  /// Collective.
  bool has(const std::string& name) const;
  long integer(const std::string& name) const;
  double real(const std::string& name) const;
  std::string text(const std::string& name) const;
  std::vector<double> numbers(const std::string& name) const;
  void field(const std::string& name, const FieldPart& part, double* memory) const;

 private:
  ArchiveReader reader_;
};

}  // namespace fluxformer::io
