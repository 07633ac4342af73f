#pragma once

// Products of matrices: the one place of the operators where they are computed.
//
//   c = a b      c += a b          a or b may be stored as its transpose
//
// All matrices are row-major, rows `stride` numbers apart. Where the library of small products (libxsmm) is built in, a shape has a
// kernel made for it at run time, as long as b is stored as it is and stays in the second-level cache (`has_kernel`); else
// the BLAS computes it. Results do not depend on the alignment of memory.

#include <cstddef>

namespace fluxformer {

/// Whether a product replaces c or is added to it.
enum class InsertMode { insert, add };

/// How a factor is stored.
enum class Stored { plain, transposed };

/// Sizes and layout of a product.
struct ProductShape {
  int rows = 0, columns = 0;  ///< of c
  int depth = 0;              ///< terms of each sum
  int a_stride = 0, b_stride = 0, c_stride = 0;
  Stored a = Stored::plain, b = Stored::plain;
  InsertMode into = InsertMode::insert;

  bool operator==(const ProductShape&) const = default;
};

/// Whether products with a factor b of this size have kernels.
template <class T>
bool has_kernel(std::size_t depth, std::size_t columns);

/// Computes products and keeps the kernel of the last shape: cheap for many of one shape in turn. Not thread-safe.
template <class T>
class Product {
 public:
  /// No memory may overlap c.
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

extern template bool has_kernel<float>(std::size_t, std::size_t);
extern template bool has_kernel<double>(std::size_t, std::size_t);
extern template class Product<float>;
extern template class Product<double>;

}  // namespace fluxformer
