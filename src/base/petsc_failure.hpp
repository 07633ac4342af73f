#pragma once

// What PETSc cannot do.

#include <string>

#include "base/error.hpp"

namespace fluxformer {

/// Thrown by `check` where PETSc cannot do what it was asked for, and neither the numbers nor the system (memory,
/// files) are the reason: a fault of this program, or of PETSc options that the user chose.
class PetscFailure : public Error {
 public:
  explicit PetscFailure(const std::string& what) : Error(ExitCode::failure, what) {}
};

}  // namespace fluxformer
