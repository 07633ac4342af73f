#pragma once

// The linear map of a layer, y = W x for many rows x, with weights stored as [out][in].

#include <cstddef>
#include <optional>
#include <vector>

#include "base/index.hpp"
#include "operators/kernels/product.hpp"

namespace fluxformer {

/// The numbers that products of linear maps multiply: as they are, or rounded to bfloat16 (multiplied by the
/// processor's own products, or with the rounded values as floats). Rounding is for float alone.
enum class Operands { exact, bfloat16, bfloat16_as_float };

/// The products of one matrix W with many rows. Keeps W^T where products have kernels for it, since these
/// want their second factor as it stands in memory. Not thread-safe.
template <class T>
class LinearMap {
 public:
  /// Throws std::logic_error for rounded operands of double.
  explicit LinearMap(Operands operands = Operands::exact);

  /// Sets W for the next calls: `w` is [out][in], and must outlive them. Its transpose is made when needed,
  /// in O(out in).
  void set(const T* w, Index out, Index in);

  /// y[row][o] = sum_i x[row][i] W[o][i]; rows of x are `x_stride` apart, rows of y follow each other.
  /// `x` stored as transposed: x[i][row].
  void apply(Index rows, Stored stored, const T* x, Index x_stride, T* y);
  /// y[row][o] = sum_i x[row][i] W[o][i], where rows of x follow each other, too.
  void apply(Index rows, const T* x, T* y) { apply(rows, Stored::plain, x, in_, y); }
  /// x[row][i] = (or +=) sum_o y[row][o] W[o][i], the transpose; rows of y are `y_stride` apart, or y[o][row]
  /// if it is stored as transposed.
  void apply_transpose(Index rows, Stored stored, const T* y, Index y_stride, InsertMode into, T* x);
  /// x[row][i] = (or +=) sum_o y[row][o] W[o][i], where rows of y follow each other, too.
  void apply_transpose(Index rows, const T* y, InsertMode into, T* x) {
    apply_transpose(rows, Stored::plain, y, out_, into, x);
  }
  /// g[o][i] = (or +=) sum_row y[row][o] x[row][i], the gradient of W; y as in apply_transpose, rows of x
  /// follow each other.
  void gradient(Index rows, Stored stored, const T* y, Index y_stride, const T* x, InsertMode into, T* g) {
    row_products(rows, stored, y, out_, y_stride, x, in_, into, g);
  }
  /// g[i][o] = (or +=) sum_row x[row][i] y[row][o], the transpose of the gradient; x as in apply, rows of y
  /// follow each other.
  void gradient_transpose(Index rows, Stored stored, const T* x, Index x_stride, const T* y, InsertMode into,
                          T* g) {
    row_products(rows, stored, x, in_, x_stride, y, out_, into, g);
  }
  /// g[o][i] += sum_row y[row][o] x[row][i], where rows of x and y follow each other.
  void add_gradient(Index rows, const T* y, const T* x, T* g) {
    gradient(rows, Stored::plain, y, out_, x, InsertMode::add, g);
  }

  /// Memory held, in bytes.
  std::size_t bytes() const;

 private:
  /// g[i][j] = (or +=) sum_row a[row][i] b[row][j]
  void row_products(Index rows, Stored stored, const T* a, Index a_columns, Index a_stride, const T* b,
                    Index b_columns, InsertMode into, T* g);

  struct Rounded {
    explicit Rounded(Bfloat16Product::By by) : forward(by), backward(by), gradient(by) {}
    Bfloat16Product forward, backward, gradient;
  };

  const T* w_ = nullptr;
  Index out_ = 0, in_ = 0;
  std::vector<T> transposed_;  // W^T, [in][out]
  bool forward_is_set_ = false, backward_is_set_ = false;
  Product<T> forward_, backward_, gradient_;
  std::optional<Rounded> rounded_;  // none: operands are exact
};

extern template class LinearMap<float>;
extern template class LinearMap<double>;

}  // namespace fluxformer
