#pragma once

// The linear map of a layer, y = W x for many rows x, with weights stored as [out][in].

#include <cstddef>
#include <vector>

#include "operators/kernels/product.hpp"

namespace fluxformer {

/// Keeps W^T where products have kernels for it, since these want their second factor as it stands in memory. Not
/// thread-safe.
template <class T>
class LinearMap {
 public:
  /// For the next calls: `w` is [out][in], and must outlive them. O(out in).
  void set(const T* w, std::size_t out, std::size_t in);

  /// y[row][o] = sum_i x[row][i] W[first + o][i] for `count` outputs from `first` on; rows of x and y are the given strides
  /// apart. `x` stored as transposed: x[i][row].
  void apply(std::size_t rows, Stored stored, const T* x, std::size_t x_stride, std::size_t first,
             std::size_t count, T* y, std::size_t y_stride);
  /// All outputs of rows without gaps.
  void apply(std::size_t rows, const T* x, T* y) { apply(rows, Stored::plain, x, in_, 0, out_, y, out_); }
  /// x[row][i] = (or +=) sum_o y[row][o] W[o][i], the transpose; no gaps.
  void apply_transpose(std::size_t rows, const T* y, Into into, T* x);
  /// g[o][i] += sum_row y[row][o] x[row][i]: what a gradient of the weights is. No gaps.
  void add_gradient(std::size_t rows, const T* y, const T* x, T* g);

 private:
  const T* w_ = nullptr;
  std::size_t out_ = 0, in_ = 0;
  std::vector<T> turned_;  // W^T, [in][out]
  bool is_turned_ = false;
  Product<T> forward_, backward_, gradient_;
};

extern template class LinearMap<float>;
extern template class LinearMap<double>;

}  // namespace fluxformer
