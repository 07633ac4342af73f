// Distances between densities of eigenvalues: cases with known values, and the properties of a metric.

#include "analysis/hessian/block_spectra.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

#include "base/error.hpp"
#include "solvers/spectra/symmetric_operator.hpp"

namespace fluxformer::hessian {
namespace {

using Measures = std::vector<SpectralMeasure>;

const SpectralMeasure left{{-3.0}, {1.0}}, right{{5.0}, {1.0}}, both{{-3.0, 5.0}, {0.5, 0.5}};

double distance(const SpectralMeasure& one, const SpectralMeasure& other, double lambda_0 = 0.1,
                double width = 0.2) {
  const Measures all = {one, other};
  const auto grid = spectral_grid(all, lambda_0, width);
  return jensen_shannon_distance(density_on(grid, Measures{one}), density_on(grid, Measures{other}));
}

TEST(SpectralDistance, is_0_for_equal_densities_and_1_without_overlap) {
  EXPECT_EQ(distance(both, both), 0);
  // asinh(50) + asinh(30) is 43 widths.
  EXPECT_NEAR(distance(left, right), 1, 1e-15);
}

// p = (1, 0), q = (1/2, 1/2), m = (3/4, 1/4)
TEST(SpectralDistance, of_separate_peaks_is_that_of_their_weights) {
  const double divergence = std::log2(4.0 / 3) / 2 + (std::log2(2.0 / 3) / 2 + std::log2(2.0) / 2) / 2;
  // Six widths hold all but 1e-9 of a peak.
  EXPECT_NEAR(distance(left, both), std::sqrt(divergence), 1e-9);
}

// Two Gaussians one width apart, by the trapezoidal rule on 20 times as many points.
TEST(SpectralDistance, of_overlapping_peaks_is_the_integral) {
  constexpr double width = 0.3, lambda_0 = 0.5;
  const SpectralMeasure one{{lambda_0 * std::sinh(1.0)}, {1.0}}, other{{lambda_0 * std::sinh(1.3)}, {1.0}};
  double divergence = 0;
  for (double s = -3; s < 6; s += 0.003) {
    const auto normal = [&](double centre) {
      return std::exp(-std::pow((s - centre) / width, 2) / 2) / (width * std::sqrt(2 * std::numbers::pi));
    };
    const double p = normal(1.0), q = normal(1.3), m = (p + q) / 2;
    divergence += 0.003 * (p * std::log2(p / m) + q * std::log2(q / m)) / 2;
  }
  // Beyond six widths lie 1e-9 of a density.
  EXPECT_NEAR(distance(one, other, lambda_0, width), std::sqrt(divergence), 1e-8);
}

TEST(SpectralDistance, is_a_metric_that_does_not_see_the_sign) {
  const SpectralMeasure a{{-1, 0.1, 0.2}, {0.2, 0.5, 0.3}}, b{{0.1, 0.15, 3}, {0.6, 0.3, 0.1}},
      c{{0, 0.3}, {0.9, 0.1}};
  EXPECT_DOUBLE_EQ(distance(a, b), distance(b, a));
  EXPECT_LT(distance(a, b), distance(a, c) + distance(c, b));
  EXPECT_GT(distance(a, b), 0.1);
  // The grid of the mirror image has other points.
  EXPECT_NEAR(distance(divided(a, -1), divided(b, -1)), distance(a, b), 1e-8);
}

TEST(SpectralDistance, does_not_see_the_magnitude_once_divided_by_it) {
  const SpectralMeasure a{{-1, 0.1, 0.2}, {0.2, 0.5, 0.3}};
  const auto large = divided(a, 1e-6);
  EXPECT_NEAR(rms_eigenvalue(Measures{large}), 1e6 * std::sqrt(0.2 + 0.005 + 0.012), 1e-6);
  EXPECT_GT(distance(a, large), 0.9);
  EXPECT_LT(
      distance(divided(a, rms_eigenvalue(Measures{a})), divided(large, rms_eigenvalue(Measures{large}))),
      1e-7);
}

TEST(SpectralGridOfAll, holds_the_densities_of_all_measures) {
  const Measures all = {{{1e-6, 20}, {0.3, 0.7}}, {{-400.0}, {1.0}}};
  for (const double width : {0.05, 0.5}) {
    const auto grid = spectral_grid(all, 1e-3, width);
    const double spacing = grid.points[1] - grid.points[0];
    EXPECT_NEAR(spacing, width / 5, 1e-12);
    EXPECT_LE(grid.points.front(), std::asinh(-400 / 1e-3) - 6 * width + 1e-12);
    EXPECT_GE(grid.points.back(), std::asinh(20 / 1e-3) + 6 * width - 1e-12);
    for (const auto& probes : {Measures{all[0]}, Measures{all[1]}, all}) {
      const auto density = density_on(grid, probes);
      // Beyond six widths: 2e-9.
      EXPECT_NEAR(spacing * std::accumulate(density.begin(), density.end(), 0.0), 1, 4e-9);
    }
  }
}

TEST(SpectralGridOfAll, refuses_nonsense) {
  const double nan = std::numeric_limits<double>::quiet_NaN(),
               infinite = std::numeric_limits<double>::infinity();
  const Measures good = {both}, bad = {both, {{nan}, {1}}}, none = {{}};
  EXPECT_THROW(spectral_grid(good, 0, 1), BadInput);
  EXPECT_THROW(spectral_grid(good, 1, -1), BadInput);
  EXPECT_THROW(spectral_grid(good, nan, 1), BadInput);
  EXPECT_THROW(spectral_grid(good, infinite, 1), BadInput);
  EXPECT_THROW(spectral_grid(good, 1, infinite), BadInput);
  EXPECT_THROW(spectral_grid(none, 1, 1), BadInput);
  EXPECT_THROW(spectral_grid(bad, 1, 1), NumericalFailure);
}

TEST(DistanceOfHalves, is_what_differs_between_the_probes) {
  const Measures alike = {left, right, left, right}, unlike = {left, left, right, right},
                 odd = {left, left, right};
  EXPECT_EQ(distance_of_halves(spectral_grid(alike, 0.1, 0.2), alike), 0);
  EXPECT_NEAR(distance_of_halves(spectral_grid(unlike, 0.1, 0.2), unlike), 1, 1e-15);
  EXPECT_NEAR(distance_of_halves(spectral_grid(odd, 0.1, 0.2), odd), distance(left, both), 1e-14);
}

}  // namespace
}  // namespace fluxformer::hessian

// Distances between the blocks of a matrix whose blocks have known spectra.

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
  // (log2(4/3) + (log2(2/3) + 1) / 2) / 2 bit. The overlap of the Gaussians is exp(-asinh(10)^2 / (2 0.1^2))
  // = 0.
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
