#pragma once

// One HDF5 file under construction, opened for collective MPI-IO: the machinery that archive and checkpoint
// share.

#include <hdf5.h>
#include <mpi.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "io/hdf5/handles.hpp"
#include "io/part_file.hpp"

namespace fluxformer::io {

/// Bytes that a file needs at least: its data, the metadata of so many objects and of what every file of this
/// program holds, and the reserve for closing it.
std::uint64_t room_for(std::uint64_t bytes, std::uint64_t objects);

/// A part file with HDF5 in it. Every member is collective. Errors are those of PartFile, and Error (exit
/// code 1) that names the file if HDF5 fails.
class OutputFile {
 public:
  /// Creates the part file.
  OutputFile(MPI_Comm comm, const std::string& path, bool overwrite);
  /// Writes into a part file that was claimed earlier and has been locked since then.
  explicit OutputFile(std::unique_ptr<PartFile> claim);
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  hid_t id() const { return file_; }
  MPI_Comm comm() const { return part_->comm(); }
  const std::string& path() const { return part_->path(); }

  /// Reserves space for `bytes` more of data (and the metadata of `objects` objects), then runs `work` (HDF5
  /// calls, the same on all ranks); a failure on one rank is thrown by all, prefixed with the file's name.
  void change(const std::string& doing, std::uint64_t bytes, const std::function<void()>& work,
              std::uint64_t objects = 1);
  /// Hands everything so far to the operating system.
  void flush();
  /// Closes the file and renames it to its path (PartFile::commit).
  void commit(const std::string& previous = {});
  /// Closes the file and renames it to another name (PartFile::commit_as).
  void commit_as(const std::string& path);

 private:
  void close();
  void make_room(std::uint64_t bytes);

  std::unique_ptr<PartFile> part_;
  FileHandle file_;
  std::uint64_t end_ = 0;       ///< upper bound of the file's length
  std::uint64_t reserved_ = 0;  ///< space is reserved up to here
};

}  // namespace fluxformer::io
