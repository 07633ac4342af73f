#pragma once

// Products of matrices: the one place of the operators where they are computed.
//
//   c = a b      c += a b          a or b may be stored as its transpose
//
// All matrices are row-major, rows `stride` numbers apart. Where the library of small products (libxsmm) is
// built in, a shape has a kernel made for it at run time, as long as b is stored as it is and stays in the
// second-level cache (`has_kernel`); else the BLAS computes it. Results do not depend on the alignment of
// memory.

#include "base/index.hpp"

namespace fluxformer {

/// A product replaces c (insert) or is added to it (add).
enum class InsertMode { insert, add };

/// A factor is stored as it is (plain) or as its transpose.
enum class Stored { plain, transposed };

/// Sizes and layout of a product. Every size fits in an int, the type of the libraries.
struct ProductShape {
  Index rows = 0, columns = 0;  ///< size of c
  Index depth = 0;              ///< terms of each sum
  Index a_stride = 0, b_stride = 0, c_stride = 0;
  Stored a = Stored::plain, b = Stored::plain;
  InsertMode into = InsertMode::insert;

  bool operator==(const ProductShape&) const = default;
};

/// True if products with a factor b of this size have kernels.
template <class T>
bool has_kernel(Index depth, Index columns);

/// Computes products and keeps the kernel of the last shape: cheap for many of one shape in turn. Not
/// thread-safe.
template <class T>
class Product {
 public:
  /// Computes c; a and b may not overlap it.
  void operator()(const ProductShape& shape, const T* a, const T* b, T* c) {
    if (!(shape == shape_)) prepare(shape);
    if (kernel_ != nullptr)
      kernel_(b, a, c);
    else
      by_blas(a, b, c);
  }

 private:
  void prepare(const ProductShape& shape);
  void by_blas(const T* a, const T* b, T* c) const;

  ProductShape shape_;
  void (*kernel_)(const T*, const T*, T*) = nullptr;  // column-major, as libxsmm makes it; null: none
};

extern template bool has_kernel<float>(Index, Index);
extern template bool has_kernel<double>(Index, Index);
extern template class Product<float>;
extern template class Product<double>;

}  // namespace fluxformer
