#include "operators/kernels/bfloat16_product.hpp"

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <string>

#include "operators/kernels/turn.hpp"

#ifdef FLUXFORMER_XSMM
#include <libxsmm.h>
#endif

namespace fluxformer {
namespace {

/// The bits of x rounded to bfloat16, in the upper half of the word; the lower half is arbitrary.
std::uint32_t rounded_bits(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return x != x ? 0x7fc00000U : bits + 0x7fffU + (bits >> 16U & 1U);
}

/// A pair of numbers as the kernels want it: the first in the lower half.
std::uint32_t pair_of(float first, float second) {
  return rounded_bits(first) >> 16U | (rounded_bits(second) & 0xffff0000U);
}

/// The value of a rounded number.
float value_of(std::uint32_t upper_half) {
  return std::bit_cast<float>(upper_half << 16U);
}

/// Rows of `columns` numbers, with zeros up to `to_stride`.
void round_rows(const float* x, std::size_t rows, std::size_t columns, std::size_t stride, std::uint16_t* to,
                std::size_t to_stride) {
  for (std::size_t r = 0; r < rows; ++r, x += stride, to += to_stride) {
    round_to_bfloat16(x, columns, to);
    std::fill(to + columns, to + to_stride, std::uint16_t{0});
  }
}

}  // namespace

bool has_bfloat16_products() {
#ifdef FLUXFORMER_XSMM
  return __builtin_cpu_supports("avx512bf16") != 0;
#else
  return false;
#endif
}

void round_to_bfloat16(const float* x, std::size_t count, std::uint16_t* y) {
  for (std::size_t i = 0; i < count; ++i) y[i] = static_cast<std::uint16_t>(rounded_bits(x[i]) >> 16U);
}

void Bfloat16Product::set_right(std::size_t depth, std::size_t columns, Stored stored, const float* b,
                                std::size_t stride) {
  depth_ = depth;
  columns_ = columns;
  const std::size_t pairs = even_depth() / 2;
  right_.resize(pairs * columns);
  if (stored == Stored::transposed) {  // the pairs of a row of b^T lie side by side and move together
    left_.resize(columns * 2 * pairs);
    round_rows(b, columns, depth, stride, left_.data(), 2 * pairs);
    turn(reinterpret_cast<const float*>(left_.data()), columns, pairs, pairs,
         reinterpret_cast<float*>(right_.data()), columns);
  } else {
    for (std::size_t p = 0; p < pairs; ++p) {
      const float* const first = b + 2 * p * stride;
      std::uint32_t* const to = right_.data() + p * columns;
      if (2 * p + 1 < depth)
        for (std::size_t j = 0; j < columns; ++j) to[j] = pair_of(first[j], first[stride + j]);
      else
        for (std::size_t j = 0; j < columns; ++j) to[j] = pair_of(first[j], 0);
    }
  }
  if (by_ == By::processor) return;
  right_values_.resize(2 * pairs * columns);
  for (std::size_t p = 0; p < pairs; ++p)
    for (std::size_t j = 0; j < columns; ++j) {
      right_values_[2 * p * columns + j] = value_of(right_[p * columns + j] & 0xffffU);
      right_values_[(2 * p + 1) * columns + j] = value_of(right_[p * columns + j] >> 16U);
    }
}

void Bfloat16Product::operator()(std::size_t rows, Stored stored, const float* a, std::size_t a_stride,
                                 Into into, float* c, std::size_t c_stride) {
  const std::size_t even = even_depth();
  left_.resize(rows * even);
  if (stored == Stored::transposed) {
    turned_.resize(rows * depth_);
    turn(a, depth_, rows, a_stride, turned_.data(), depth_);
    a = turned_.data();
    a_stride = depth_;
  }
  round_rows(a, rows, depth_, a_stride, left_.data(), even);
  const ProductShape shape{.rows = static_cast<int>(rows),
                           .columns = static_cast<int>(columns_),
                           .depth = static_cast<int>(even),
                           .a_stride = static_cast<int>(even),
                           .b_stride = static_cast<int>(columns_),
                           .c_stride = static_cast<int>(c_stride),
                           .into = into};
  if (by_ == By::processor) return by_processor(shape, c);
  left_values_.resize(left_.size());
  for (std::size_t i = 0; i < left_.size(); ++i) left_values_[i] = value_of(left_[i]);
  of_floats_(shape, left_values_.data(), right_values_.data(), c);
}

#ifdef FLUXFORMER_XSMM
void Bfloat16Product::by_processor(const ProductShape& s, float* c) {
  if (!(s == shape_)) {
    shape_ = s;
    const int flags = LIBXSMM_GEMM_FLAG_VNNI_A, prefetch = LIBXSMM_PREFETCH_NONE;
    const float one = 1, keep = s.into == Into::add ? 1.0F : 0.0F;
    // Its matrices are column-major: its first factor is b.
    kernel_ = reinterpret_cast<Kernel*>(libxsmm_bsmmdispatch(
        s.columns, s.rows, s.depth, &s.b_stride, &s.a_stride, &s.c_stride, &one, &keep, &flags, &prefetch));
    if (kernel_ == nullptr)
      throw std::runtime_error("libxsmm makes no bfloat16 kernel of " + std::to_string(s.rows) + " x " +
                               std::to_string(s.depth) + " x " + std::to_string(s.columns));
  }
  kernel_(reinterpret_cast<const std::uint16_t*>(right_.data()), left_.data(), c);
}
#else
void Bfloat16Product::by_processor(const ProductShape& /*shape*/, float* /*c*/) {
  throw std::logic_error("products of bfloat16 numbers are not built in");
}
#endif

}  // namespace fluxformer
