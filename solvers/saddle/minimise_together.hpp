#pragma once

// The minimum of a function that several ranks compute together.

#include <mpi.h>

#include "solvers/saddle/minimise.hpp"

namespace fluxformer::saddle {

/// As `minimise`, for a function that is collective over `comm`. The first rank takes all decisions, so that round-off, which may
/// differ between ranks, cannot part them: the others compute f at each x that it asks for, and only its value counts. All get its
/// result. Throws on all ranks what f throws on all of them, or what the first one throws.
Minimum minimise_together(MPI_Comm comm, const Function& f, std::vector<double> start,
                          const MinimumRequest& request);

}  // namespace fluxformer::saddle
