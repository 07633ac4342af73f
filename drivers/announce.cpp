#include "drivers/announce.hpp"

#include <iostream>

#include "operators/blas.hpp"

namespace fluxformer {

bool announce(const Experiment& experiment, const RunContext& context) {
  int rank = 0;
  check_mpi(MPI_Comm_rank(context.comm, &rank));
  if (rank != 0) return false;
  if (!context.quiet) std::cerr << experiment.describe() << '\n';
  if (!blas_warning().empty()) std::cerr << "fluxformer: " << blas_warning() << '\n';
  return !context.quiet;
}

}  // namespace fluxformer
