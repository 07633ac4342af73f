#pragma once

// Products of matrices: the one place of the operators where they are computed.
//
//   c = a b      c += a b          a or b may be stored as its transpose
//
// All matrices are row-major, rows `stride` numbers apart. Where the library of small products (libxsmm) is
// built in, a shape has a kernel made for it at run time, as long as b is stored as it is and stays in the
// second-level cache (`has_kernel`). Products with a larger b go through such kernels, too, panel
// by panel of b: each is copied to where it stays in the cache. Everything else the BLAS computes. Results do
// not depend on the alignment of memory.
//
// In mixed precision the numbers of float matrices are rounded to bfloat16 first: 8 significant bits instead
// of 24, the same range. Products of two such numbers are exact in float, and sums are taken in float.

#include <Eigen/Core>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "base/index.hpp"
#include "operators/kernels/scratch.hpp"

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
    else if (by_panels_)
      by_panels(a, b, c);
    else
      by_blas(a, b, c);
  }

 private:
  void prepare(const ProductShape& shape);
  void by_panels(const T* a, const T* b, T* c);
  void by_blas(const T* a, const T* b, T* c) const;

  ProductShape shape_;
  bool by_panels_ = false;
  Scratch<T> panel_;
  void (*kernel_)(const T*, const T*, T*) = nullptr;  // column-major, as libxsmm makes it; null: none
};

extern template bool has_kernel<float>(Index, Index);
extern template bool has_kernel<double>(Index, Index);
extern template class Product<float>;
extern template class Product<double>;

/// A row-major matrix over memory that exists, rows `stride` apart; nothing is copied.
template <class T>
auto row_major(T* data, Index rows, Index columns, Index stride) {
  using Plain = Eigen::Matrix<std::remove_const_t<T>, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  using Seen = std::conditional_t<std::is_const_v<T>, const Plain, Plain>;
  return Eigen::Map<Seen, 0, Eigen::OuterStride<>>(data, rows, columns, Eigen::OuterStride<>(stride));
}
/// A row-major matrix over memory that exists, without gaps between rows; nothing is copied.
template <class T>
auto row_major(T* data, Index rows, Index columns) {
  return row_major(data, rows, columns, columns);
}

/// y := a b, or y += a b, where y is row-major; nothing is copied.
template <class Y, class A, class B>
void set_product(Y&& y, const A& a, const B& b, InsertMode into = InsertMode::insert) {
  static_assert(std::remove_cvref_t<Y>::IsRowMajor);
  constexpr auto stored = [](bool row_major) { return row_major ? Stored::plain : Stored::transposed; };
  Product<typename A::Scalar>()({.rows = y.rows(),
                                 .columns = y.cols(),
                                 .depth = a.cols(),
                                 .a_stride = a.outerStride(),
                                 .b_stride = b.outerStride(),
                                 .c_stride = y.outerStride(),
                                 .a = stored(A::IsRowMajor),
                                 .b = stored(B::IsRowMajor),
                                 .into = into},
                                a.data(), b.data(), y.data());
}

/// y := a b_dot + a_dot b, the variation of the product a b.
template <class Y, class A, class B>
void set_product_rule(Y&& y, const A& a, const A& a_dot, const B& b, const B& b_dot) {
  set_product(y, a, b_dot);
  set_product(y, a_dot, b, InsertMode::add);
}

/// The sum of x[i] y[i], taken in double.
template <class S, class T>
double inner_product(const S* x, const T* y, Index count) {
  double total = 0;
  for (Index i = 0; i < count; ++i) total += static_cast<double>(x[i]) * y[i];
  return total;
}

/// out[j][i] := a[i][j] for a matrix of `rows` x `columns` numbers; rows of a and out are the given strides
/// apart.
template <class T>
void transpose(const T* a, Index rows, Index columns, Index a_stride, T* out, Index out_stride);

/// True if the processor multiplies bfloat16 numbers by itself (avx512_bf16) and the library that makes
/// kernels for it is built in.
bool has_bfloat16_products();

/// y[i] := x[i] rounded to the nearest bfloat16, halves to even, as the upper half of a float. NaN stays NaN,
/// and numbers beyond the largest become infinite; subnormal numbers may become 0, as they do in the
/// processor's products.
void round_to_bfloat16(const float* x, Index count, std::uint16_t* y);

/// c = (or +=) a b for one b and many a. Keeps b as the kernels want it. Not thread-safe.
class Bfloat16Product {
 public:
  /// The way in which rounded numbers are multiplied: by the processor or, slowly and on any processor, as
  /// floats. The results are the same up to the order of sums, and subnormal numbers, which the processor
  /// takes for 0.
  enum class By { processor, floats };
  explicit Bfloat16Product(By by) : by_(by) {}

  /// Copies b [depth][columns], or b stored as its transpose, rows `stride` apart, and rounds it.
  void set_right(Index depth, Index columns, Stored stored, const float* b, Index stride);
  /// c[row][j] = (or +=) sum_k a[row][k] b[k][j]; `a` stored as transposed: a[k][row].
  void operator()(Index rows, Stored stored, const float* a, Index a_stride, InsertMode into, float* c,
                  Index c_stride);

  /// Memory held, in bytes.
  std::size_t bytes() const;

 private:
  Index even_depth() const { return depth_ + depth_ % 2; }

  By by_;
  Index depth_ = 0, columns_ = 0;
  // Pairs of b's numbers below each other, [depth / 2][column]; the depth is made even by zeros.
  std::vector<std::uint32_t> right_;
  std::vector<std::uint16_t> left_;    // a, [row][depth]
  std::vector<std::uint32_t> paired_;  // pairs of the numbers of a stored as transposed, [depth / 2][row]
  std::vector<float> right_values_, left_values_;  // both factors as floats, for By::floats
  Product<float> of_floats_;
};

}  // namespace fluxformer
