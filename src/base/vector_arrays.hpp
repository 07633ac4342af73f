#pragma once

// Borrowed arrays of PETSc vectors, given back at the end of the scope.

#include <petscvec.h>

#include "base/error.hpp"

namespace fluxformer {

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

/// For writing; keeps what is there.
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

/// For sums: zero at first.
class Filling : public Writing {
 public:
  explicit Filling(Vec of) : Writing((check(VecZeroEntries(of)), of)) {}
};

}  // namespace fluxformer
