// Rounding to bfloat16 against a search among its numbers, and products of rounded numbers against plain
// sums.

#include "operators/kernels/product.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "operators/kernels/linear_map.hpp"

namespace fluxformer {
namespace {

float rounded(float x) {
  std::uint16_t y = 0;
  round_to_bfloat16(&x, 1, &y);
  return std::bit_cast<float>(static_cast<std::uint32_t>(y) << 16U);
}

TEST(Bfloat16, is_the_nearest_number_of_eight_bits) {
  for (int i = 0; i < 2000; ++i) {
    const float x = std::ldexp(std::sin(1.7F * static_cast<float>(i)), i % 60 - 30);
    int exponent = 0;
    std::frexp(x, &exponent);
    const double unit = std::ldexp(1.0, exponent - 8);  // between neighbours of eight significant bits
    // std::nearbyint rounds halves to even, too.
    ASSERT_EQ(static_cast<double>(rounded(x)), std::nearbyint(static_cast<double>(x) / unit) * unit) << x;
  }
  EXPECT_EQ(rounded(1.0F + 0x1p-8F), 1.0F);  // halves go to the even neighbour
  EXPECT_EQ(rounded(1.0F + 0x3p-8F), 1.0F + 0x2p-7F);
  EXPECT_EQ(rounded(-0.0F), 0.0F);
  EXPECT_TRUE(std::isnan(rounded(std::numeric_limits<float>::quiet_NaN())));
  EXPECT_TRUE(std::isnan(rounded(std::bit_cast<float>(0x7fffffffU))));
  EXPECT_EQ(rounded(std::numeric_limits<float>::max()), std::numeric_limits<float>::infinity());
  EXPECT_EQ(rounded(-std::numeric_limits<float>::infinity()), -std::numeric_limits<float>::infinity());
}

/// The kinds of products that this processor has.
std::vector<Bfloat16Product::By> kinds() {
  std::vector<Bfloat16Product::By> all{Bfloat16Product::By::floats};
  if (has_bfloat16_products()) all.push_back(Bfloat16Product::By::processor);
  return all;
}

/// Numbers of a matrix [rows][stride], of which `columns` are used; the others are NaN, so that their use
/// would show.
std::vector<float> matrix(std::size_t rows, std::size_t columns, std::size_t stride, float phase) {
  std::vector<float> all(rows * stride, std::numeric_limits<float>::quiet_NaN());
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < columns; ++j)
      all[i * stride + j] = std::sin(phase + 1.3F * static_cast<float>(i) + 0.7F * static_cast<float>(j * j));
  return all;
}

void check(Bfloat16Product::By by, std::size_t rows, std::size_t columns, std::size_t depth) {
  Bfloat16Product product(by);
  for (const Stored a_stored : {Stored::plain, Stored::transposed})
    for (const Stored b_stored : {Stored::plain, Stored::transposed})
      for (const InsertMode into : {InsertMode::insert, InsertMode::add}) {
        const bool a_turned = a_stored == Stored::transposed, b_turned = b_stored == Stored::transposed;
        const std::size_t a_stride = (a_turned ? rows : depth) + 3,
                          b_stride = (b_turned ? depth : columns) + 2;
        const auto a = matrix(a_turned ? depth : rows, a_turned ? rows : depth, a_stride, 0.1F);
        const auto b = matrix(b_turned ? columns : depth, b_turned ? depth : columns, b_stride, 0.2F);
        auto c = matrix(rows, columns, columns + 1, 0.3F);
        const auto before = c;
        product.set_right(depth, columns, b_stored, b.data(), b_stride);
        product(rows, a_stored, a.data(), a_stride, into, c.data(), columns + 1);
        for (std::size_t i = 0; i < rows; ++i) {
          ASSERT_TRUE(std::isnan(c[i * (columns + 1) + columns])) << "between the rows";
          for (std::size_t j = 0; j < columns; ++j) {
            const std::size_t at = i * (columns + 1) + j;
            double sum = into == InsertMode::add ? before[at] : 0, size = std::abs(sum);
            for (std::size_t k = 0; k < depth; ++k) {
              const double term =
                  static_cast<double>(rounded(a_turned ? a[k * a_stride + i] : a[i * a_stride + k])) *
                  rounded(b_turned ? b[j * b_stride + k] : b[k * b_stride + j]);
              sum += term;
              size += std::abs(term);
            }
            // The bound of any order of summation in float.
            ASSERT_LE(std::abs(c[at] - sum),
                      static_cast<double>(depth + 1) * std::numeric_limits<float>::epsilon() * size)
                << rows << " x " << columns << " x " << depth << ", entry " << i << ", " << j;
          }
        }
      }
}

TEST(Bfloat16, products_are_the_sums_of_rounded_numbers) {
  for (const auto by : kinds())
    for (const auto& [rows, columns, depth] : {std::tuple{1, 1, 1},
                                               {1, 7, 3},
                                               {7, 1, 5},
                                               {5, 3, 2},
                                               {16, 16, 16},
                                               {49, 48, 17},
                                               {17, 33, 65},
                                               {128, 5, 128},
                                               {6, 70, 1},
                                               {3, 200, 3000}})  // columns of several kernels
      check(by, static_cast<std::size_t>(rows), static_cast<std::size_t>(columns),
            static_cast<std::size_t>(depth));
}

// Rows are spread over ranks, and memory is allocated elsewhere after a restart.
TEST(Bfloat16, a_row_does_not_depend_on_the_others_nor_on_where_it_is_written) {
  const std::size_t rows = 37, columns = 24, depth = 33;
  const auto b = matrix(depth, columns, columns, 0.2F);
  for (const auto by : kinds())
    for (std::size_t offset = 0; offset < 8; ++offset) {
      const auto whole = matrix(rows, depth, depth, 0.1F);
      std::vector<float> c(offset + rows * columns), one(columns);
      Bfloat16Product product(by);
      product.set_right(depth, columns, Stored::plain, b.data(), columns);
      product(rows, Stored::plain, whole.data(), depth, InsertMode::insert, c.data() + offset, columns);
      for (std::size_t r = 0; r < rows; ++r) {
        product(1, Stored::plain, whole.data() + r * depth, depth, InsertMode::insert, one.data(), columns);
        for (std::size_t j = 0; j < columns; ++j)
          ASSERT_EQ(one[j], c[offset + r * columns + j]) << "row " << r;
      }
    }
}

/// The three products of a map against those of one that multiplies exactly, of numbers that are rounded
/// already.
void check_map(LinearMap<float>& map, std::size_t rows, std::size_t out, std::size_t in, float phase) {
  const auto w = matrix(out, in, in, phase), x = matrix(rows, in, in, 0.2F), y = matrix(rows, out, out, 0.3F);
  const auto all_rounded = [](std::vector<float> numbers) {
    for (float& one : numbers) one = rounded(one);
    return numbers;
  };
  const auto w_rounded = all_rounded(w), x_rounded = all_rounded(x), y_rounded = all_rounded(y);
  LinearMap<float> plain;
  plain.set(w_rounded.data(), out, in);
  map.set(w.data(), out, in);
  std::vector<float> forward(rows * out), backward(rows * in), gradient(out * in);
  std::vector<float> forward_wanted(rows * out), backward_wanted(rows * in), gradient_wanted(out * in);
  map.apply(rows, x.data(), forward.data());
  plain.apply(rows, x_rounded.data(), forward_wanted.data());
  map.apply_transpose(rows, y.data(), InsertMode::insert, backward.data());
  plain.apply_transpose(rows, y_rounded.data(), InsertMode::insert, backward_wanted.data());
  map.add_gradient(rows, y.data(), x.data(), gradient.data());
  plain.add_gradient(rows, y_rounded.data(), x_rounded.data(), gradient_wanted.data());
  const auto near = [](const std::vector<float>& a, const std::vector<float>& b) {
    for (std::size_t i = 0; i < a.size();
         ++i)  // sums of up to 11 terms of size 1, each rounded once in either
      ASSERT_NEAR(a[i], b[i], 2 * 12 * 11 * std::numeric_limits<float>::epsilon());
  };
  near(forward, forward_wanted);
  near(backward, backward_wanted);
  near(gradient, gradient_wanted);
}

TEST(Bfloat16, a_linear_map_rounds_weights_and_states_in_each_of_its_products) {
  std::vector<Operands> all{Operands::bfloat16_as_float};
  if (has_bfloat16_products()) all.push_back(Operands::bfloat16);
  for (const auto operands : all) {
    LinearMap<float> map(operands);
    check_map(map, 9, 6, 11, 0.1F);
    check_map(map, 9, 6, 11, 0.5F);  // other weights
    check_map(map, 4, 7, 5, 0.5F);
  }
  EXPECT_THROW(LinearMap<double>{Operands::bfloat16}, std::logic_error);
}

}  // namespace
}  // namespace fluxformer
