// Distances between the blocks of a matrix whose blocks have known spectra.

#include "analysis/hessian/block_spectra.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.hpp"
#include "solvers/spectra/symmetric_operator.hpp"

namespace fluxformer::hessian {
namespace {

constexpr PetscInt size = 200;

/// Four diagonal blocks of `size`: eigenvalues 1 .. 200, the same times 1000, +-1, and 0.
spectra::ReplicatedOperator four_blocks() {
  return {MPI_COMM_SELF, 4 * size, [](std::span<const double> in, std::span<double> out) {
            for (std::size_t j = 0; j < in.size(); ++j) {
              const std::size_t block = j / size, k = j % size;
              const double value = block == 0   ? static_cast<double>(k + 1)
                                   : block == 1 ? 1000 * static_cast<double>(k + 1)
                                   : block == 2 ? (k % 2 == 0 ? 1.0 : -1.0)
                                                : 0.0;
              out[j] = value * in[j];
            }
          }};
}

std::vector<spectra::Block> blocks() {
  std::vector<spectra::Block> list;
  for (PetscInt b = 0; b < 4; ++b) list.push_back({{b * size, (b + 1) * size}});
  return list;
}

TEST(BlockSpectra, of_blocks_that_differ_by_a_factor_are_as_far_apart_as_sampling_makes_them) {
  const auto matrix = four_blocks();
  const auto found =
      block_spectra(matrix.get(), blocks(), {.probes = 8, .steps = 30, .kind = spectra::Probe::rademacher},
                    {.lambda_0 = 0.01, .width = 0.2});
  // Rademacher probes are other numbers in each block, so that the distance is not exactly 0.
  EXPECT_LT(found.apart.distances[0][1], 0.3);
  EXPECT_LT(found.apart.floors[0], 0.3);
  EXPECT_GT(found.apart.distances[0][2], 0.6);
  for (std::size_t a = 0; a < 3; ++a) {
    EXPECT_EQ(found.apart.distances[a][a], 0);
    for (std::size_t b = 0; b < 3; ++b) EXPECT_EQ(found.apart.distances[a][b], found.apart.distances[b][a]);
  }
  // sum k^2 / n over k = 1 .. n; the quadrature of a Rademacher vector gives it exactly.
  const double mean_square = (size + 1) * (2.0 * size + 1) / 6;
  EXPECT_NEAR(found.rms[0], std::sqrt(mean_square), 1e-10 * found.rms[0]);
  EXPECT_NEAR(found.rms[1], 1000 * std::sqrt(mean_square), 1e-10 * found.rms[1]);
  EXPECT_NEAR(found.rms[2], 1, 1e-12);
}

TEST(BlockSpectra, of_a_block_that_is_zero_have_no_distance) {
  const auto matrix = four_blocks();
  const auto found = block_spectra(matrix.get(), blocks(), {.probes = 2, .steps = 5}, {});
  EXPECT_EQ(found.rms[3], 0);
  EXPECT_TRUE(std::isnan(found.apart.distances[3][0]) && std::isnan(found.apart.floors[3]));
  EXPECT_THROW(block_spectra(matrix.get(), blocks(), {.probes = 1, .steps = 5}, {}), BadInput);
}

TEST(BlockDistances, of_exact_spectra_have_no_floor) {
  const SpectralMeasure ones{{1, 1}, {0.5, 0.5}}, signs{{-1, 1}, {0.5, 0.5}};
  const auto apart = block_distances({{ones}, {ones}, {signs}, {}}, {.lambda_0 = 0.1, .width = 0.1});
  EXPECT_EQ(apart.floors[0], 0);
  EXPECT_EQ(apart.distances[0][1], 0);
  // Half of the mass of `signs` is where that of `ones` is, far from the other half: the divergence is
  // (log2(4/3) + (log2(2/3) + 1) / 2) / 2 bit. The overlap of the Gaussians is exp(-asinh(10)^2 / (2 0.1^2)) = 0.
  const double divergence = (std::log2(4.0 / 3) + (std::log2(2.0 / 3) + 1) / 2) / 2;
  // The grid ends six widths beyond the nodes, where 1e-9 of the mass is left out.
  EXPECT_NEAR(apart.distances[0][2], std::sqrt(divergence), 1e-9);
  EXPECT_TRUE(std::isnan(apart.distances[3][0]));
}

TEST(BlockDistances, have_the_heterogeneity_of_the_pairs_beyond_twice_their_floors) {
  BlockDistances apart;
  apart.distances = {{0, 0.5, 0.1}, {0.5, 0, 0.3}, {0.1, 0.3, 0}};
  apart.floors = {0.1, 0.2, 0.01};
  EXPECT_DOUBLE_EQ(apart.heterogeneity(), 0.5 / 3);  // 0.1 < 0.2 and 0.3 < 0.4 do not count
  apart.floors = {0.01, 0.01, 0.01};
  EXPECT_DOUBLE_EQ(apart.heterogeneity(), 0.9 / 3);
  const double nothing = std::nan("");  // a block that is zero makes no pair
  apart.distances = {{0, 0.5, nothing}, {0.5, 0, nothing}, {nothing, nothing, nothing}};
  EXPECT_DOUBLE_EQ(apart.heterogeneity(), 0.5);
  EXPECT_TRUE(std::isnan(BlockDistances{}.heterogeneity()));
}

}  // namespace
}  // namespace fluxformer::hessian
