// Products with the Hessian of a training and its Gauss-Newton part, and their largest eigenvalues, are the
// same on every split of the ranks over samples and tokens.
// Ranks: 1 2 3 4.

#include <gtest/gtest.h>

#include "analysis/hessian/gauss_newton_gram.hpp"
#include "solvers/spectra/eigenvalues.hpp"
#include "solvers/spectra/symmetric_operator.hpp"
#include "tests/support/classifier_hessian.hpp"
#include "tests/support/small_word_models.hpp"
#include "tests/support/symmetric_matrix.hpp"

namespace fluxformer::training_hessian_does_not_depend_on_ranks {
namespace {

using namespace test;

TEST(TrainingHessian, is_the_same_on_any_number_of_ranks_over_samples_and_tokens) {
  auto models = small_classifiers();
  for (const auto& of_words : small_word_models()) models.push_back(of_words);
  for (const auto& c : models) {
    ClassifierHessian alone(MPI_COMM_SELF, 1, c);
    const auto v = random_vector(alone.hessian.size(), 3);
    for (const int ranks_token : every_token_split(MPI_COMM_WORLD, SmallClassifier::tokens_x)) {
      ClassifierHessian together(MPI_COMM_WORLD, ranks_token, c);
      const auto here = c.name + ", ranks over tokens " + std::to_string(ranks_token);
      EXPECT_NEAR(together.hessian.evaluation().loss, alone.hessian.evaluation().loss, 1e-13) << here;
      EXPECT_LT(relative_difference(together.hessian.gradient(), alone.hessian.gradient()), 1e-12) << here;
      // Sums over samples and tokens in another order.
      for (const auto part : {Curvature::hessian, Curvature::gauss_newton})
        EXPECT_LT(relative_difference(together.product(part, v), alone.product(part, v)), 1e-12) << here;
    }
  }
}

TEST(TrainingHessian, has_the_same_largest_eigenvalues_on_any_number_of_ranks) {
  const auto c = small_classifiers().front();
  const auto largest = [&](MPI_Comm comm) {
    ClassifierHessian of(comm, 1, c);
    const spectra::ReplicatedOperator matrix(comm, static_cast<PetscInt>(of.hessian.size()),
                                             [&](std::span<double> in, std::span<double> out) {
                                               of.hessian.multiply(Curvature::hessian, in, out);
                                             });
    return spectra::EigenSolver(comm).solve(matrix.get(), {.largest = 3, .smallest = 3});
  };
  const auto alone = largest(MPI_COMM_SELF), together = largest(MPI_COMM_WORLD);
  ASSERT_TRUE(together.largest.complete() && together.smallest.complete());
  for (std::size_t k = 0; k < 3; ++k) {
    EXPECT_NEAR(together.largest.values[k], alone.largest.values[k], 1e-8 * alone.norm);
    EXPECT_NEAR(together.smallest.values[k], alone.smallest.values[k], 1e-8 * alone.norm);
  }
}

/// H_o as a dense matrix, by products.
Eigen::MatrixXd dense(ClassifierHessian& of) {
  const std::size_t size = of.hessian.size();
  Eigen::MatrixXd matrix(size, size);
  std::vector<double> unit(size, 0.0);
  for (std::size_t j = 0; j < size; ++j) {
    unit[j] = 1;
    const auto column = of.product(Curvature::gauss_newton, unit);
    matrix.col(static_cast<Eigen::Index>(j)) =
        Eigen::Map<const Eigen::VectorXd>(column.data(), static_cast<Eigen::Index>(size));
    unit[j] = 0;
  }
  return matrix;
}

TEST(GaussNewtonGram, has_the_spectrum_and_the_blocks_of_the_gauss_newton_matrix_on_any_number_of_ranks) {
  for (const auto& c : small_classifiers()) {
    if (c.name != "post" && c.name != "pde") continue;
    ClassifierHessian alone(MPI_COMM_SELF, 1, c);
    const Eigen::MatrixXd matrix = dense(alone);
    const auto size = static_cast<PetscInt>(matrix.rows());
    const std::vector<spectra::Block> blocks{{{3, 40}}, {{50, 60}, {size - 20, size}}};
    const auto part = [&](const spectra::Block& a, const spectra::Block& b) {
      double sum = 0;
      for (const auto& rows : a)
        for (const auto& columns : b)
          sum += matrix.block(rows.begin, columns.begin, rows.end - rows.begin, columns.end - columns.begin)
                     .squaredNorm();
      return std::sqrt(sum);
    };
    const Eigen::VectorXd exact = eigenvalues(matrix).reverse();
    for (const int ranks_token : every_token_split(MPI_COMM_WORLD, SmallClassifier::tokens_x)) {
      ClassifierHessian together(MPI_COMM_WORLD, ranks_token, c);
      const hessian::GaussNewtonGram gram(together.hessian, MPI_COMM_WORLD,
                                          together.run.context.line->comm());
      const auto found = hessian::gram_spectra(gram, size, blocks, {});
      ASSERT_EQ(gram.outputs(), 13 * SmallClassifier::classes);
      // Round-off of sums over samples and tokens in another order.
      const double tolerance = 1e-12 * exact[0];
      for (std::size_t k = 0; k < found.eigenvalues.size(); ++k)
        EXPECT_NEAR(found.eigenvalues[k], exact[static_cast<Eigen::Index>(k)], tolerance)
            << c.name << ' ' << k;
      EXPECT_NEAR(found.trace, matrix.trace(), 1e-12 * matrix.trace()) << c.name;
      EXPECT_NEAR(found.frobenius, matrix.norm(), 1e-12 * matrix.norm()) << c.name;
      for (std::size_t a = 0; a < 2; ++a)
        for (std::size_t b = 0; b < 2; ++b)
          EXPECT_NEAR(found.block_norms[a][b], part(blocks[a], blocks[b]), tolerance) << c.name;
      EXPECT_NEAR(found.block_traces[0], matrix.diagonal().segment(3, 37).sum(), tolerance) << c.name;
      EXPECT_NEAR(found.block_largest[0], eigenvalues(matrix.block(3, 3, 37, 37))[36], tolerance) << c.name;
    }
  }
}

}  // namespace
}  // namespace fluxformer::training_hessian_does_not_depend_on_ranks
