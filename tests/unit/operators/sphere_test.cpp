#include "operators/layer_norm.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/support/reference_layer.hpp"
#include "tests/support/test_vectors.hpp"

namespace fluxformer {
namespace {

using namespace test;

constexpr double rounding = std::numeric_limits<double>::epsilon();

TEST(Sphere, projection_matches_the_plain_loops) {
  for (const int width : {1, 3, 8, 21, 64}) {
    std::vector<double> x = random_vector(static_cast<std::size_t>(7 * width), 1, 3);
    const std::vector<double> expected = reference::project_to_sphere(x, width);
    EXPECT_TRUE(project_to_sphere(x.data(), 7, width));
    EXPECT_LE(relative_difference(x, expected), 8 * rounding);
  }
}

TEST(Sphere, a_zero_row_is_reported_and_left_alone) {
  std::vector<double> x{3, 4, 0, 0, 0, 2};
  EXPECT_FALSE(project_to_sphere(x.data(), 3, 2));
  EXPECT_LE(relative_difference(x, {0.6, 0.8, 0, 0, 0, 1}), 2 * rounding);
}

TEST(Sphere, tangent_leaves_a_second_order_remainder_and_is_symmetric) {
  const int rows = 5, width = 13;
  const std::vector<double> x = random_vector(65, 1, 2), v = random_vector(65, 2), w = random_vector(65, 3);
  std::vector<double> along = v, pulled = w;
  sphere_tangent(x.data(), along.data(), rows, width);
  sphere_tangent(x.data(), pulled.data(), rows, width);
  const auto remainder = [&](double h) {
    const std::vector<double> linear = plus(reference::project_to_sphere(x, width), h, along);
    return norm(plus(reference::project_to_sphere(plus(x, h, v), width), -1, linear));
  };
  EXPECT_NEAR(std::log2(remainder(1e-3) / remainder(5e-4)), 2, 0.05);
  EXPECT_NEAR(dot(along, w), dot(v, pulled), 1e-12 * norm(along) * norm(w));
}

TEST(Sphere, tangent_projection_removes_the_radial_part_and_nothing_else) {
  const int rows = 5, width = 13;
  const std::vector<double> x = random_vector(65, 1, 2), v = random_vector(65, 2);
  std::vector<double> tangential = v;
  project_to_tangent(x.data(), tangential.data(), rows, width);
  for (std::size_t r = 0; r < 65; r += 13) {
    double radial = 0, square = 0, removed = 0;
    for (std::size_t j = r; j < r + 13; ++j) {
      radial += tangential[j] * x[j];
      square += x[j] * x[j];
      removed += (v[j] - tangential[j]) * x[j];
    }
    EXPECT_NEAR(radial, 0, 1e-13 * square);
    // What was removed is parallel to x.
    for (std::size_t j = r; j < r + 13; ++j)
      EXPECT_NEAR(v[j] - tangential[j], removed / square * x[j], 1e-13);
  }
}

}  // namespace
}  // namespace fluxformer
