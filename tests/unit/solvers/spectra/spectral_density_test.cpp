// Lanczos quadrature against moments of the operator.

#include "solvers/spectra/spectral_density.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

#include "base/error.hpp"
#include "tests/support/reached.hpp"
#include "tests/support/symmetric_matrix.hpp"

namespace fluxformer::spectra {
namespace {

using namespace test;
using Eigen::MatrixXd;
using Eigen::VectorXd;
using testing::DoubleNear;
using testing::Each;
using testing::ElementsAre;
using testing::Ge;
using testing::Pointwise;

Quadrature quadrature(const MatrixXd& h, const VectorXd& v, int steps) {
  const MatHandle matrix = spread(MPI_COMM_SELF, h);
  return lanczos_quadrature(matrix, spread(matrix, v), steps);
}

double moment(const Quadrature& rule, int power) {
  double sum = 0;
  for (std::size_t l = 0; l < rule.nodes.size(); ++l) sum += rule.weights[l] * std::pow(rule.nodes[l], power);
  return sum;
}

/// v^T H^q v
double moment(const MatrixXd& h, const VectorXd& v, int power) {
  VectorXd x = v;
  for (int q = 0; q < power; ++q) x = h * x;
  return v.dot(x);
}

/// Not of unit length, no eigenvector.
VectorXd start(int size) {
  return VectorXd::LinSpaced(size, -0.3, 1.7).array().cos();
}

TEST(LanczosQuadrature, has_the_moments_of_the_operator_up_to_2m_minus_1) {
  for (const bool indefinite : {true, false}) {
    constexpr int size = 60, steps = 8;
    const MatrixXd h = indefinite ? symmetric_matrix(size, 3) : with_spectrum(counting(size), 3);
    const VectorXd v = start(size);
    const double norm = eigenvalues(h).cwiseAbs().maxCoeff(), square = v.squaredNorm();
    const auto rule = quadrature(h, v, steps);
    ASSERT_EQ(rule.nodes.size(), std::size_t{steps});
    const auto error = [&](int q) {
      return std::abs(moment(rule, q) - moment(h, v, q)) / (square * std::pow(norm, q));
    };
    // The nodes and the products err by some 1e-15 of the norm, q times.
    for (int q = 0; q <= 2 * steps - 1; ++q)
      EXPECT_LT(reached("moment of a Lanczos quadrature", error(q)), 2e-14) << q;
    EXPECT_GT(error(2 * steps), 1e-11);
    EXPECT_TRUE(std::ranges::is_sorted(rule.nodes));
    EXPECT_THAT(rule.weights, Each(Ge(0.0)));
  }
}

TEST(LanczosQuadrature, finds_every_eigenvalue_once_though_some_converge_early) {
  // Without orthogonalisation against the whole basis, twice, copies of the outer eigenvalues take the place
  // of others.
  VectorXd values = counting(60);
  values(0) = -1e6, values(59) = 1e6;
  const auto rule = quadrature(with_spectrum(values, 5), start(60), 60);
  // Some 1e-15 of the norm in the matrix, the products and the nodes.
  EXPECT_THAT(rule.nodes, Pointwise(DoubleNear(1e-8), values));
}

TEST(LanczosQuadrature, with_as_many_steps_as_rows_has_all_eigenvalues) {
  const MatrixXd h = symmetric_matrix(12, 4);
  const VectorXd spectrum = eigenvalues(h);
  for (const int steps : {12, 50})
    EXPECT_THAT(quadrature(h, start(12), steps).nodes,
                Pointwise(DoubleNear(1e-13 * spectrum.cwiseAbs().maxCoeff()), spectrum));
}

TEST(LanczosQuadrature, ends_at_an_invariant_subspace_with_every_moment) {
  VectorXd values(90);
  values << VectorXd::Constant(30, -2), VectorXd::Constant(40, 1), VectorXd::Constant(20, 5);
  const VectorXd v = start(90);
  // Diagonal: the measure has three points, whose weights are known.
  const auto rule = quadrature(MatrixXd(values.asDiagonal()), v, 20);
  EXPECT_THAT(rule.nodes, Pointwise(DoubleNear(1e-13), {-2.0, 1.0, 5.0}));
  EXPECT_THAT(rule.weights,
              Pointwise(DoubleNear(1e-12), {v.head(30).squaredNorm(), v.segment(30, 40).squaredNorm(),
                                            v.tail(20).squaredNorm()}));
  EXPECT_THAT(quadrature(with_spectrum(values, 6), v, 20).nodes,
              Pointwise(DoubleNear(1e-12), {-2.0, 1.0, 5.0}));
}

TEST(LanczosQuadrature, of_the_zero_operator_and_of_one_number_has_one_node) {
  const auto zero = quadrature(MatrixXd::Zero(9, 9), VectorXd::Constant(9, 2), 5);
  EXPECT_THAT(zero.nodes, ElementsAre(0.0));
  EXPECT_THAT(zero.weights, ElementsAre(DoubleNear(36, 1e-13)));
  const auto one = quadrature(MatrixXd::Constant(1, 1, -3), VectorXd::Constant(1, 2), 5);
  EXPECT_THAT(one.nodes, ElementsAre(DoubleNear(-3, 1e-15)));
  EXPECT_THAT(one.weights, ElementsAre(DoubleNear(4, 1e-15)));
}

TEST(LanczosQuadrature, refuses_no_steps_the_vector_0_and_products_that_are_not_finite) {
  MatrixXd h = symmetric_matrix(4, 1);
  EXPECT_THROW(quadrature(h, start(4), 0), BadInput);
  EXPECT_THROW(quadrature(h, VectorXd::Zero(4), 2), NumericalFailure);
  h(2, 2) = std::numeric_limits<double>::infinity();
  EXPECT_THROW(quadrature(h, start(4), 2), NumericalFailure);
}

// Entries of Rademacher probes have square 1, so that v^T D v = trace D / n for a diagonal D.
TEST(SpectralDensity, of_a_diagonal_matrix_has_its_mean_with_rademacher_probes) {
  constexpr int size = 50;
  const MatHandle h = spread(MPI_COMM_SELF, MatrixXd(counting(size).asDiagonal()));
  for (const auto& rule : spectral_density(h, {.probes = 3, .steps = 6})) {
    EXPECT_NEAR(moment(rule, 0), 1, 1e-14);
    EXPECT_NEAR(moment(rule, 1), (size + 1) / 2.0, 1e-12);
    EXPECT_NEAR(moment(rule, 2), (size + 1) * (2 * size + 1) / 6.0, 1e-10);
  }
}

TEST(SpectralDensity, has_the_mean_moments_of_the_spectrum_within_the_spread_of_its_probes) {
  const MatrixXd h = symmetric_matrix(60, 2);
  const MatHandle matrix = spread(MPI_COMM_SELF, h);
  const VectorXd spectrum = eigenvalues(h);
  for (const auto kind : {Probe::rademacher, Probe::gaussian}) {
    constexpr int probes = 200;
    const auto rules = spectral_density(matrix, {.probes = probes, .steps = 3, .kind = kind});
    for (const int q : {1, 2, 3, 4, 5}) {
      double sum = 0, squares = 0;
      for (const auto& rule : rules) {
        const double one = moment(rule, q);
        sum += one, squares += one * one;
      }
      const double mean = sum / probes;
      const double error = std::sqrt((squares / probes - mean * mean) / (probes - 1));
      EXPECT_LT(std::abs(mean - spectrum.array().pow(q).mean()), 4 * error) << q;
    }
  }
}

TEST(SpectralDensity, has_probes_that_depend_on_seed_and_number_alone) {
  const MatHandle h = spread(MPI_COMM_SELF, symmetric_matrix(30, 2));
  const auto two = spectral_density(h, {.probes = 2, .steps = 4});
  const auto five = spectral_density(h, {.probes = 5, .steps = 4});
  const auto other = spectral_density(h, {.probes = 2, .steps = 4, .seed = 2});
  for (std::size_t k = 0; k < 2; ++k) {
    EXPECT_EQ(two[k].nodes, five[k].nodes);
    EXPECT_NE(two[k].nodes, other[k].nodes);
  }
  EXPECT_NE(two[0].nodes, two[1].nodes);
  EXPECT_THROW(spectral_density(h, {.probes = 0}), BadInput);
}

TEST(BroadenedDensity, is_the_mean_of_gaussians_at_the_nodes) {
  const std::vector<Quadrature> rules = {{{-1.0, 2.0}, {0.25, 0.75}}, {{0.5}, {1.0}}};
  const auto normal = [](double z) { return std::exp(-z * z / 2) / std::sqrt(2 * std::numbers::pi); };
  const std::vector<double> grid = {-1, 0.3, 4};
  const auto density = broadened_density(rules, grid, 0.2);
  for (std::size_t i = 0; i < grid.size(); ++i) {
    const double x = grid[i];
    const double expected =
        (0.25 * normal((x + 1) / 0.2) + 0.75 * normal((x - 2) / 0.2) + normal((x - 0.5) / 0.2)) / (2 * 0.2);
    EXPECT_NEAR(density[i], expected, 1e-15);
  }
}

}  // namespace
}  // namespace fluxformer::spectra
