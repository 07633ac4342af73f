#include "base/memory.hpp"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iomanip>
#include <limits>
#include <sstream>

#include "base/error.hpp"
#include "base/handle.hpp"
#include "base/mpi.hpp"

namespace fluxformer {

namespace {

/// Memory limit of the control group (version 2, then 1) as Linux shows it in a container; infinite without
/// one.
double memory_of_group() {
  for (const char* path : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    std::ifstream file(path);
    if (double bytes = 0; file >> bytes) return bytes;
  }
  return std::numeric_limits<double>::infinity();
}

double memory_of_machine() {
  return static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

}  // namespace

double memory_per_rank(MPI_Comm comm) {
  MPI_Comm together = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &together));
  const Communicator machine(together);
  double share = std::min(memory_of_machine(), memory_of_group()) / mpi::size(machine);
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &share, 1, MPI_DOUBLE, MPI_MIN, comm));
  return share;
}

void require_memory(MPI_Comm comm, double bytes, const std::string& what, double allowed) {
  const double there = memory_per_rank(comm);
  if (bytes <= there && (allowed == 0 || bytes <= allowed)) return;
  std::ostringstream text;
  text << std::setprecision(3) << what << ": needs about " << bytes / 1e9 << " GB on each rank, which ";
  if (bytes > there)
    text << "has " << there / 1e9 << " GB";
  else
    text << "may take " << allowed / 1e9 << " GB (run.memory)";
  throw BadInput(text.str());
}

}  // namespace fluxformer
