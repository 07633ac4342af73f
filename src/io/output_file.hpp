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

/// Bytes that a file takes, at least: of data, of the metadata of so many objects, and of what every file of
/// ours has and keeps in reserve.
std::uint64_t room_for(std::uint64_t bytes, std::size_t objects);

/// A part file with HDF5 in it. Every member is collective.
class OutputFile {
 public:
  /// Errors as PartFile.
  OutputFile(MPI_Comm comm, const std::string& path, bool overwrite);
  /// In a part file claimed earlier and locked since then.
  explicit OutputFile(std::unique_ptr<PartFile> claim);
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  hid_t id() const { return file_; }
  MPI_Comm comm() const { return part_->comm(); }
  const std::string& path() const { return part_->path(); }

  /// Reserves space for `bytes` more of data (and the metadata of `objects` objects), then runs `work` (HDF5
  /// calls, the same on all ranks); a failure on one rank is thrown by all, prefixed with the file's name.
  void change(const std::string& doing, std::uint64_t bytes, const std::function<void()>& work,
              std::size_t objects = 1);
  /// Hands everything so far to the operating system.
  void flush();
  /// Closes and renames the file (see PartFile::commit).
  void commit(const std::string& previous = {});
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
