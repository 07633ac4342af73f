#pragma once

// Arrays of PETSc vectors, borrowed for a scope: the only way to them. A failure to give one back is not
// reported: destructors do not throw.

#include <petscvec.h>

#include "base/error.hpp"

namespace fluxformer {

/// To read this rank's part.
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

/// To read and write this rank's part.
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

/// The same, set to zero first.
class ZeroedArray : public WriteArray {
 public:
  explicit ZeroedArray(Vec of) : WriteArray((check(VecZeroEntries(of)), of)) {}
};

}  // namespace fluxformer
