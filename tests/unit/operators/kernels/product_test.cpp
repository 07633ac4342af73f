#include "operators/kernels/product.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "operators/kernels/linear_map.hpp"

namespace fluxformer {
namespace {

/// Rows of `columns` numbers, `stride` apart; what lies between is NaN, so that its use would show.
template <class T>
struct Rows {
  Rows(int row_count, int column_count, int gap, double phase)
      : rows(row_count), columns(column_count), stride(column_count + gap) {
    data.assign(static_cast<std::size_t>(rows * stride), std::numeric_limits<T>::quiet_NaN());
    for (int i = 0; i < rows; ++i)
      for (int j = 0; j < columns; ++j) at(i, j) = static_cast<T>(std::sin(phase + 1.3 * i + 0.7 * j * j));
  }
  T& at(int i, int j) { return data[i * stride + j]; }

  int rows, columns, stride;
  std::vector<T> data;
};

template <class T>
class Products : public testing::Test {};
using Arithmetic = testing::Types<float, double>;
TYPED_TEST_SUITE(Products, Arithmetic);

/// Every way of storing the factors against plain sums in long double.
template <class T>
void check(int rows, int columns, int depth, int gap) {
  Product<T> product;
  for (const Stored a_stored : {Stored::plain, Stored::transposed})
    for (const Stored b_stored : {Stored::plain, Stored::transposed})
      for (const InsertMode into : {InsertMode::insert, InsertMode::add}) {
        const bool a_turned = a_stored == Stored::transposed, b_turned = b_stored == Stored::transposed;
        Rows<T> a(a_turned ? depth : rows, a_turned ? rows : depth, gap, 0.1),
            b(b_turned ? columns : depth, b_turned ? depth : columns, gap, 0.2), c(rows, columns, gap, 0.3);
        const Rows<T> before = c;
        product({.rows = rows,
                 .columns = columns,
                 .depth = depth,
                 .a_stride = a.stride,
                 .b_stride = b.stride,
                 .c_stride = c.stride,
                 .a = a_stored,
                 .b = b_stored,
                 .into = into},
                a.data.data(), b.data.data(), c.data.data());
        for (int i = 0; i < rows; ++i)
          for (int j = 0; j < c.stride; ++j) {
            if (j >= columns) {
              ASSERT_TRUE(std::isnan(c.at(i, j))) << "between the rows";
              continue;
            }
            const T start = before.data[i * c.stride + j];
            long double sum = into == InsertMode::add ? start : 0, size = std::abs(sum);
            for (int k = 0; k < depth; ++k) {
              const auto term = static_cast<long double>(a_turned ? a.at(k, i) : a.at(i, k)) *
                                (b_turned ? b.at(j, k) : b.at(k, j));
              sum += term;
              size += std::abs(term);
            }
            // The bound of any order of summation, where each rounding is half of eps.
            ASSERT_LE(std::abs(static_cast<double>(c.at(i, j) - sum)),
                      static_cast<double>((depth + 1) * std::numeric_limits<T>::epsilon() / 2 * size))
                << rows << " x " << columns << " x " << depth << ", entry " << i << ", " << j;
          }
      }
}

TYPED_TEST(Products, are_the_plain_sums) {
  for (const auto& [rows, columns, depth] : {std::tuple{1, 1, 1},
                                             {1, 7, 3},
                                             {7, 1, 5},
                                             {5, 3, 2},
                                             {16, 16, 16},
                                             {49, 49, 16},
                                             {17, 33, 65},
                                             {128, 5, 128},
                                             {6, 70, 1},
                                             {1, 70, 100}})
    for (const int gap : {0, 3}) check<TypeParam>(rows, columns, depth, gap);
}

TYPED_TEST(Products, of_factors_beyond_the_cache_are_the_plain_sums) {
  const int depth = 300, columns = 520;
  ASSERT_FALSE(has_kernel<TypeParam>(depth, columns));
  for (const int rows : {1, 3}) check<TypeParam>(rows, columns, depth, 1);
  // Several panels in depth and columns, the last ones smaller than the others.
  check<TypeParam>(3, 71, 2053, 3);
}

// The sums of a row, which are right for a few rows, do not depend on how many there are and where it stands.
TYPED_TEST(Products, of_factors_beyond_the_cache_have_rows_that_do_not_depend_on_each_other) {
  using T = TypeParam;
  if (!has_kernel<T>(1, 1)) GTEST_SKIP() << "without libxsmm the BLAS decides";
  constexpr Index depth = 1100, columns = 130, all = 300;
  ASSERT_FALSE(has_kernel<T>(depth, columns));
  for (const Stored a_stored : {Stored::plain, Stored::transposed})
    for (const Stored b_stored : {Stored::plain, Stored::transposed}) {
      const bool a_turned = a_stored == Stored::transposed, b_turned = b_stored == Stored::transposed;
      Rows<T> a(a_turned ? depth : all, a_turned ? all : depth, 0, 0.1),
          b(b_turned ? columns : depth, b_turned ? depth : columns, 0, 0.2), whole(all, columns, 0, 0.3),
          part = whole;
      const auto multiply = [&](Index first, Index rows, Rows<T>& to) {
        Product<T>()({.rows = rows,
                      .columns = columns,
                      .depth = depth,
                      .a_stride = a.stride,
                      .b_stride = b.stride,
                      .c_stride = columns,
                      .a = a_stored,
                      .b = b_stored},
                     a.data.data() + first * (a_turned ? 1 : depth), b.data.data(),
                     to.data.data() + first * columns);
      };
      multiply(0, all, whole);
      multiply(0, 2, part);
      multiply(2, 131, part);
      multiply(133, all - 133, part);
      ASSERT_EQ(part.data, whole.data);
    }
}

// Restarts and repeated runs allocate elsewhere.
TYPED_TEST(Products, do_not_depend_on_alignment) {
  using T = TypeParam;
  for (const int size : {2, 5, 13, 49, 390}) {
    const auto n = static_cast<std::size_t>(size * size);
    std::vector<T> first;
    for (std::size_t offset = 0; offset < 16; ++offset) {
      std::vector<T> a(n + offset), b(n + offset), c(n + offset);
      for (std::size_t i = 0; i < n; ++i) {
        a[offset + i] = std::sin(static_cast<T>(i));
        b[offset + i] = std::cos(static_cast<T>(3 * i));
      }
      Product<T>()({.rows = size,
                    .columns = size,
                    .depth = size,
                    .a_stride = size,
                    .b_stride = size,
                    .c_stride = size},
                   a.data() + offset, b.data() + offset, c.data() + offset);
      const std::vector<T> result(c.begin() + static_cast<std::ptrdiff_t>(offset), c.end());
      if (offset == 0) first = result;
      ASSERT_EQ(result, first) << "offset " << offset;
    }
  }
}

TYPED_TEST(Products, of_one_row_do_not_depend_on_alignment) {
  using T = TypeParam;
  constexpr Index depth = 300, columns = 520;  // beyond the kernels
  for (const auto stored : {Stored::plain, Stored::transposed})
    for (const auto into : {InsertMode::insert, InsertMode::add}) {
      std::vector<T> first;
      for (Index offset = 0; offset < 16; ++offset) {
        std::vector<T> a(depth + offset), b(depth * columns + offset), c(columns + offset, T(1));
        for (Index i = 0; i < depth; ++i) a[offset + i] = std::sin(static_cast<T>(i));
        for (Index i = 0; i < depth * columns; ++i) b[offset + i] = std::cos(static_cast<T>(i % 1009));
        Product<T>()({.rows = 1,
                      .columns = columns,
                      .depth = depth,
                      .a_stride = depth,
                      .b_stride = stored == Stored::plain ? columns : depth,
                      .c_stride = columns,
                      .b = stored,
                      .into = into},
                     a.data() + offset, b.data() + offset, c.data() + offset);
        const std::vector<T> result(c.begin() + offset, c.end());
        if (offset == 0) first = result;
        ASSERT_EQ(result, first) << "offset " << offset;
      }
    }
}

TYPED_TEST(Products, a_turned_matrix_is_the_transpose) {
  using T = TypeParam;
  for (const int rows : {1, 5, 16, 17, 49})
    for (const int columns : {1, 3, 16, 33}) {
      Rows<T> a(rows, columns, 2, 0.5), turned(columns, rows, 1, 0);
      transpose(a.data.data(), static_cast<std::size_t>(rows), static_cast<std::size_t>(columns),
                static_cast<std::size_t>(a.stride), turned.data.data(),
                static_cast<std::size_t>(turned.stride));
      for (int j = 0; j < columns; ++j) {
        for (int i = 0; i < rows; ++i) ASSERT_EQ(turned.at(j, i), a.at(i, j));
        ASSERT_TRUE(std::isnan(turned.at(j, rows))) << "between the rows";
      }
    }
}

// The same for weights that are turned and for those that are too large for it.
TYPED_TEST(Products, a_linear_map_multiplies_by_its_weights_and_their_transpose) {
  using T = TypeParam;
  for (const auto& [out, in] : {std::pair{7, 5}, {48, 64}, {520, 300}}) {
    const int rows = 9;
    Rows<T> w(out, in, 0, 0.1), x(rows, in, 0, 0.2), y(rows, out, 0, 0), back(rows, in, 0, 0),
        gradient(out, in, 0, 0.4);
    const Rows<T> before = gradient;
    LinearMap<T> map;
    map.set(w.data.data(), static_cast<std::size_t>(out), static_cast<std::size_t>(in));
    map.apply(rows, x.data.data(), y.data.data());
    map.apply_transpose(rows, y.data.data(), InsertMode::insert, back.data.data());
    map.add_gradient(rows, y.data.data(), x.data.data(), gradient.data.data());
    const double eps = std::numeric_limits<T>::epsilon();
    for (int r = 0; r < rows; ++r)
      for (int o = 0; o < out; ++o) {
        long double sum = 0, size = 0;
        for (int i = 0; i < in; ++i) {
          const auto term = static_cast<long double>(x.at(r, i)) * w.at(o, i);
          sum += term;
          size += std::abs(term);
        }
        ASSERT_LE(std::abs(static_cast<double>(y.at(r, o) - sum)),
                  static_cast<double>((in + 1) * eps * size));
      }
    for (int i = 0; i < in; ++i) {
      long double sum = 0, size = 0;
      for (int o = 0; o < out; ++o) {
        const auto term = static_cast<long double>(y.at(0, o)) * w.at(o, i);
        sum += term;
        size += std::abs(term);
      }
      ASSERT_LE(std::abs(static_cast<double>(back.at(0, i) - sum)),
                static_cast<double>((out + 1) * eps * size));
    }
    for (int o = 0; o < out; ++o) {
      long double sum = before.data[o * in], size = std::abs(sum);
      for (int r = 0; r < rows; ++r) {
        const auto term = static_cast<long double>(y.at(r, o)) * x.at(r, 0);
        sum += term;
        size += std::abs(term);
      }
      ASSERT_LE(std::abs(static_cast<double>(gradient.at(o, 0) - sum)),
                static_cast<double>((rows + 1) * eps * size));
    }
    // Inputs stored by columns.
    Rows<T> columns(in, rows, 3, 0), same(rows, out, 0, 0);
    for (int i = 0; i < in; ++i)
      for (int r = 0; r < rows; ++r) columns.at(i, r) = x.at(r, i);
    map.apply(rows, Stored::transposed, columns.data.data(), static_cast<std::size_t>(columns.stride),
              same.data.data());
    for (int r = 0; r < rows; ++r)
      for (int o = 0; o < out; ++o) ASSERT_LE(std::abs(same.at(r, o) - y.at(r, o)), (in + 1) * eps * in);
  }
}

}  // namespace
}  // namespace fluxformer
