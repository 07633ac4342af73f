#pragma once

// A matrix-free PETSc matrix made of callables.

#include <functional>
#include <utility>

#include "base/handle.hpp"

namespace fluxformer {

/// Owns the Mat and the callables; PETSc holds a pointer to this object, so that it cannot be copied or
/// moved.
class ShellMatrix {
 public:
  /// A product, out := A in or out := A^T in; a diagonal, out := the diagonal of A. Collective where the
  /// matrix is.
  using Product = std::function<void(Vec in, Vec out)>;
  using Diagonal = std::function<void(Vec out)>;

  /// A square matrix with the layout of `like`. Collective. Products that are never called may be empty.
  ShellMatrix(Vec like, Product multiply, Product multiply_transposed = {}, Diagonal diagonal = {})
      : ShellMatrix(like, like, std::move(multiply), std::move(multiply_transposed), std::move(diagonal)) {}
  /// A matrix from the layout of `columns` to that of `rows`. Collective.
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
