#include "operators/kernels/product.hpp"

#include <algorithm>
#include <bit>
#include <stdexcept>

#include "operators/kernels/simd.hpp"

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

/// One row: c[j] = (or +=) sum_k a[k] b[k][j], where b is read once, from front to back. A product of one row does
/// two flops for each number of b, so that memory decides its speed.
template <class T>
void one_row(const ProductShape& s, const T* a, const T* b, T* __restrict c) {
  std::vector<T> gathered;
  if (s.a == Stored::transposed && s.a_stride > 1) {
    for (Index k = 0; k < s.depth; ++k) gathered.push_back(a[k * s.a_stride]);
    a = gathered.data();
  }
  if (s.into == InsertMode::insert) std::fill_n(c, s.columns, T(0));
  if (s.b == Stored::transposed) {
    for (Index j = 0; j < s.columns; ++j, b += s.b_stride)
      c[j] += simd::sum_over<T>(s.depth, [a, b](auto at) { return at(a) * at(b); });
  } else {
    for (Index k = 0; k < s.depth; ++k, b += s.b_stride)
      for (Index j = 0; j < s.columns; ++j) c[j] += a[k] * b[j];
  }
}

#ifdef FLUXFORMER_XSMM
/// The kernel of libxsmm, whose matrices are column-major: its first factor is b. Null if it has no kernel.
template <class T>
auto make_kernel(const ProductShape& s) -> void (*)(const T*, const T*, T*) {
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
auto make_kernel(const ProductShape& /*shape*/) -> void (*)(const T*, const T*, T*) {
  return nullptr;
}
#endif

/// The extents of a product by panels. A panel of b is as wide as the registers of a kernel that sum side by side
/// (four; measured: 5 to 10 % faster than eight), and as deep as a quarter of a second-level cache of 1 MiB allows; the
/// rows of a that meet it stay there, too. Depth decides alone how a sum is cut, so that a row of c does not depend
/// on the others.
template <class T>
struct Panels {
  static constexpr Index columns = 4 * simd::lanes<T>;
  static constexpr Index most_depth = 256 * 1024 / sizeof(T) / columns, most_rows = 256;
};

/// True if a product whose factor b is larger than a cache goes by panels. One row has a loop of its own. The numbers
/// that a kernel reads together of a transposed a lie a stride apart: with whole KiB between them the BLAS is faster
/// (measured).
template <class T>
bool goes_by_panels(const ProductShape& s) {
  return s.rows > 1 && (s.a == Stored::plain || s.a_stride * sizeof(T) % 1024 != 0);
}

/// The size of equal parts, at most `most`, that `count` is cut into; the last may be smaller.
Index part_of(Index count, Index most) {
  const Index parts = (count + most - 1) / most;
  return (count + parts - 1) / parts;
}

/// The shape of the largest block of a product by panels, which `panel` [depth][columns] holds.
template <class T>
ProductShape block_of(const ProductShape& s) {
  ProductShape block = s;
  block.rows = part_of(s.rows, Panels<T>::most_rows);
  block.columns = std::min(Panels<T>::columns, s.columns);
  block.depth = part_of(s.depth, Panels<T>::most_depth);
  block.b_stride = Panels<T>::columns;
  block.b = Stored::plain;
  return block;
}

/// True if all blocks have a kernel: those of the largest shape, the last ones, and those that add to the depth before.
template <class T>
bool has_kernels_of_panels(const ProductShape& s) {
  const ProductShape most = block_of<T>(s);
  const auto last = [](Index count, Index part) { return count - (count - 1) / part * part; };
  for (const Index rows : {most.rows, last(s.rows, most.rows)})
    for (const Index columns : {most.columns, last(s.columns, most.columns)})
      for (const Index depth : {most.depth, last(s.depth, most.depth)})
        for (const InsertMode into : {s.into, InsertMode::add}) {
          ProductShape block = most;
          block.rows = rows, block.columns = columns, block.depth = depth, block.into = into;
          if (make_kernel<T>(block) == nullptr) return false;
        }
  return true;
}

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
  const bool small = has_kernel<T>(shape.depth, shape.columns);
  kernel_ = small && shape.b == Stored::plain ? make_kernel<T>(shape) : nullptr;
  by_panels_ = !small && goes_by_panels<T>(shape) && has_kernels_of_panels<T>(shape);
}

template <class T>
void Product<T>::by_panels(const T* a, const T* b, T* c) {
  const auto& s = shape_;
  const ProductShape most = block_of<T>(s);
  panel_.reset(most.depth * most.b_stride, 1);
  T* const panel = panel_.take(most.depth * most.b_stride);
  for (Index j = 0; j < s.columns; j += most.columns)
    for (Index k = 0; k < s.depth; k += most.depth) {
      ProductShape block = most;
      block.columns = std::min(most.columns, s.columns - j);
      block.depth = std::min(most.depth, s.depth - k);
      if (k > 0) block.into = InsertMode::add;
      if (s.b == Stored::transposed)
        transpose(b + j * s.b_stride + k, block.columns, block.depth, s.b_stride, panel, block.b_stride);
      else
        for (Index r = 0; r < block.depth; ++r)
          std::copy_n(b + (k + r) * s.b_stride + j, block.columns, panel + r * block.b_stride);
      for (Index i = 0; i < s.rows; i += most.rows) {
        block.rows = std::min(most.rows, s.rows - i);
        const T* const rows = s.a == Stored::plain ? a + i * s.a_stride + k : a + k * s.a_stride + i;
        make_kernel<T>(block)(panel, rows, c + i * s.c_stride + j);
      }
    }
}

template <class T>
void Product<T>::by_blas(const T* a, const T* b, T* c) const {
  const auto& s = shape_;
  if (s.rows == 1) return one_row(s, a, b, c);
  auto to = row_major(c, s.rows, s.columns, s.c_stride);
  // For tiny matrices the last bits of Eigen's result depend on the address of c, and restarts and repeated
  // runs would differ.
  const bool tiny = s.rows + s.columns + s.depth < 20 || s.columns == 1;
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

namespace {

using simd::lanes;
using simd::Vector;

/// Exchanges the lanes of a whose number has the bit `half` with the lanes of b whose number has not: one
/// level of the transpose of a square block, in which a and b are rows `half` apart.
template <class T, std::size_t half, std::size_t... lane>
void exchange(Vector<T>& a, Vector<T>& b, std::index_sequence<lane...> /*all*/) {
  constexpr std::size_t other = lanes<T>;  // lanes of the second argument of a shuffle
  const Vector<T> low =
      __builtin_shufflevector(a, b, static_cast<int>((lane & half) != 0 ? other + lane - half : lane)...);
  b = __builtin_shufflevector(a, b, static_cast<int>((lane & half) != 0 ? other + lane : lane + half)...);
  a = low;
}

/// Transposes a square block: blocks of size `half` beside the diagonal change places, then those of half the
/// size within each.
template <class T, std::size_t half>
void exchange_all(Vector<T> (&block)[lanes<T>]) {
#pragma GCC unroll 16
  for (Index i = 0; i < lanes<T>; ++i)
    if ((i & half) == 0) exchange<T, half>(block[i], block[i + half], std::make_index_sequence<lanes<T>>{});
  if constexpr (half > 1) exchange_all<T, half / 2>(block);
}

/// out := the transpose of a block of at most `lanes` rows and columns.
template <class T>
void transpose_block(const T* a, Index rows, Index columns, Index a_stride, T* out, Index out_stride) {
  constexpr Index width = lanes<T>;
  Vector<T> block[width];
  if (rows == width && columns == width) {
#pragma GCC unroll 16
    for (Index i = 0; i < width; ++i) block[i] = simd::load(a + i * a_stride);
    exchange_all<T, width / 2>(block);
#pragma GCC unroll 16
    for (Index j = 0; j < width; ++j) simd::store(out + j * out_stride, block[j]);
    return;
  }
  for (Index i = 0; i < width; ++i)
    block[i] = i < rows ? simd::load_part(a + i * a_stride, columns) : Vector<T>{};
  exchange_all<T, width / 2>(block);
  for (Index j = 0; j < columns; ++j) simd::store_part<T>(out + j * out_stride, block[j], rows);
}

}  // namespace

template <class T>
void transpose(const T* a, Index rows, Index columns, Index a_stride, T* out, Index out_stride) {
  constexpr Index width = lanes<T>;
  for (Index i = 0; i < rows; i += width)
    for (Index j = 0; j < columns; j += width)
      transpose_block(a + i * a_stride + j, std::min(width, rows - i), std::min(width, columns - j), a_stride,
                      out + j * out_stride + i, out_stride);
}

template void transpose(const float*, Index, Index, Index, float*, Index);
template void transpose(const double*, Index, Index, Index, double*, Index);

namespace {

using Bfloat16Kernel = void(const std::uint16_t* b, const std::uint16_t* a, float* c);

/// The bits of x rounded to bfloat16, in the upper half of the word; the lower half is arbitrary.
std::uint32_t rounded_bits(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return x != x ? 0x7fc00000U : bits + 0x7fffU + (bits >> 16U & 1U);
}

#if defined(__AVX512BF16__)
/// The numbers of a register, rounded to bfloat16.
__m256i rounded(const float* x) {
  return reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(_mm512_loadu_ps(x)));
}
#endif

/// Pairs of numbers as the kernels want them, the first in the lower half; `second` null: zeros.
void set_pairs(const float* first, const float* second, Index count, std::uint32_t* to) {
  Index j = 0;
#if defined(__AVX512BF16__)
  constexpr Index width = simd::lanes<float>;
  for (; second != nullptr && j + width <= count; j += width)
    _mm512_storeu_si512(to + j,
                        _mm512_or_si512(_mm512_cvtepu16_epi32(rounded(first + j)),
                                        _mm512_slli_epi32(_mm512_cvtepu16_epi32(rounded(second + j)), 16)));
#endif
  for (; j < count; ++j) {
    const std::uint32_t upper = second != nullptr ? rounded_bits(second[j]) & 0xffff0000U : 0U;
    to[j] = rounded_bits(first[j]) >> 16U | upper;
  }
}

/// Pairs of numbers below each other in each two rows of a matrix, to [pair][column].
void pair_rows(const float* x, Index rows, Index columns, Index stride, std::uint32_t* to) {
  for (Index r = 0; r < rows; r += 2, to += columns)
    set_pairs(x + r * stride, r + 1 < rows ? x + (r + 1) * stride : nullptr, columns, to);
}

/// The transpose of a matrix of pairs.
void transpose_pairs(const std::uint32_t* pairs, Index rows, Index columns, void* to) {
  transpose(reinterpret_cast<const float*>(pairs), rows, columns, columns, static_cast<float*>(to), rows);
}

/// The value of a rounded number.
float value_of(std::uint32_t upper_half) {
  return std::bit_cast<float>(upper_half << 16U);
}

/// Rows of `columns` numbers, with zeros up to `to_stride`.
void round_rows(const float* x, Index rows, Index columns, Index stride, std::uint16_t* to, Index to_stride) {
  for (Index r = 0; r < rows; ++r, x += stride, to += to_stride) {
    round_to_bfloat16(x, columns, to);
    std::fill(to + columns, to + to_stride, std::uint16_t{0});
  }
}

/// The library's kernel for a shape; null if it makes none, as for a processor without such products.
Bfloat16Kernel* bfloat16_kernel_for([[maybe_unused]] const ProductShape& s) {
#ifdef FLUXFORMER_XSMM
  // Made for older processors, they would compute by other means.
  if (__builtin_cpu_supports("avx512bf16") == 0 || libxsmm_get_target_archid() < LIBXSMM_X86_AVX512_CPX)
    return nullptr;
  const int flags = LIBXSMM_GEMM_FLAG_VNNI_A, prefetch = LIBXSMM_PREFETCH_NONE;
  const float one = 1, keep = s.into == InsertMode::add ? 1.0F : 0.0F;
  // Its matrices are column-major: its first factor is b.
  const libxsmm_blasint b_stride = s.b_stride, a_stride = s.a_stride, c_stride = s.c_stride;
  return reinterpret_cast<Bfloat16Kernel*>(libxsmm_bsmmdispatch(
      s.columns, s.rows, s.depth, &b_stride, &a_stride, &c_stride, &one, &keep, &flags, &prefetch));
#else
  return nullptr;
#endif
}

/// Columns of b that a kernel takes at a time: it reads them again for every few rows of c, from half of a
/// second-level cache of 1 MiB.
Index columns_at_a_time(Index depth) {
  constexpr Index step = 64, cache = 512 * 1024 / sizeof(std::uint16_t);
  return std::max(step, cache / depth / step * step);
}

}  // namespace

bool has_bfloat16_products() {
  return bfloat16_kernel_for(
             {.rows = 16, .columns = 16, .depth = 16, .a_stride = 16, .b_stride = 16, .c_stride = 16}) !=
         nullptr;
}

void round_to_bfloat16(const float* x, Index count, std::uint16_t* y) {
  Index i = 0;
#if defined(__AVX512BF16__)
  constexpr Index width = simd::lanes<float>;
  for (; i + width <= count; i += width)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(y + i), rounded(x + i));
#endif
  for (; i < count; ++i) y[i] = static_cast<std::uint16_t>(rounded_bits(x[i]) >> 16U);
}

void Bfloat16Product::set_right(Index depth, Index columns, Stored stored, const float* b, Index stride) {
  depth_ = depth;
  columns_ = columns;
  const Index pairs = even_depth() / 2;
  right_.resize(pairs * columns);
  if (stored == Stored::transposed) {  // the pairs of a row of b^T lie side by side and move together
    left_.resize(columns * 2 * pairs);
    round_rows(b, columns, depth, stride, left_.data(), 2 * pairs);
    transpose_pairs(reinterpret_cast<const std::uint32_t*>(left_.data()), columns, pairs, right_.data());
  } else {
    pair_rows(b, depth, columns, stride, right_.data());
  }
  if (by_ == By::processor) return;
  right_values_.resize(2 * pairs * columns);
  for (Index p = 0; p < pairs; ++p)
    for (Index j = 0; j < columns; ++j) {
      right_values_[2 * p * columns + j] = value_of(right_[p * columns + j] & 0xffffU);
      right_values_[(2 * p + 1) * columns + j] = value_of(right_[p * columns + j] >> 16U);
    }
}

void Bfloat16Product::operator()(Index rows, Stored stored, const float* a, Index a_stride, InsertMode into,
                                 float* c, Index c_stride) {
  const Index even = even_depth();
  left_.resize(rows * even);
  if (stored == Stored::transposed) {
    paired_.resize(even / 2 * rows);
    pair_rows(a, depth_, rows, a_stride, paired_.data());
    transpose_pairs(paired_.data(), even / 2, rows, left_.data());
  } else {
    round_rows(a, rows, depth_, a_stride, left_.data(), even);
  }
  ProductShape shape{.rows = rows,
                     .columns = columns_,
                     .depth = even,
                     .a_stride = even,
                     .b_stride = columns_,
                     .c_stride = c_stride,
                     .into = into};
  if (by_ == By::floats) {
    left_values_.resize(left_.size());
    for (Index i = 0; i < std::ssize(left_); ++i) left_values_[i] = value_of(left_[i]);
    return of_floats_(shape, left_values_.data(), right_values_.data(), c);
  }
  const Index most = columns_at_a_time(even);
  for (Index first = 0; first < columns_; first += most) {
    shape.columns = std::min(most, columns_ - first);
    auto* const kernel = bfloat16_kernel_for(shape);
    if (kernel == nullptr) throw std::logic_error("this processor does not multiply bfloat16 numbers");
    kernel(reinterpret_cast<const std::uint16_t*>(right_.data() + first), left_.data(), c + first);
  }
}

std::size_t Bfloat16Product::bytes() const {
  return sizeof(float) *
             (right_.capacity() + paired_.capacity() + right_values_.capacity() + left_values_.capacity()) +
         sizeof(std::uint16_t) * left_.capacity();
}

}  // namespace fluxformer
