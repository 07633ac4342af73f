#include "operators/kernels/product.hpp"

#include <type_traits>

#include "operators/kernels/matrix_product.hpp"

#ifdef FLUXFORMER_XSMM
#include <libxsmm.h>
#endif

namespace fluxformer {
namespace {

/// to = (or +=) left right, each number summed in the order of k.
template <class Left, class Right, class To>
void by_sums(const Left& left, const Right& right, InsertMode into, To& to) {
  for (Index i = 0; i < to.rows(); ++i)
    for (Index j = 0; j < to.cols(); ++j) {
      typename To::Scalar sum = into == InsertMode::add ? to(i, j) : typename To::Scalar(0);
      for (Index k = 0; k < left.cols(); ++k) sum += left(i, k) * right(k, j);
      to(i, j) = sum;
    }
}

#ifdef FLUXFORMER_XSMM
/// The kernel of libxsmm, whose matrices are column-major: its first factor is b. Null if it has no kernel.
template <class T>
auto kernel_for(const ProductShape& s) -> void (*)(const T*, const T*, T*) {
  if (s.b == Stored::transposed || !has_kernel<T>(s.depth, s.columns)) return nullptr;
  const int flags = s.a == Stored::transposed ? LIBXSMM_GEMM_FLAG_TRANS_B : LIBXSMM_GEMM_FLAG_NONE;
  const int prefetch = LIBXSMM_PREFETCH_NONE;
  const T one = 1, keep = s.into == InsertMode::add ? T(1) : T(0);
  const auto dispatch = [] {
    if constexpr (std::is_same_v<T, float>)
      return &libxsmm_smmdispatch;
    else
      return &libxsmm_dmmdispatch;
  }();
  const libxsmm_blasint b_stride = s.b_stride, a_stride = s.a_stride, c_stride = s.c_stride;
  // Its functions take further arguments only where they prefetch.
  return reinterpret_cast<void (*)(const T*, const T*, T*)>(
      dispatch(s.columns, s.rows, s.depth, &b_stride, &a_stride, &c_stride, &one, &keep, &flags, &prefetch));
}
#else
template <class T>
auto kernel_for(const ProductShape& /*shape*/) -> void (*)(const T*, const T*, T*) {
  return nullptr;
}
#endif

}  // namespace

template <class T>
bool has_kernel([[maybe_unused]] Index depth, [[maybe_unused]] Index columns) {
#ifdef FLUXFORMER_XSMM
  // A kernel reads all of b for each few rows of c, so b has to stay in the cache: half of 1 MiB.
  return depth * columns <= Index{512 * 1024 / sizeof(T)};
#else
  return false;
#endif
}

template <class T>
void Product<T>::prepare(const ProductShape& shape) {
  shape_ = shape;
  kernel_ = kernel_for<T>(shape);
}

template <class T>
void Product<T>::by_blas(const T* a, const T* b, T* c) const {
  const auto& s = shape_;
  auto to = row_major(c, s.rows, s.columns, s.c_stride);
  // For tiny matrices the last bits of Eigen's result depend on the address of c, and restarts and repeated
  // runs would differ.
  const bool tiny = s.rows + s.columns + s.depth < 20 || s.rows == 1 || s.columns == 1;
  const auto multiply = [&](const auto& left, const auto& right) {
    if (tiny) return by_sums(left, right, s.into, to);
    if (s.into == InsertMode::add)
      to.noalias() += left * right;
    else
      to.noalias() = left * right;
  };
  const auto with_left = [&](const auto& left) {
    if (s.b == Stored::transposed)
      multiply(left, row_major(b, s.columns, s.depth, s.b_stride).transpose());
    else
      multiply(left, row_major(b, s.depth, s.columns, s.b_stride));
  };
  if (s.a == Stored::transposed)
    with_left(row_major(a, s.depth, s.rows, s.a_stride).transpose());
  else
    with_left(row_major(a, s.rows, s.depth, s.a_stride));
}

template bool has_kernel<float>(Index, Index);
template bool has_kernel<double>(Index, Index);
template class Product<float>;
template class Product<double>;

}  // namespace fluxformer
