// Influence on a convex head against fits with other weights and without samples.

#include "analysis/influence/convex_head.hpp"

#include <gtest/gtest.h>

#include <Eigen/Cholesky>
#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "tests/support/test_vectors.hpp"

namespace fluxformer::influence {
namespace {

constexpr int classes = 3, features = 4;

/// Gaussian clouds of the classes, which overlap.
LabelledFeatures clouds(Index count, unsigned seed) {
  const auto numbers = test::random_vector(static_cast<std::size_t>(count * features), seed);
  LabelledFeatures all{Eigen::Map<const RowMatrix>(numbers.data(), count, features), {}};
  for (Index i = 0; i < count; ++i) {
    const int label = static_cast<int>(i % classes);
    all.features(i, label) += 1;
    all.labels.push_back(label);
  }
  return all;
}

ConvexHead head_of(Index count) {
  return {clouds(count, 3), classes, 1e-2};
}

TEST(ConvexHead, gradient_is_zero_at_the_fit) {
  const auto head = head_of(60);
  const RowMatrix mean = head.gradients(clouds(60, 3)).colwise().mean();
  const Eigen::Map<const Eigen::RowVectorXd> weights(head.weights().data(), head.variables());
  // Sums of 60 numbers of order 1.
  EXPECT_LT((mean + 1e-2 * weights).norm(), 1e-13);
  EXPECT_LT(head.gradient_norm(), 1e-13);
}

// Central differences of step e have an error of order e^2 and round-off of 1e-16 / e.
TEST(ConvexHead, gradients_and_hessian_are_derivatives_of_the_losses) {
  const auto head = head_of(20);
  const auto samples = clouds(20, 3);
  const RowMatrix g = head.gradients(samples);
  const double e = 1e-5;
  for (Index k = 0; k < head.variables(); ++k) {
    RowMatrix forward = head.weights(), backward = head.weights();
    forward.data()[k] += e;
    backward.data()[k] -= e;
    const auto up = head.losses_at(forward, samples), down = head.losses_at(backward, samples),
               here = head.losses(samples);
    double second = 0;
    for (Index i = 0; i < 20; ++i) {
      EXPECT_NEAR((up[i] - down[i]) / (2 * e), g(i, k), 1e-9);
      second += (up[i] + down[i] - 2 * here[i]) / (e * e) / 20;
    }
    EXPECT_NEAR(second + 1e-2, head.hessian()(k, k), 1e-4);
  }
  // The whole Hessian by the influence of a sample on itself: -g H^{-1} g.
  const Eigen::VectorXd solved = head.hessian().llt().solve(g.row(5).transpose());
  EXPECT_NEAR(head.influence(samples)(5, 5), -g.row(5).dot(solved), 1e-12);
  EXPECT_NEAR(head.self_influence()[5], g.row(5).dot(solved), 1e-12);
}

TEST(ConvexHead, influence_is_the_slope_of_a_loss_in_the_weight_of_a_sample) {
  const auto head = head_of(30);
  const auto test = clouds(4, 17);
  const RowMatrix influence = head.influence(test);
  const auto before = head.losses(test);
  for (const Index sample : {0, 7}) {
    const auto remainder = [&](double eps) {
      const auto after = head.losses_at(head.with_weight(sample, eps), test);
      double sum = 0;
      for (int t = 0; t < 4; ++t) sum += std::pow(after[t] - before[t] - eps * influence(t, sample), 2);
      return std::sqrt(sum);
    };
    // The remainder has the order eps^2: 1e-8 here, far above the 1e-13 of the fits.
    EXPECT_NEAR(std::log2(remainder(2e-4) / remainder(1e-4)), 2, 0.02);
  }
}

TEST(ConvexHead, newton_step_is_nearer_to_training_again_than_first_order) {
  const auto head = head_of(30);
  const auto test = clouds(10, 17);
  const RowMatrix influence = head.influence(test);
  double first = 0, newton = 0, size = 0;
  for (Index sample = 0; sample < 30; ++sample) {
    const auto truth = head.retrained_without({sample}, test);
    const auto linear = head.change_without({sample}, test, Removal::first),
               step = head.change_without({sample}, test, Removal::newton);
    for (std::size_t t = 0; t < truth.size(); ++t) {
      first += std::pow(linear[t] - truth[t], 2);
      newton += std::pow(step[t] - truth[t], 2);
      size += std::pow(truth[t], 2);
      EXPECT_NEAR(linear[t], -influence(static_cast<Index>(t), sample) / 30, 1e-14);
    }
  }
  EXPECT_LT(newton, first / 4);
  EXPECT_LT(newton / size, 0.04);
}

TEST(ConvexHead, left_out_samples_are_those_that_a_fit_without_them_never_saw) {
  // With the divisor of the larger set and a ridge that is scaled alike the minimum is the same.
  const auto all = clouds(30, 3);
  const ConvexHead whole(all, classes, 1e-2);
  const LabelledFeatures less{all.features.topRows(27), {all.labels.begin(), all.labels.begin() + 27}};
  const ConvexHead part(less, classes, 1e-2 * 30 / 27);
  const auto test = clouds(6, 17);
  const auto change = whole.retrained_without({27, 28, 29}, test);
  const auto before = whole.losses(test), after = part.losses(test);
  for (std::size_t t = 0; t < 6; ++t) EXPECT_NEAR(change[t], after[t] - before[t], 1e-11);
}

double error_of(const RowMatrix& one, const RowMatrix& other) {
  return (one - other).norm() / other.norm();
}

TEST(ConvexHead, curvatures_are_exact_where_they_must_be) {
  const auto test = clouds(4, 17);
  const auto head = head_of(30);
  const RowMatrix exact = head.influence(test), train = head.gradients(clouds(30, 3));
  // All eigenvalues; the condition number is some hundred.
  EXPECT_LT(error_of(head.influence(test, HeadCurvature::truncated, head.variables()), exact), 1e-11);
  double last = 2;
  for (const Index kept : {3, 8, 12}) {
    const double now = error_of(head.influence(test, HeadCurvature::truncated, kept), exact);
    EXPECT_LT(now, last);
    last = now;
  }
  EXPECT_LT(
      error_of(head.influence(test, HeadCurvature::identity), -head.gradients(test) * train.transpose()),
      1e-14);
  // One sample: the curvature is a Kronecker product.
  const ConvexHead lone(clouds(1, 3), classes, 1e-2);
  for (const auto by : {HeadCurvature::kfac, HeadCurvature::ekfac})
    EXPECT_LT(error_of(lone.influence(test, by), lone.influence(test)), 1e-10);
  // Approximations that are not exact here.
  for (const auto by :
       {HeadCurvature::diagonal, HeadCurvature::classes, HeadCurvature::kfac, HeadCurvature::ekfac}) {
    const double off = error_of(head.influence(test, by), exact);
    EXPECT_GT(off, 1e-3);
    EXPECT_LT(off, 3);
  }
  // The blocks of the classes alone.
  const Eigen::MatrixXd h = head.hessian();
  Eigen::MatrixXd blocks = Eigen::MatrixXd::Zero(h.rows(), h.cols());
  for (int c = 0; c < classes; ++c) {
    const Index begin = c * (features + 1), count = features + 1;
    blocks.block(begin, begin, count, count) = h.block(begin, begin, count, count);
  }
  const RowMatrix expected = -head.gradients(test) * blocks.llt().solve(train.transpose());
  EXPECT_LT(error_of(head.influence(test, HeadCurvature::classes), expected), 1e-12);
}

TEST(ConvexHead, refuses_what_has_no_minimum) {
  EXPECT_THROW(ConvexHead(clouds(6, 3), classes, 0), BadInput);
  EXPECT_THROW(ConvexHead(clouds(6, 3), 2, 1e-3), BadInput);
}

}  // namespace
}  // namespace fluxformer::influence
