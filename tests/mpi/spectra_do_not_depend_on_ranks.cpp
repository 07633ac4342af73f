// Spectra of matrices whose rows are spread over ranks, some of which own none, against those of one rank.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "base/error.hpp"
#include "solvers/spectra/eigenvalues.hpp"
#include "solvers/spectra/spectral_density.hpp"
#include "solvers/spectra/symmetric_operator.hpp"
#include "solvers/spectra/trace.hpp"
#include "tests/support/every_rank.hpp"
#include "tests/support/reached.hpp"
#include "tests/support/symmetric_matrix.hpp"

namespace fluxformer::spectra::spectra_do_not_depend_on_ranks {
namespace {

using namespace test;
using Eigen::MatrixXd;
using Eigen::VectorXd;
using testing::DoubleNear;
using testing::Pointwise;

class SpectraOverRanks : public testing::TestWithParam<Rows> {
 protected:
  MatHandle spread_out(const MatrixXd& h) const { return spread(MPI_COMM_WORLD, h, GetParam()); }
};

TEST_P(SpectraOverRanks, ends_of_1_to_N_are_found) {
  constexpr int size = 101;
  const MatHandle matrix = spread_out(with_spectrum(counting(size), 3));
  const double tolerance = 1e-11;
  const auto found =
      EigenSolver(MPI_COMM_WORLD)
          .solve(matrix,
                 {.largest = 5, .smallest = 4, .tolerance = tolerance, .vectors = Eigenvectors::kept});
  // An eigenvalue is as near as its residual.
  const double near = 2 * tolerance * size;
  EXPECT_THAT(found.largest.values, Pointwise(DoubleNear(near), {101.0, 100.0, 99.0, 98.0, 97.0}));
  EXPECT_THAT(found.smallest.values, Pointwise(DoubleNear(near), {1.0, 2.0, 3.0, 4.0}));
  VecHandle product;
  check(MatCreateVecs(matrix, nullptr, product.out()));
  for (std::size_t i = 0; i < found.largest.values.size(); ++i) {
    const Vec x = found.largest.vectors[i];
    check(MatMult(matrix, x, product));
    check(VecAXPY(product, -found.largest.values[i], x));
    double residual = 0;
    check(VecNorm(product, NORM_2, &residual));
    EXPECT_LT(reached("residual of an eigenvector", residual / size), 1.01 * tolerance);
  }
}

TEST_P(SpectraOverRanks, ends_of_an_indefinite_matrix_are_those_of_one_rank) {
  for (const int size : {1, 3, 90}) {
    const MatrixXd h = symmetric_matrix(size, 4);
    const int count = std::min(size, 6);
    const EigenRequest request{.largest = count, .smallest = count, .tolerance = 1e-11};
    const auto found = EigenSolver(MPI_COMM_WORLD).solve(spread_out(h), request);
    const auto alone = EigenSolver(MPI_COMM_SELF).solve(spread(MPI_COMM_SELF, h), request);
    const double near = 2 * request.tolerance * alone.norm;
    EXPECT_THAT(found.largest.values, Pointwise(DoubleNear(near), alone.largest.values));
    EXPECT_THAT(found.smallest.values, Pointwise(DoubleNear(near), alone.smallest.values));
    EXPECT_NEAR(found.norm, alone.norm, near);
  }
}

TEST_P(SpectraOverRanks, quadratures_are_those_of_one_rank) {
  for (const int size : {1, 3, 90}) {
    const MatrixXd h = symmetric_matrix(size, 5);
    const double norm = eigenvalues(h).cwiseAbs().maxCoeff();
    for (const auto kind : {Probe::rademacher, Probe::gaussian}) {
      // Few steps: round-off grows with the number of steps, as in any Lanczos recurrence.
      const DensitySettings settings{.probes = 3, .steps = 10, .kind = kind};
      const auto found = spectral_density(spread_out(h), settings);
      const auto alone = spectral_density(spread(MPI_COMM_SELF, h), settings);
      for (std::size_t k = 0; k < alone.size(); ++k) {
        EXPECT_THAT(found[k].nodes, Pointwise(DoubleNear(1e-11 * norm), alone[k].nodes)) << size;
        EXPECT_THAT(found[k].weights, Pointwise(DoubleNear(1e-11), alone[k].weights)) << size;
      }
    }
  }
}

TEST_P(SpectraOverRanks, traces_and_norms_are_those_of_one_rank) {
  const MatrixXd h = symmetric_matrix(70, 6);
  const MatHandle matrix = spread_out(h), one = spread(MPI_COMM_SELF, h);
  const double scale = h.squaredNorm();
  const auto near = [&](double found, double alone) {
    EXPECT_LT(reached("estimate against one rank", std::abs(found - alone) / scale), 1e-13);
  };
  const TraceSettings settings{.sketch = 8, .probes = 5};
  const auto found = hutch_plus_plus(matrix, settings), alone = hutch_plus_plus(one, settings);
  near(found.captured, alone.captured);
  near(found.trace(), alone.trace());
  near(found.rest.standard_error, alone.rest.standard_error);

  const std::vector<Block> blocks = {{{0, 3}, {10, 70}}, {{3, 10}}, {{69, 70}}};
  const auto estimates = hutchinson(matrix, blocks, {.probes = 4}),
             its = hutchinson(one, blocks, {.probes = 4});
  near(estimates.frobenius_squared.mean, its.frobenius_squared.mean);
  const auto norms = block_norms(matrix, blocks, {.probes = 2}),
             theirs = block_norms(one, blocks, {.probes = 2});
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    near(estimates.block_traces[b].mean, its.block_traces[b].mean);
    near(norms.traces[b].mean, theirs.traces[b].mean);
    for (std::size_t c = 0; c < blocks.size(); ++c)
      near(norms.frobenius_squared[b][c].mean, theirs.frobenius_squared[b][c].mean);
  }
}

TEST_P(SpectraOverRanks, restricted_and_preconditioned_operators_are_those_of_one_rank) {
  const MatrixXd h = symmetric_matrix(23, 7);
  const MatHandle matrix = spread_out(h);
  const std::vector<int> indices = {2, 3, 4, 11, 20, 21, 22};
  EXPECT_EQ(whole(restricted(matrix, {{2, 5}, {11, 12}, {20, 23}})), h(indices, indices));
  EXPECT_EQ(whole(restricted(matrix, {{11, 12}})), h.block(11, 11, 1, 1));
  const VectorXd d = counting(23);
  const PreconditionedOperator scaled(matrix, spread(matrix, d));
  const VectorXd s = d.cwiseSqrt().cwiseInverse();
  const MatrixXd expected = s.asDiagonal() * h * s.asDiagonal();
  EXPECT_LT((whole(scaled.get()) - expected).norm(), 1e-14 * expected.norm());
  // Only one rank sees the bad entry, all throw.
  EXPECT_THROW(PreconditionedOperator(matrix, spread(matrix, VectorXd(d.array() - 23))), BadInput);
}

INSTANTIATE_TEST_SUITE_P(Layouts, SpectraOverRanks,
                         testing::Values(Rows::everywhere, Rows::on_every_other_rank), [](const auto& rows) {
                           return rows.param == Rows::everywhere ? "everywhere" : "on_every_other_rank";
                         });

TEST(ReplicatedOperatorOverRanks, shares_a_product_of_whole_vectors) {
  constexpr int size = 40;
  const MatrixXd h = symmetric_matrix(size, 8);
  const int ranks = size_of(MPI_COMM_WORLD);
  // As a Hessian over samples: each rank adds its part of the sum.
  const ReplicatedOperator matrix(
      MPI_COMM_WORLD, size, [&](std::span<const double> in, std::span<double> out) {
        const VectorXd part = h * Eigen::Map<const VectorXd>(in.data(), size) / ranks;
        const auto sum = sum_over(MPI_COMM_WORLD, std::vector<double>(part.data(), part.data() + size));
        std::ranges::copy(sum, out.begin());
      });
  EXPECT_LT((whole(matrix.get()) - h).norm(), 1e-14 * h.norm());
  const EigenRequest request{.largest = 3, .smallest = 3, .tolerance = 1e-11};
  const VectorXd spectrum = eigenvalues(h);
  const auto found = EigenSolver(MPI_COMM_WORLD).solve(matrix.get(), request);
  for (int i = 0; i < 3; ++i) {
    EXPECT_NEAR(found.largest.values[static_cast<std::size_t>(i)], spectrum(size - 1 - i), 1e-9);
    EXPECT_NEAR(found.smallest.values[static_cast<std::size_t>(i)], spectrum(i), 1e-9);
  }
}

}  // namespace
}  // namespace fluxformer::spectra::spectra_do_not_depend_on_ranks
