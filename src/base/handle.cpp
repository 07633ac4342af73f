#include "base/handle.hpp"

#include "base/error.hpp"

namespace fluxformer {

Communicator::Communicator(MPI_Comm comm) : comm_(comm) {
  if (comm_ != MPI_COMM_NULL) check_mpi(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN));
}

Communicator::~Communicator() {
  if (comm_ != MPI_COMM_NULL) MPI_Comm_free(&comm_);
}

}  // namespace fluxformer
