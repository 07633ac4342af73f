#pragma once

// A matrix-free PETSc matrix made of callables.

#include <functional>
#include <utility>

#include "base/handle.hpp"

namespace fluxformer {

/// Owns the Mat and the callables; PETSc holds a pointer to this object, so that it cannot be copied or moved.
class ShellMatrix {
 public:
  /// out := A in, or A^T in; out := the diagonal of A. Collective where the matrix is.
  using Product = std::function<void(Vec in, Vec out)>;
  using Diagonal = std::function<void(Vec out)>;

  /// Collective. Square, with the layout of `like`. Products that are never called may be empty.
  ShellMatrix(Vec like, Product multiply, Product multiply_transposed = {}, Diagonal diagonal = {})
      : ShellMatrix(like, like, std::move(multiply), std::move(multiply_transposed), std::move(diagonal)) {}
  /// From the layout of `columns` to that of `rows`.
  ShellMatrix(Vec rows, Vec columns, Product multiply, Product multiply_transposed, Diagonal diagonal = {});
  ShellMatrix(const ShellMatrix&) = delete;
  ShellMatrix& operator=(const ShellMatrix&) = delete;
  Mat get() const { return matrix_; }
  /// To be called in Jacobian callbacks: tells PETSc that the matrix has changed.
  void changed();

 private:
  Product multiply_, multiply_transposed_;
  Diagonal diagonal_;
  Handle<Mat, MatDestroy> matrix_;
};

}  // namespace fluxformer
