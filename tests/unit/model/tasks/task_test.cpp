// Losses of one sample: values by hand, gradients and curvature by differences.

#include "model/tasks/task.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/error.hpp"

namespace fluxformer {
namespace {

const Loss entropy{LossKind::cross_entropy, 0}, smooth{LossKind::cross_entropy, 0.1},
    squares{LossKind::mean_squared_error, 0}, smooth_squares{LossKind::mean_squared_error, 0.3};
constexpr double round_off = 1e-15;

double value(const Loss& loss, const std::vector<double>& z, int label) {
  return loss_of(loss, z.data(), static_cast<int>(z.size()), label, 1, nullptr);
}

std::vector<double> gradient(const Loss& loss, const std::vector<double>& z, int label, double weight) {
  std::vector<double> bar(z.size(), 7.0);
  loss_of(loss, z.data(), static_cast<int>(z.size()), label, weight, bar.data());
  return bar;
}

TEST(CrossEntropy, is_minus_the_logarithm_of_the_share_of_the_label) {
  EXPECT_DOUBLE_EQ(value(entropy, {0, 0}, 0), std::log(2));
  // Shares 1/8, 2/8, 5/8.
  const std::vector<double> z{std::log(1), std::log(2), std::log(5)};
  EXPECT_DOUBLE_EQ(value(entropy, z, 0), std::log(8));
  EXPECT_DOUBLE_EQ(value(entropy, z, 1), std::log(4));
  EXPECT_DOUBLE_EQ(value(entropy, z, 2), std::log(1.6));
}

TEST(CrossEntropy, of_equal_logits_is_the_logarithm_of_their_number) {
  for (const std::size_t classes : {2U, 3U, 1000U, 49152U})
    for (const double z : {0.0, 0.7, -3.0}) {
      const double expected = std::log(static_cast<double>(classes));
      // A few roundings of numbers up to |z| + ln C.
      EXPECT_NEAR(value(entropy, std::vector<double>(classes, z), 1), expected, 1e-14 * expected) << classes;
    }
}

TEST(CrossEntropy, with_smoothing_looks_at_every_class) {
  // q = (1/30, 1/30, 28/30): log(e + e^2 + e^3) - (1 + 2 + 84) / 30.
  const double e = std::exp(1.0);
  EXPECT_NEAR(value(smooth, {1, 2, 3}, 2), std::log(e + e * e + e * e * e) - 2.9, 4 * round_off);
  // Two classes with shares 1/4 and 3/4, q = (0.95, 0.05).
  EXPECT_NEAR(value(smooth, {0, std::log(3)}, 0), 0.95 * std::log(4) + 0.05 * std::log(4.0 / 3),
              4 * round_off);
}

TEST(CrossEntropy, takes_logits_of_any_size) {
  EXPECT_DOUBLE_EQ(value(entropy, {1000, 0}, 1), 1000);
  EXPECT_DOUBLE_EQ(value(entropy, {-1000, 0}, 1), 0);
  // Sure of the wrong class: the gradient is -1 and 1, without infinities on the way.
  EXPECT_THAT(gradient(entropy, {1000, 0}, 1, 1), testing::ElementsAre(1, -1));
}

TEST(MeanSquaredError, is_the_mean_over_the_classes) {
  EXPECT_DOUBLE_EQ(value(squares, {1, 0, 0}, 1), 2.0 / 3);
  EXPECT_DOUBLE_EQ(value(squares, {0, 1, 0, 0}, 1), 0);
  // Smoothed by 0.3 over 3 classes the target is (0.1, 0.8, 0.1).
  EXPECT_NEAR(value(smooth_squares, {0.1, 0.8, 0.4}, 1), 0.03, round_off);
}

TEST(EveryLoss, has_the_gradient_of_its_differences_times_the_weight) {
  const std::vector<double> z{0.3, -1.2, 0.7, 2.1};
  constexpr double weight = 0.37;
  // Central differences: step^2 times third derivatives below 1, and round-off over the step.
  constexpr double step = 1e-5, tolerance = step * step + 1e-15 / step;
  for (const auto& loss : {entropy, smooth, squares, smooth_squares})
    for (const int label : {0, 3}) {
      const auto bar = gradient(loss, z, label, weight);
      for (std::size_t c = 0; c < z.size(); ++c) {
        auto up = z, down = z;
        up[c] += step;
        down[c] -= step;
        EXPECT_NEAR(bar[c], weight * (value(loss, up, label) - value(loss, down, label)) / (2 * step),
                    tolerance);
      }
    }
}

TEST(EveryLoss, has_a_factor_of_its_curvature) {
  // B B^T against central differences of the gradient, as above.
  const std::vector<double> z{0.3, -1.2, 0.7, 2.1};
  constexpr double weight = 0.37, step = 1e-5, tolerance = step * step + 1e-15 / step;
  const auto classes = static_cast<int>(z.size());
  for (const auto& loss : {entropy, smooth, squares, smooth_squares}) {
    std::vector<std::vector<double>> factor;  // its columns
    for (int c = 0; c < classes; ++c)
      loss_curvature_factor(loss, z.data(), classes, weight, c, factor.emplace_back(z.size(), 7.0).data());
    for (std::size_t a = 0; a < z.size(); ++a) {
      auto up = z, down = z;
      up[a] += step;
      down[a] -= step;
      const auto above = gradient(loss, up, 1, weight), below = gradient(loss, down, 1, weight);
      for (std::size_t b = 0; b < z.size(); ++b) {
        double product = 0;
        for (const auto& column : factor) product += column[a] * column[b];
        EXPECT_NEAR(product, (above[b] - below[b]) / (2 * step), tolerance);
      }
    }
  }
}

TEST(CrossEntropy, has_a_factor_of_its_curvature_for_logits_of_any_size) {
  // Shares 1/4 and 3/4 with the weight 2: 2 p (1 - p) = 3/8 on the diagonal, minus that beside it.
  const double far[] = {1000, 1000 + std::log(3)}, sure[] = {1000, 0};
  double first[2], second[2];
  loss_curvature_factor(smooth, far, 2, 2, 0, first);
  loss_curvature_factor(smooth, far, 2, 2, 1, second);
  // Logits of size 1000 have 1e-13.
  EXPECT_NEAR(first[0] * first[0] + second[0] * second[0], 3.0 / 8, 1e-13);
  EXPECT_NEAR(first[0] * first[1] + second[0] * second[1], -3.0 / 8, 1e-13);
  for (const int c : {0, 1}) {
    loss_curvature_factor(entropy, sure, 2, 1, c, first);
    EXPECT_THAT(first, testing::Each(0));
  }
}

TEST(EveryLoss, ignores_the_weight_in_its_value) {
  const double z[] = {0.5, -0.5};
  double bar[2];
  EXPECT_EQ(loss_of(smooth, z, 2, 1, 0.25, bar), loss_of(smooth, z, 2, 1, 4, nullptr));
}

TEST(EveryLoss, of_a_filler_pulls_at_nothing) {
  for (const auto& loss : {entropy, smooth, squares})
    EXPECT_THAT(gradient(loss, {0.3, -1.2}, 1, 0), testing::Each(0));
}

TEST(MostLikely, is_the_first_of_equals) {
  const double z[] = {0, 2, 2, 1};
  EXPECT_EQ(most_likely(z, 4), 1);
  EXPECT_EQ(most_likely(z, 1), 0);
}

TEST(MostLikely, is_none_where_a_logit_is_no_number) {
  const double z[] = {std::nan(""), 1, 0}, y[] = {1, 0, std::nan("")};
  EXPECT_EQ(most_likely(z, 3), -1);
  EXPECT_EQ(most_likely(y, 3), -1);
}

TEST(LossKind, is_named_or_refused) {
  EXPECT_EQ(loss_kind("cross_entropy"), LossKind::cross_entropy);
  EXPECT_EQ(loss_kind("mean_squared_error"), LossKind::mean_squared_error);
  try {
    loss_kind("hinge");
    FAIL();
  } catch (const BadInput& error) {
    EXPECT_THAT(error.what(),
                testing::AllOf(testing::HasSubstr("train.loss = hinge"), testing::HasSubstr("cross_entropy"),
                               testing::HasSubstr("mean_squared_error")));
  }
}

}  // namespace
}  // namespace fluxformer
