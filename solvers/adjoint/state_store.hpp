#pragma once

// Numbered states in memory or in a private temporary file.

#include <mpi.h>

#include <cstddef>
#include <string>
#include <vector>

namespace fluxformer {

/// Every rank stores its own part of each state.
class StateStore {
 public:
  /// In memory.
  StateStore(MPI_Comm comm, std::size_t size) : comm_(comm), size_(size) {}
  /// In a file in `folder` ("": the system's for temporary files), one per rank. The file is unlinked once it
  /// is open, so that nothing remains however the process ends. Collective; throws BadInput if no file can be
  /// made.
  StateStore(MPI_Comm comm, std::size_t size, const std::string& folder);
  ~StateStore();
  StateStore(const StateStore&) = delete;
  StateStore& operator=(const StateStore&) = delete;

  /// Stores `size` doubles as state `index`. Collective; throws Error (agreed) if the disk is full.
  void put(int index, const double* state);
  /// Reads state `index`. Collective.
  void get(int index, double* state);
  /// Memory held, in bytes.
  std::size_t bytes() const;

 private:
  MPI_Comm comm_;
  std::size_t size_;
  std::vector<std::vector<double>> states_;
  int file_ = -1;
};

}  // namespace fluxformer
