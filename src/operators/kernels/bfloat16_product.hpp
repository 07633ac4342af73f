#pragma once

// Products of float matrices whose numbers are rounded to bfloat16 first: 8 significant bits instead of 24,
// the same range. Products of two such numbers are exact in float, and sums are taken in float.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/index.hpp"
#include "operators/kernels/product.hpp"

namespace fluxformer {

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
