#pragma once

// The history of a training, which others can watch while it runs: HDF5 with one writer and any number of
// readers (SWMR, https://docs.hdfgroup.org/hdf5/v1_10/group___s_w_m_r.html). Format: docs/output-format.md.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "io/hdf5/handles.hpp"
#include "io/hdf5/hdf5_objects.hpp"
#include "io/variable.hpp"

namespace fluxformer::io {

/// Metadata of a history file, all of which are written before the first row.
struct HistoryHeader {
  /// Names and values, in the order they are written.
  using Attributes = std::vector<std::pair<std::string, AttributeValue>>;
  Attributes run;       ///< attributes of the root: experiment, git_revision, deck, ...
  std::string group;    ///< path of the group that holds the columns
  Attributes of_group;  ///< attributes of that group
};

/// Columns over one growing axis.
struct HistoryTable {
  Variable axis;
  std::vector<Variable> columns;
};

/// A file with datasets <group>/<column> over steps and over epochs, and the two axes, which grow. For a
/// single rank; uses no MPI. Every failure is an Error (exit code 1) that names the file, "no space left on
/// device" if the disk is full; the file then stays readable up to the last `flush`, and nothing more is
/// written.
class HistoryFile {
 public:
  /// The columns go into `header.group`; those of a table share the growing axis they name. An existing file
  /// of that name is replaced (its readers keep the old one). From here on the file can be opened for SWMR
  /// reading.
  HistoryFile(const std::string& path, const HistoryHeader& header, const HistoryTable& steps,
              const HistoryTable& epochs);
  HistoryFile(const HistoryFile&) = delete;
  HistoryFile& operator=(const HistoryFile&) = delete;
  /// The status stays "running" unless `close` is called.
  ~HistoryFile() = default;

  /// Appends a row of the columns over steps, in their order; buffered until `flush` or until the buffer is
  /// full. std::logic_error if the number of values is wrong.
  void add_step(double step, std::span<const double> values) { add(steps_, step, values); }
  /// Appends a row of the columns over epochs, in their order; buffered and checked as by add_step.
  void add_epoch(double epoch, std::span<const double> values) { add(epochs_, epoch, values); }
  /// Makes all rows so far visible to readers. Writes a few kilobytes per column: call it about once a
  /// second.
  void flush();
  /// Flushes, closes and sets the status (done, failed, interrupted). The file cannot be used afterwards.
  void close(const std::string& status);

 private:
  struct Table {
    HistoryTable of;
    std::vector<std::string> paths;         ///< paths of the columns, then of the axis
    std::vector<DatasetHandle> datasets;    ///< datasets, in the order of `paths`
    std::vector<std::vector<double>> rows;  ///< pending numbers of each dataset, in the order of `paths`
    hsize_t written = 0;
  };

  void attempt(const std::function<void()>& work);
  void create(const std::string& part, const HistoryHeader& header);
  void create_table(const Table& table);
  void open_table(Table& table);
  void add(Table& table, double coordinate, std::span<const double> values);
  void write(Table& table);
  void make_room(std::uint64_t bytes);

  std::string path_, group_;
  FileHandle file_;
  std::uint64_t reserved_ = 0;  ///< space is reserved up to here
  Table steps_, epochs_;
};

}  // namespace fluxformer::io
