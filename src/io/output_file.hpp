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

/// A part file with HDF5 in it. Every member is collective.
class OutputFile {
 public:
  /// Errors as PartFile.
  OutputFile(MPI_Comm comm, const std::string& path, bool overwrite);
  /// In a part that was claimed before and has stayed locked since.
  explicit OutputFile(std::unique_ptr<PartFile> claim);
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  hid_t id() const { return file_; }
  MPI_Comm comm() const { return part_->comm(); }
  const std::string& path() const { return part_->path(); }

  /// Makes room for `bytes` more of data (and the metadata of the `objects` that go with them), then runs
  /// `work` (HDF5 calls that all ranks make alike); a failure on one rank is thrown by all, with the file's
  /// name in front.
  void change(const std::string& doing, std::uint64_t bytes, const std::function<void()>& work,
              std::size_t objects = 1);
  /// Everything so far is with the operating system.
  void flush();
  /// Closes, and gives the file its name (see PartFile::commit).
  void commit(const std::string& previous = {});

 private:
  void make_room(std::uint64_t bytes);

  std::unique_ptr<PartFile> part_;
  FileHandle file_;
  std::uint64_t end_ = 0;       ///< the file does not reach beyond this
  std::uint64_t reserved_ = 0;  ///< the disk has room up to here
};

}  // namespace fluxformer::io
