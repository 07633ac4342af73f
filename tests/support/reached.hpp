#pragma once

// The errors that tests reached. Each executable prints the largest of each kind when it ends (mpi_main.cpp);
// ctest shows them with -V.

#include <string>

namespace fluxformer::test {

/// Notes `error` (an observed order, ...) as one of kind `what` and returns it, to be compared with its
/// bound.
double reached(const std::string& what, double error);

/// "reached WHAT: VALUE" for each kind, the largest that this rank has seen.
void print_reached();

}  // namespace fluxformer::test
