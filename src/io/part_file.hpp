#pragma once

// A file that appears under its name only when complete: it is written as "<path>.part" and then renamed.
// POSIX calls on rank 0 only; failures are collective.

#include <mpi.h>

#include <cstdint>
#include <string>

#include "io/file_names.hpp"

namespace fluxformer::io {

/// "<path>.part" from creation to rename, locked (flock) for the lifetime of this object. An unfinished one
/// stays on disk under that name, unless nothing was written to it.
class PartFile {
 public:
  /// Collective: creates an empty "<path>.part" (a left-over one is unlinked first). BadInput if `path`
  /// exists and `overwrite` is false, if another run holds the part, or if the folder is missing or cannot be
  /// written; Error if the disk is full.
  PartFile(MPI_Comm comm, std::string path, bool overwrite);
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;
  ~PartFile();

  MPI_Comm comm() const { return comm_; }
  const std::string& path() const { return path_; }
  std::string part() const { return part_path(path_); }

  /// Collective: size of the part file in bytes.
  std::uint64_t size() const;
  /// Collective: ensures that `bytes` from `offset` on can be written, so that a full disk is detected here,
  /// where ranks can agree on it, and not within MPI-IO, where they cannot; likewise for the limit on file
  /// sizes of any rank. Throws Error naming the file otherwise.
  void reserve(std::uint64_t offset, std::uint64_t bytes) const;
  /// Collective: fsync, rename to `path` (an existing file is first renamed to `previous` if given), and
  /// fsync of the folder. Error if another process replaced the part.
  void commit(const std::string& previous = {});
  /// The same under another name, whose file is replaced.
  void commit_as(const std::string& path);

 private:
  // On rank 0.
  void check_and_sync();
  void put_in_place(const std::string& path);

  MPI_Comm comm_;
  std::string path_;
  int descriptor_ = -1;  ///< rank 0 only
  bool overwrite_, committed_ = false;
};

/// Collective: BadInput if a running process holds the part file of `path`.
void refuse_if_held(MPI_Comm comm, const std::string& path);

/// Rank-local: whether `bytes` from `offset` on can be written. Reserves them if the file system supports it
/// (without extending the file), else checks the free space. errno is set on failure: EFBIG beyond the limit
/// on the size of files.
bool disk_can_hold(int descriptor, std::uint64_t offset, std::uint64_t bytes);
/// What errno means for a write.
std::string write_failure(int error);

/// Collective: writes `text` to `path` through a part file. Error on failure.
void write_text_file(MPI_Comm comm, const std::string& path, const std::string& text);

}  // namespace fluxformer::io
