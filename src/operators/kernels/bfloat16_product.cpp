#include "operators/kernels/bfloat16_product.hpp"

#include <algorithm>
#include <bit>
#include <stdexcept>

#include "operators/kernels/simd.hpp"
#include "operators/kernels/transpose.hpp"

#ifdef FLUXFORMER_XSMM
#include <libxsmm.h>
#endif

namespace fluxformer {
namespace {

using Kernel = void(const std::uint16_t* b, const std::uint16_t* a, float* c);

/// The bits of x rounded to bfloat16, in the upper half of the word; the lower half is arbitrary.
std::uint32_t rounded_bits(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return x != x ? 0x7fc00000U : bits + 0x7fffU + (bits >> 16U & 1U);
}

#if defined(__AVX512BF16__)
constexpr Index width = simd::lanes<float>;

/// The numbers of a register, rounded to bfloat16.
__m256i rounded(const float* x) {
  return reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(_mm512_loadu_ps(x)));
}
#endif

/// Pairs of numbers as the kernels want them, the first in the lower half; `second` null: zeros.
void set_pairs(const float* first, const float* second, Index count, std::uint32_t* to) {
  Index j = 0;
#if defined(__AVX512BF16__)
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
Kernel* kernel_for([[maybe_unused]] const ProductShape& s) {
#ifdef FLUXFORMER_XSMM
  // Made for older processors, they would compute by other means.
  if (__builtin_cpu_supports("avx512bf16") == 0 || libxsmm_get_target_archid() < LIBXSMM_X86_AVX512_CPX)
    return nullptr;
  const int flags = LIBXSMM_GEMM_FLAG_VNNI_A, prefetch = LIBXSMM_PREFETCH_NONE;
  const float one = 1, keep = s.into == InsertMode::add ? 1.0F : 0.0F;
  // Its matrices are column-major: its first factor is b.
  const libxsmm_blasint b_stride = s.b_stride, a_stride = s.a_stride, c_stride = s.c_stride;
  return reinterpret_cast<Kernel*>(libxsmm_bsmmdispatch(s.columns, s.rows, s.depth, &b_stride, &a_stride,
                                                        &c_stride, &one, &keep, &flags, &prefetch));
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
  return kernel_for(
             {.rows = 16, .columns = 16, .depth = 16, .a_stride = 16, .b_stride = 16, .c_stride = 16}) !=
         nullptr;
}

void round_to_bfloat16(const float* x, Index count, std::uint16_t* y) {
  Index i = 0;
#if defined(__AVX512BF16__)
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
    auto* const kernel = kernel_for(shape);
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
