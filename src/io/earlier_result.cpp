#include "io/earlier_result.hpp"

#include <sys/stat.h>

#include "base/error.hpp"
#include "base/mpi.hpp"
#include "io/archive_reader.hpp"
#include "io/layout.hpp"

namespace fluxformer::io {

bool EarlierResult::incomplete() const {
  return status == names::failed || status == names::interrupted;
}

std::optional<std::int64_t> time_written(MPI_Comm comm, const std::string& path) {
  std::int64_t look[2] = {0, 0};  // whether it is there, when it was written
  struct stat found {};
  if (mpi::is_root(comm) && ::stat(path.c_str(), &found) == 0) {
    look[0] = 1;
    look[1] = found.st_mtim.tv_sec * std::int64_t{1000000000} + found.st_mtim.tv_nsec;
  }
  check_mpi(MPI_Bcast(look, 2, MPI_INT64_T, 0, comm));
  if (look[0] == 0) return {};
  return look[1];
}

EarlierResult earlier_result(MPI_Comm comm, const std::string& path) {
  EarlierResult result{.written = time_written(comm, path), .status = {}};
  if (!result.written) return result;
  try {
    result.status = ArchiveReader(comm, path).text(names::status);
  } catch (const Error&) {  // of another program, or damaged
  }
  return result;
}

}  // namespace fluxformer::io
