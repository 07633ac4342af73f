#pragma once

// Reductions for MPI tests: every rank checks the same number, so that none is left waiting.

#include <mpi.h>

#include <vector>

namespace fluxformer::test {

inline double sum_over(MPI_Comm comm, double value) {
  MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_DOUBLE, MPI_SUM, comm);
  return value;
}

inline double max_over(MPI_Comm comm, double value) {
  MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_DOUBLE, MPI_MAX, comm);
  return value;
}

inline std::vector<double> sum_over(MPI_Comm comm, std::vector<double> values) {
  MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_DOUBLE, MPI_SUM, comm);
  return values;
}

inline int rank_in(MPI_Comm comm) {
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  return rank;
}

inline int size_of(MPI_Comm comm) {
  int size = 0;
  MPI_Comm_size(comm, &size);
  return size;
}

}  // namespace fluxformer::test
