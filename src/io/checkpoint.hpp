#pragma once

// Restart files: named numbers, words and fields under /state of "<name>.checkpoint.h5". Fields are stored in
// their global layout, so any rank count can read them. Two generations are kept, so that one of them is
// complete whenever the program dies.

#include <mpi.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "io/archive_reader.hpp"
#include "io/output_file.hpp"
#include "io/parts.hpp"

namespace fluxformer::io {

// Each item of a checkpoint is defined once, for writing and for reading: its name, and the values it can
// have.

/// A whole number of a checkpoint: the attribute `name` of /state.
struct WholeItem {
  const char* name;
  long least = 0, most = std::numeric_limits<long>::max();
};
/// A finite number of a checkpoint: the attribute `name` of /state.
struct RealItem {
  const char* name;
  double least = std::numeric_limits<double>::lowest(), most = std::numeric_limits<double>::max();
};
/// A list of numbers of a checkpoint, or a field, at /state/name.
struct NumbersItem {
  const char* name;
  bool can_be_nan = false;
  double least = std::numeric_limits<double>::lowest();
  bool can_be_infinite = false;
};

/// Writes one checkpoint. Every member is collective; replicated arguments are the same on all ranks. Errors
/// are those of ArchiveWriter; an earlier checkpoint is not touched before `commit` has written the new one
/// to disk.
class CheckpointWriter {
 public:
  /// Begins a checkpoint next to the run's output file, whose path is `output`.
  CheckpointWriter(MPI_Comm comm, const std::string& output);

  /// Writes a text.
  void put(const char* name, const std::string& text) { put_value(name, text); }
  /// Writes a whole number.
  void put(const WholeItem& item, long value) { put_value(item.name, value); }
  /// Writes a number, all bits of it.
  void put(const RealItem& item, double value) { put_value(item.name, value); }
  /// Writes numbers known to all ranks (rank 0's are written).
  void put(const NumbersItem& item, const std::vector<double>& values);
  /// Writes a list of which each rank passes some pieces: each number once.
  void put(const NumbersItem& item, const FlatPart& part, const double* memory);
  /// Writes a field from the rank's memory [cell][token][sample][channel].
  void put(const NumbersItem& item, const FieldPart& part, const double* memory);
  /// Marks the checkpoint as complete and renames its file; the existing checkpoint becomes the previous
  /// generation.
  void commit();

 private:
  void put_value(const std::string& name, const AttributeValue& value);
  /// Creates a dataset, whose digest is the sum of `digest_here` over the ranks, and writes it.
  void create(const std::string& name, const std::vector<hsize_t>& shape, std::uint64_t digest_here,
              const std::function<void(hid_t)>& write);

  OutputFile file_;
  std::string previous_;
  std::uint64_t contents_ = 0;  ///< digest of all items so far
};

/// Reads what CheckpointWriter wrote, bit for bit. Every member is collective; BadInput that names the file
/// for an item that is missing, of another kind or size, or outside its range.
class CheckpointReader {
 public:
  /// Opens the checkpoint file `path`. BadInput where ArchiveReader throws it, or if the checkpoint is
  /// incomplete or damaged.
  CheckpointReader(MPI_Comm comm, const std::string& path);
  /// Opens the newest generation for `output` that is complete and undamaged; BadInput with the reasons if
  /// there is none.
  static CheckpointReader newest(MPI_Comm comm, const std::string& output);

  const std::string& path() const { return reader_.path(); }
  /// The file as messages name it.
  const std::string& called() const { return reader_.called(); }
  /// The reason why this is the previous generation, not the newest; "" if it is the newest.
  const std::string& newer_failed() const { return newer_failed_; }
  std::string text(const char* name) const;
  long integer(const WholeItem& item) const;
  double real(const RealItem& item) const;
  /// A list of exactly `size` numbers.
  std::vector<double> numbers(const NumbersItem& item, Index size) const;
  /// Reads this rank's pieces of a list of `part.size` numbers.
  void part(const NumbersItem& item, const FlatPart& part, double* memory) const;
  /// A list of any number of rows, `width` numbers each.
  std::vector<double> rows(const NumbersItem& item, Index width) const;
  /// Reads this rank's part of a field into memory [cell][token][sample][channel].
  void field(const NumbersItem& item, const FieldPart& part, double* memory) const;

 private:
  void require_range(const NumbersItem& item, std::span<const double> values) const;

  ArchiveReader reader_;
  std::string newer_failed_;
};

}  // namespace fluxformer::io
