#pragma once

// Arrays of PETSc vectors, borrowed for a scope: the only way to them. A failure to give one back is not
// reported: destructors do not throw.

#include <petscvec.h>

#include "base/error.hpp"

namespace fluxformer {

/// To read this rank's part.
class Reading {
 public:
  explicit Reading(Vec of) : vec_(of) { check(VecGetArrayRead(vec_, &values)); }
  ~Reading() { VecRestoreArrayRead(vec_, &values); }
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;
  const double* values = nullptr;

 private:
  Vec vec_;
};

/// To read and write this rank's part.
class Writing {
 public:
  explicit Writing(Vec of) : vec_(of) { check(VecGetArray(vec_, &values)); }
  ~Writing() { VecRestoreArray(vec_, &values); }
  Writing(const Writing&) = delete;
  Writing& operator=(const Writing&) = delete;
  double* values = nullptr;

 private:
  Vec vec_;
};

/// The same, set to zero first.
class Filling : public Writing {
 public:
  explicit Filling(Vec of) : Writing((check(VecZeroEntries(of)), of)) {}
};

}  // namespace fluxformer
