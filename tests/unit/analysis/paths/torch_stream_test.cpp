// PyTorch's random numbers: words, uniform numbers, blocks of 16 normal numbers.

#include "analysis/paths/torch_stream.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <vector>

#include "base/error.hpp"

namespace fluxformer::paths {
namespace {

std::vector<double> uniforms(TorchStream& stream, std::size_t count) {
  std::vector<double> values(count);
  for (double& value : values) value = stream.uniform();
  return values;
}

std::vector<double> fill(TorchStream& stream, std::size_t count) {
  std::vector<double> values(count);
  stream.fill_normal(values);
  return values;
}

/// Normal number j of a block of uniform numbers that begins at u, from the formula.
double box_muller(const double* u, std::size_t j) {
  const std::size_t pair = j % 8;
  const double radius = std::sqrt(-2 * std::log(1 - u[pair])), angle = 2 * std::numbers::pi * u[pair + 8];
  return j < 8 ? radius * std::cos(angle) : radius * std::sin(angle);
}

// Radii are below 9 (u has 53 bits): some round-offs of the functions.
constexpr double torch_stream_round_off = 1e-14;

TEST(TorchStream, makes_a_uniform_number_of_the_low_53_bits_of_two_words) {
  std::mt19937 words(27);
  TorchStream stream(27);
  for (int k = 0; k < 1000; ++k) {
    // The low 21 bits of the first word, then all of the second: exact in double precision.
    const double high = static_cast<double>(words() % 2097152), low = static_cast<double>(words());
    ASSERT_EQ(stream.uniform(), std::ldexp(high, -21) + std::ldexp(low, -53)) << k;
  }
}

TEST(TorchStream, turns_whole_blocks_into_normal_numbers) {
  for (const std::size_t count : {16u, 32u, 480u}) {
    TorchStream one(5), other(5);
    const auto u = uniforms(one, count), z = fill(other, count);
    for (std::size_t k = 0; k < count; ++k)
      ASSERT_NEAR(z[k], box_muller(&u[k - k % 16], k % 16), torch_stream_round_off) << k;
    EXPECT_EQ(one.uniform(), other.uniform());
  }
}

TEST(TorchStream, draws_an_incomplete_last_block_anew) {
  for (const std::size_t count : {17u, 31u, 33u, 961u}) {
    TorchStream one(5), other(5);
    const auto u = uniforms(one, count), again = uniforms(one, 16), z = fill(other, count);
    for (std::size_t k = 0; k + 16 < count; ++k)
      ASSERT_NEAR(z[k], box_muller(&u[k - k % 16], k % 16), torch_stream_round_off) << k;
    for (std::size_t j = 0; j < 16; ++j)
      ASSERT_NEAR(z[count - 16 + j], box_muller(again.data(), j), torch_stream_round_off) << j;
    EXPECT_EQ(one.uniform(), other.uniform());
  }
}

// Ten printed digits.
TEST(TorchStream, has_the_published_first_normal_numbers) {
  TorchStream first(147), second(247);
  EXPECT_NEAR(first.normals(200, 200)(0, 0) / 20, -0.1564807692, 6e-11);
  EXPECT_NEAR(first.normals(31, 31)(0, 0) * 10, -2.0689460982, 6e-11);
  EXPECT_NEAR(second.normals(200, 200)(0, 0) / 20, -0.0719631539, 6e-11);
}

TEST(TorchStream, fills_matrices_row_by_row) {
  TorchStream one(5), other(5);
  const auto z = fill(one, 35);
  const RowMatrix matrix = other.normals(5, 7);
  for (Eigen::Index i = 0; i < 5; ++i)
    for (Eigen::Index j = 0; j < 7; ++j) EXPECT_EQ(matrix(i, j), z[7 * i + j]);
}

// Four standard deviations of each estimate from 1e5 numbers.
TEST(TorchStream, is_standard_normal) {
  TorchStream stream(3);
  const Eigen::ArrayXd z = stream.normals(1, 100000).row(0).transpose().array();
  const double unit = 4 / std::sqrt(1e5);
  EXPECT_NEAR(z.mean(), 0, unit);
  EXPECT_NEAR(z.square().mean(), 1, std::sqrt(2) * unit);
  EXPECT_NEAR(z.cube().mean(), 0, std::sqrt(15) * unit);
  EXPECT_NEAR(z.square().square().mean(), 3, std::sqrt(96) * unit);
}

TEST(TorchStream, refuses_fills_of_fewer_than_16) {
  TorchStream stream(1);
  std::vector<double> values(15);
  EXPECT_THROW(stream.fill_normal(values), BadInput);
  EXPECT_THROW(stream.normals(3, 5), BadInput);
  EXPECT_THROW(stream.normals(0, 5), BadInput);
}

}  // namespace
}  // namespace fluxformer::paths
