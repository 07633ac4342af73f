#pragma once

// The linear map of a layer, y = W x for many rows x, with weights stored as [out][in].

#include <cstddef>
#include <optional>
#include <vector>

#include "operators/kernels/bfloat16_product.hpp"
#include "operators/kernels/product.hpp"

namespace fluxformer {

/// The numbers that products of linear maps multiply: as they are, or rounded to bfloat16 (by the processor's own products, or with its
/// values as floats). Rounding is for float alone.
enum class Operands { exact, bfloat16, bfloat16_as_float };

/// Keeps W^T where products have kernels for it, since these want their second factor as it stands in memory. Not
/// thread-safe.
template <class T>
class LinearMap {
 public:
  /// Throws std::logic_error for rounded operands of double.
  explicit LinearMap(Operands operands = Operands::exact);

  /// For the next calls: `w` is [out][in], and must outlive them. What it is turned into is made when needed, O(out in).
  void set(const T* w, std::size_t out, std::size_t in);

  /// y[row][o] = sum_i x[row][i] W[o][i]; rows of x are `x_stride` apart, those of y follow each other. `x` stored as
  /// transposed: x[i][row].
  void apply(std::size_t rows, Stored stored, const T* x, std::size_t x_stride, T* y);
  /// x without gaps.
  void apply(std::size_t rows, const T* x, T* y) { apply(rows, Stored::plain, x, in_, y); }
  /// x[row][i] = (or +=) sum_o y[row][o] W[o][i], the transpose; `y` as `x` above.
  void apply_transpose(std::size_t rows, Stored stored, const T* y, std::size_t y_stride, InsertMode into,
                       T* x);
  /// y without gaps.
  void apply_transpose(std::size_t rows, const T* y, InsertMode into, T* x) {
    apply_transpose(rows, Stored::plain, y, out_, into, x);
  }
  /// g[o][i] = (or +=) sum_row y[row][o] x[row][i], what a gradient of the weights is; y as above, x without
  /// gaps.
  void gradient(std::size_t rows, Stored stored, const T* y, std::size_t y_stride, const T* x,
                InsertMode into, T* g);
  /// += of y and x without gaps.
  void add_gradient(std::size_t rows, const T* y, const T* x, T* g) {
    gradient(rows, Stored::plain, y, out_, x, InsertMode::add, g);
  }

  /// Memory held.
  std::size_t bytes() const;

 private:
  struct Rounded {
    explicit Rounded(Bfloat16Product::By by) : forward(by), backward(by), gradient(by) {}
    Bfloat16Product forward, backward, gradient;
  };

  const T* w_ = nullptr;
  std::size_t out_ = 0, in_ = 0;
  std::vector<T> turned_;  // W^T, [in][out]
  bool forward_is_set_ = false, backward_is_set_ = false;
  Product<T> forward_, backward_, gradient_;
  std::optional<Rounded> rounded_;  // none: operands are exact
};

extern template class LinearMap<float>;
extern template class LinearMap<double>;

}  // namespace fluxformer
