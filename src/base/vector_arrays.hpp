#pragma once

// Arrays of PETSc vectors, borrowed for a scope: the only way to them. A failure to give one back is not
// reported: destructors do not throw.

#include <petscvec.h>

#include "base/error.hpp"

namespace fluxformer {

/// Array of this rank's part of a vector, for reading.
class ReadArray {
 public:
  explicit ReadArray(Vec of) : vec_(of) { check(VecGetArrayRead(vec_, &values)); }
  ~ReadArray() { VecRestoreArrayRead(vec_, &values); }
  ReadArray(const ReadArray&) = delete;
  ReadArray& operator=(const ReadArray&) = delete;
  const double* values = nullptr;

 private:
  Vec vec_;
};

/// Array of this rank's part of a vector, for reading and writing.
class WriteArray {
 public:
  explicit WriteArray(Vec of) : vec_(of) { check(VecGetArray(vec_, &values)); }
  ~WriteArray() { VecRestoreArray(vec_, &values); }
  WriteArray(const WriteArray&) = delete;
  WriteArray& operator=(const WriteArray&) = delete;
  double* values = nullptr;

 private:
  Vec vec_;
};

/// Array of this rank's part of a vector that becomes zero, for reading and writing.
class ZeroedArray : public WriteArray {
 public:
  explicit ZeroedArray(Vec of) : WriteArray(zeroed(of)) {}

 private:
  static Vec zeroed(Vec of) {
    check(VecZeroEntries(of));
    return of;
  }
};

}  // namespace fluxformer
