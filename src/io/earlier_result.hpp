#pragma once

// What an earlier run left under the name of a result.

#include <mpi.h>

#include <cstdint>
#include <string>

namespace fluxformer::io {

/// A file, or none.
struct EarlierResult {
  bool there = false;
  std::string status;        ///< as in the schema; "" if it cannot be read
  std::int64_t written = 0;  ///< time of the last change, ns

  /// Of a run that did not complete: `failed` or `interrupted`.
  bool incomplete() const;
};

/// Collective; rank 0 looks.
EarlierResult earlier_result(MPI_Comm comm, const std::string& path);

}  // namespace fluxformer::io
