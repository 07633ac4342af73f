// Estimates by random probes against the matrix itself, with the errors that theory gives them.

#include "solvers/spectra/trace.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.hpp"
#include "tests/support/reached.hpp"
#include "tests/support/symmetric_matrix.hpp"

namespace fluxformer::spectra {
namespace {

using namespace test;
using Eigen::MatrixXd;
using Eigen::VectorXd;
using testing::Each;
using testing::SizeIs;

/// Variance of v^T M v with Rademacher v: 2 (||M||_F^2 - sum M_ii^2).
double variance(const MatrixXd& m) {
  return 2 * (m.squaredNorm() - m.diagonal().squaredNorm());
}

TEST(HutchPlusPlus, is_exact_for_a_rank_up_to_the_sketch) {
  VectorXd values = VectorXd::Zero(40);
  values.head(5) << 7, -3, 2, 1, 0.5;
  const MatHandle h = spread(MPI_COMM_SELF, with_spectrum(values, 2));
  for (const int sketch : {5, 6, 12}) {
    const auto found = hutch_plus_plus(h, {.sketch = sketch, .probes = 3});
    EXPECT_NEAR(found.trace(), 7.5, 1e-12) << sketch;
    EXPECT_NEAR(found.captured, 7.5, 1e-12) << sketch;
    EXPECT_LT(found.rest.standard_error, 1e-12) << sketch;
  }
  EXPECT_GT(hutch_plus_plus(h, {.sketch = 4, .probes = 3}).rest.standard_error, 1e-3);
}

TEST(HutchPlusPlus, is_exact_for_a_sketch_as_large_as_the_matrix) {
  for (const int size : {1, 2, 9}) {
    const MatrixXd h = symmetric_matrix(size, 3);
    for (const int more : {0, 5}) {
      const auto found = hutch_plus_plus(spread(MPI_COMM_SELF, h), {.sketch = size + more, .probes = 2});
      EXPECT_NEAR(found.trace(), h.trace(), 1e-13 * size);
    }
  }
  const auto zero = hutch_plus_plus(spread(MPI_COMM_SELF, MatrixXd::Zero(6, 6)), {});
  EXPECT_EQ(zero.trace(), 0);
  EXPECT_EQ(zero.rest.standard_error, 0);
}

TEST(HutchPlusPlus, is_within_its_error_and_has_less_of_it_than_plain_probes) {
  VectorXd values(80);
  for (int i = 0; i < 80; ++i) values(i) = (i % 3 == 0 ? -1 : 1) * std::pow(i + 1.0, -1.5);
  const MatHandle h = spread(MPI_COMM_SELF, with_spectrum(values, 4));
  const TraceSettings settings{.sketch = 15, .probes = 200};
  const auto found = hutch_plus_plus(h, settings);
  EXPECT_THAT(found.rest.samples, SizeIs(200));
  EXPECT_LT(std::abs(found.trace() - values.sum()), 4 * found.rest.standard_error);
  const auto plain = hutch_plus_plus(h, {.sketch = 0, .probes = 200});
  EXPECT_EQ(plain.captured, 0);
  EXPECT_LT(std::abs(plain.trace() - values.sum()), 4 * plain.rest.standard_error);
  // Without a sketch, the error is known; of 200 samples it is good to 1 / sqrt(400), times a little for long
  // tails.
  EXPECT_NEAR(plain.rest.standard_error / std::sqrt(variance(whole(h)) / 200), 1, 0.25);
  EXPECT_LT(found.rest.standard_error, plain.rest.standard_error / 5);
}

TEST(FrobeniusNorm, is_within_four_standard_errors_and_they_are_those_of_theory) {
  const MatrixXd h = symmetric_matrix(60, 5);
  constexpr int probes = 400;
  const auto found = hutchinson(spread(MPI_COMM_SELF, h), {}, {.probes = probes}).frobenius_squared;
  ASSERT_THAT(found.samples, SizeIs(probes));
  const double theory = std::sqrt(variance(h * h) / probes);
  EXPECT_LT(reached("(mean - ||H||_F^2) / standard error", std::abs(found.mean - h.squaredNorm()) / theory),
            4);
  // The error of an error from 400 samples: 1 / sqrt(800), times a little for long tails.
  EXPECT_NEAR(found.standard_error / theory, 1, 0.2);
}

TEST(BlockTraces, of_a_diagonal_matrix_are_exact_and_others_within_their_errors) {
  const std::vector<Block> blocks = {{{0, 7}}, {{7, 8}, {20, 40}}, {{0, 60}}, {{59, 60}}};
  const auto trace_of = [](const MatrixXd& h, const Block& block) {
    double sum = 0;
    for (const auto& [begin, end] : block) sum += h.diagonal().segment(begin, end - begin).sum();
    return sum;
  };
  const MatrixXd diagonal = counting(60).asDiagonal(), full = symmetric_matrix(60, 6);
  const auto exact = hutchinson(spread(MPI_COMM_SELF, diagonal), blocks, {.probes = 2});
  const auto found = hutchinson(spread(MPI_COMM_SELF, full), blocks, {.probes = 300});
  ASSERT_THAT(exact.block_traces, SizeIs(blocks.size()));
  ASSERT_THAT(found.block_traces, SizeIs(blocks.size()));
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    EXPECT_NEAR(exact.block_traces[b].mean, trace_of(diagonal, blocks[b]), 1e-12);
    EXPECT_EQ(exact.block_traces[b].standard_error, 0);
    const auto& one = found.block_traces[b];
    EXPECT_LT(std::abs(one.mean - trace_of(full, blocks[b])), 4 * one.standard_error) << b;
    EXPECT_THAT(one.samples, SizeIs(300));
  }
}

TEST(BlockNorms, are_those_of_the_blocks_within_their_errors) {
  const MatrixXd h = symmetric_matrix(30, 7);
  const std::vector<Block> blocks = {{{0, 4}}, {{4, 20}}, {{20, 30}}};
  const auto found = block_norms(spread(MPI_COMM_SELF, h), blocks, {.probes = 300});
  for (std::size_t r = 0; r < 3; ++r) {
    const auto rows = blocks[r][0];
    for (std::size_t c = 0; c < 3; ++c) {
      const auto columns = blocks[c][0];
      const MatrixXd part =
          h.block(rows.begin, columns.begin, rows.end - rows.begin, columns.end - columns.begin);
      const auto& norm = found.frobenius_squared[r][c];
      const double error = std::sqrt(variance(part.transpose() * part) / 300);
      EXPECT_LT(std::abs(norm.mean - part.squaredNorm()), 4 * error) << r << ' ' << c;
      EXPECT_NEAR(norm.standard_error / error, 1, 0.3) << r << ' ' << c;
      if (r == c) {
        const auto& trace = found.traces[c];
        EXPECT_LT(std::abs(trace.mean - part.trace()), 4 * std::sqrt(variance(part) / 300)) << c;
      }
    }
  }
}

TEST(BlockNorms, of_single_columns_are_exact) {
  const MatrixXd h = symmetric_matrix(3, 8);
  const std::vector<Block> blocks = {{{0, 1}}, {{1, 2}}, {{2, 3}}};
  const auto found = block_norms(spread(MPI_COMM_SELF, h), blocks, {.probes = 2});
  for (int r = 0; r < 3; ++r)
    for (int c = 0; c < 3; ++c) EXPECT_NEAR(found.frobenius_squared[r][c].mean, h(r, c) * h(r, c), 1e-14);
}

TEST(Traces, refuse_fewer_than_two_probes_blocks_outside_and_products_that_are_not_finite) {
  const auto spoilt = [] {
    MatrixXd h = symmetric_matrix(5, 1);
    h(4, 4) = std::numeric_limits<double>::quiet_NaN();
    return spread(MPI_COMM_SELF, h);
  }();
  const MatHandle h = spread(MPI_COMM_SELF, symmetric_matrix(5, 1));
  EXPECT_THROW(hutch_plus_plus(h, {.probes = 1}), BadInput);
  EXPECT_THROW(hutch_plus_plus(h, {.sketch = -1}), BadInput);
  EXPECT_THROW(hutchinson(h, {}, {.probes = 1}), BadInput);
  for (const Block& bad : {Block{}, Block{{0, 6}}, Block{{-1, 2}}, Block{{2, 2}}, Block{{2, 4}, {3, 5}},
                           Block{{3, 4}, {0, 1}}}) {
    const std::vector<Block> blocks = {{{0, 5}}, bad};
    EXPECT_THROW(hutchinson(h, blocks, {}), BadInput);
    EXPECT_THROW(block_norms(h, blocks, {}), BadInput);
  }
  EXPECT_THROW(hutch_plus_plus(spoilt, {}), NumericalFailure);
  EXPECT_THROW(hutch_plus_plus(spoilt, {.sketch = 0}), NumericalFailure);
  EXPECT_THROW(hutchinson(spoilt, {}, {}), NumericalFailure);
}

}  // namespace
}  // namespace fluxformer::spectra
