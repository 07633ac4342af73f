#pragma once

// A file that appears under its name only when it is complete: it is written as "<path>.part" and then
// renamed. Rank 0 alone makes the POSIX calls; failures are collective.

#include <mpi.h>

#include <cstdint>
#include <string>

#include "io/file_names.hpp"

namespace fluxformer::io {

/// The file "<path>.part" from its creation to its rename, locked (flock) for the lifetime of this object. An
/// unfinished file stays on disk under that name, unless nothing was written to it. Space reserved beyond the
/// end of the file is given back when the file is committed or left unfinished; no rank may then have the
/// file open for writing.
class PartFile {
 public:
  /// Creates an empty "<path>.part" (one that a dead run has left is unlinked first). Collective. BadInput if
  /// `path` exists and `overwrite` is false, if another run holds the part, or if the folder is missing or
  /// cannot be written; Error if the disk is full.
  PartFile(MPI_Comm comm, std::string path, bool overwrite);
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;
  ~PartFile();

  MPI_Comm comm() const { return comm_; }
  const std::string& path() const { return path_; }
  std::string part() const { return part_path(path_); }

  /// Size of the part file in bytes. Collective.
  std::uint64_t size() const;
  /// Ensures that `bytes` from `offset` on can be written, so that a full disk is detected here, where ranks
  /// can agree on it, and not within MPI-IO, where they cannot. The limit on file sizes of any rank is
  /// detected here, too. Throws Error naming the file otherwise. Collective.
  void reserve(std::uint64_t offset, std::uint64_t bytes) const;
  /// Forces the file to disk and renames it to `path`; an existing file is first renamed to `previous`, if
  /// that is given. Error if another process has replaced the part. Collective.
  void commit(const std::string& previous = {});
  /// Forces the file to disk and renames it to another name, whose file is replaced. Errors as for `commit`.
  /// Collective.
  void commit_as(const std::string& path);

 private:
  // The following are called on rank 0.
  void check_and_sync();
  void put_in_place(const std::string& path);

  MPI_Comm comm_;
  std::string path_;
  int descriptor_ = -1;  ///< open on rank 0 only
  bool overwrite_, committed_ = false;
};

/// Throws BadInput if a running process holds the part file of `path`. Collective.
void refuse_if_held(MPI_Comm comm, const std::string& path);

/// True if `bytes` from `offset` on can be written. Reserves them if the file system supports it (without
/// extending the file), otherwise checks the free space. errno is set on failure: EFBIG beyond the limit on
/// the size of files. Rank-local.
bool disk_can_hold(int descriptor, std::uint64_t offset, std::uint64_t bytes);
/// Gives back the disk space that disk_can_hold has reserved beyond the end of a file. Rank-local.
void release_reserved(int descriptor);
/// Message for the errno of a failed write.
std::string write_failure(int error);

/// Writes `text` to `path` through a part file. Error on failure. Collective.
void write_text_file(MPI_Comm comm, const std::string& path, const std::string& text);

}  // namespace fluxformer::io
