#pragma once

// HDF5 crashes, or never returns, on some damaged files: 1.10 checks no sizes within its heaps of texts, which
// have no checksum. So a second process, the checker, reads a file before this one does. It is this executable
// again, started by posix_spawn: unlike a fork it copies no memory and inherits no open file of MPI.

#include <mpi.h>

#include <optional>
#include <string>

#include "base/error.hpp"

namespace fluxformer::io {

/// To be called first by `main`, before MPI is initialised. In a process that was started as a checker: reads
/// the files that the other process names until that has ended, and returns the exit code of this one. In any
/// other: returns nothing, and files will be read on trial from now on. A program that does not call it reads
/// files at once.
std::optional<int> serve_as_checker(int argc, char** argv);

/// Whether this process reads files at once from now on: run.trust_files, and ranks that read what rank 0 has
/// read before them. Rank-local.
void trust_files(bool trusted);

/// The checker cannot be started, or was killed: no fault of the file.
class NoChecker : public Error {
 public:
  explicit NoChecker(const std::string& what) : Error(ExitCode::failure, what) {}
};

/// Lets the checker open the file and read all attributes, texts and chunked numbers, except datasets beyond
/// 256 MB, with limits on time and memory; starts it if there is none. Throws BadInput (without the name of
/// the file) if it does not survive that twice, or NoChecker. What it cannot read without dying, it leaves to
/// the reader. Nothing happens where files are read at once. Rank-local; no call of MPI.
void read_on_trial(const std::string& path);

/// The same on rank 0, before all ranks read the file by themselves; what is no regular file is left to them.
/// Collective; throws on all ranks or none, with the file as `called`.
void read_on_trial_first(MPI_Comm comm, const std::string& path, const std::string& called);

/// While one exists, this process reads a file. If files are trusted, a signal by which HDF5 crashes ends the
/// process with exit code 2 and a message that names the file; the launcher then ends the other ranks. One at
/// a time counts, the first. Rank-local.
class AtOnce {
 public:
  /// `file`: as messages name it.
  explicit AtOnce(const std::string& file);
  AtOnce(const AtOnce&) = delete;
  AtOnce& operator=(const AtOnce&) = delete;
  ~AtOnce();

 private:
  bool counts_;
};

}  // namespace fluxformer::io
