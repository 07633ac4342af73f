// Products with the Hessian of a training and its Gauss-Newton part, and their largest eigenvalues, are the
// same on every split of the ranks over samples and tokens.

#include <gtest/gtest.h>

#include "solvers/spectra/eigenvalues.hpp"
#include "solvers/spectra/symmetric_operator.hpp"
#include "tests/support/classifier_hessian.hpp"

namespace fluxformer {
namespace {

using namespace test;

TEST(TrainingHessian, is_the_same_on_any_number_of_ranks_over_samples_and_tokens) {
  for (const auto& c : small_classifiers()) {
    if (c.model.vocabulary > 0) continue;
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
                                             [&](std::span<const double> in, std::span<double> out) {
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

}  // namespace
}  // namespace fluxformer
