#pragma once

// What an earlier run left under the name of a result.

#include <mpi.h>

#include <cstdint>
#include <optional>
#include <string>

namespace fluxformer::io {

/// Time of the last change of a file, ns; none if there is no file. Collective; rank 0 looks.
std::optional<std::int64_t> time_written(MPI_Comm comm, const std::string& path);

/// A file, or none.
struct EarlierResult {
  std::optional<std::int64_t> written;  ///< as time_written
  std::string status;                   ///< as in the schema; "" if it cannot be read

  /// Of a run that did not complete: `failed` or `interrupted`.
  bool incomplete() const;
};

/// Collective; rank 0 looks.
EarlierResult earlier_result(MPI_Comm comm, const std::string& path);

}  // namespace fluxformer::io
