#include "base/handle.hpp"

#include "base/error.hpp"

namespace fluxformer {

Communicator::Communicator(MPI_Comm comm) : comm_(comm) {
  if (comm_ != MPI_COMM_NULL) check_mpi(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN));
}

Communicator::~Communicator() {
  if (comm_ != MPI_COMM_NULL) MPI_Comm_free(&comm_);
}

int Communicator::rank() const {
  int rank = 0;
  check_mpi(MPI_Comm_rank(comm_, &rank));
  return rank;
}

int Communicator::size() const {
  int size = 0;
  check_mpi(MPI_Comm_size(comm_, &size));
  return size;
}

}  // namespace fluxformer
