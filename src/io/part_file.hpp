#pragma once

// A file that appears under its name only when it is complete: work goes into "<path>.part", which is
// renamed. POSIX calls, made by rank 0 alone; failures are collective.

#include <mpi.h>

#include <cstdint>
#include <string>

namespace fluxformer::io {

/// "<path>.part" from birth to its rename, locked (flock) for as long as this lives. An unfinished one stays
/// on the disk under that name.
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
  std::string part() const { return path_ + ".part"; }

  /// Collective: bytes in the part.
  std::uint64_t size() const;
  /// Collective: makes sure that `bytes` from `offset` on can be written, so that a full disk is met here,
  /// where ranks can agree on it, and not within MPI-IO, where they cannot. Error naming the file otherwise.
  void reserve(std::uint64_t offset, std::uint64_t bytes) const;
  /// Collective: fsync, rename to `path` (what stood there is first renamed to `previous` if that is given),
  /// and fsync of the folder. Error if another process replaced the part.
  void commit(const std::string& previous = {});

 private:
  MPI_Comm comm_;
  std::string path_;
  int descriptor_ = -1;  ///< rank 0 only
  bool overwrite_;
};

/// Rank-local: whether `bytes` from `offset` on can be written; they are reserved where the file system can
/// (the file does not get longer), else the free space is looked at. errno says why not.
bool disk_can_hold(int descriptor, std::uint64_t offset, std::uint64_t bytes);

/// Collective: writes `text` to `path` through its own part. Error on failure.
void write_text_file(MPI_Comm comm, const std::string& path, const std::string& text);

}  // namespace fluxformer::io
