#pragma once

// States put aside by number, in memory or in a file that no one else sees.

#include <mpi.h>

#include <cstddef>
#include <string>
#include <vector>

namespace fluxformer {

class StateStore {
 public:
  /// In memory.
  StateStore(MPI_Comm comm, std::size_t size) : comm_(comm), size_(size) {}
  /// In a file in `folder` ("": the system's for temporary files), one per rank. It has no name once it is
  /// open: nothing is left of it however the process ends. Collective; throws BadInput if no file can be
  /// made.
  StateStore(MPI_Comm comm, std::size_t size, const std::string& folder);
  ~StateStore();
  StateStore(const StateStore&) = delete;
  StateStore& operator=(const StateStore&) = delete;

  /// A state of `size` doubles as number `index`. Collective; throws Error (agreed) if the disk is full.
  void put(int index, const double* state);
  /// The state put last under that number. Collective.
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
