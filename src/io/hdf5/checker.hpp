#pragma once

// HDF5 crashes, or never returns, on some damaged files: 1.10 checks no sizes within its heaps of texts, which
// have no checksum. So a second process, the checker, reads a file before this one does. It is this executable again, started by posix_spawn: it copies no memory and inherits
// nothing of MPI, as a fork would.

#include <optional>
#include <string>

namespace fluxformer::io {

/// To be called first by `main`, before MPI is initialised. In a process that was started as a checker: reads the
/// files that the other process names until that has ended, and returns the exit code of this one. In any
/// other: returns nothing, and files will be read on trial from now on. A program that does not call it reads
/// files at once.
std::optional<int> serve_as_checker(int argc, char** argv);

/// Whether files are read at once from now on (run.trust_files). Rank-local.
void trust_files(bool trusted);

/// Lets the checker open the file and read all attributes, texts and chunked numbers, except datasets beyond
/// 256 MB, with limits on time and memory; starts it if there is none. Throws BadInput (without the name of
/// the file) if it does not survive that twice, Error if it cannot be started. Nothing happens where files are
/// read at once. Rank-local, for one rank of a run; no call of MPI.
void read_on_trial(const std::string& path);

/// While one exists, this process reads a file. If files are trusted, a signal by which HDF5 crashes ends the
/// process with exit code 2 and a message that names the file; the launcher then ends the other ranks. One at
/// a time counts, the first. Rank-local.
class AtOnce {
 public:
  explicit AtOnce(const std::string& file);
  AtOnce(const AtOnce&) = delete;
  AtOnce& operator=(const AtOnce&) = delete;
  ~AtOnce();

 private:
  bool counts_;
};

}  // namespace fluxformer::io
