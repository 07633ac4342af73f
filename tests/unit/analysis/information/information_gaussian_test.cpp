// The Gaussian closed form: pure diffusion, shrinkage as published, classes against integrals.

#include <gtest/gtest.h>

#include <array>

#include "analysis/information/information.hpp"
#include "base/error.hpp"
#include "tests/unit/analysis/information/information_samples.hpp"

namespace fluxformer::information {
namespace {

using namespace test;
using Eigen::MatrixXd;
using Eigen::VectorXd;

double channel(const MatrixXd& covariance, double sigma) {
  return gaussian_channel(covariance.data(), covariance.rows(), sigma);
}

TEST(Gaussian, information_under_pure_diffusion_falls_as_the_modes_decay) {
  // n = 64, alpha = kappa ds / dx^2 = 0.1, Neumann ends. Left: the covariance marched with the stencil.
  // Right: 1/2 sum_k ln(1 + s_k g_k^(2m) / sigma^2) with the cosine modes' g_k = 1 - 4 alpha sin^2(pi k /
  // 2n).
  constexpr int n = 64;
  constexpr double alpha = 0.1, sigma = 0.3;
  MatrixXd step = MatrixXd::Identity(n, n), modes(n, n);
  for (int i = 0; i + 1 < n; ++i) {
    step(i, i) -= alpha, step(i + 1, i + 1) -= alpha;
    step(i, i + 1) += alpha, step(i + 1, i) += alpha;
  }
  VectorXd variance(n), gain(n);
  for (int k = 0; k < n; ++k) {
    variance(k) = 2.0 / (1 + k % 7);
    const double sine = std::sin(std::numbers::pi * k / (2 * n));
    gain(k) = 1 - 4 * alpha * sine * sine;
    for (int i = 0; i < n; ++i)
      modes(i, k) = std::sqrt((k == 0 ? 1.0 : 2.0) / n) * std::cos(std::numbers::pi * k * (i + 0.5) / n);
  }
  MatrixXd covariance = product(modes * variance.asDiagonal(), modes.transpose());
  double before = HUGE_VAL;
  for (int m = 0; m <= 10; ++m) {
    double expected = 0;
    for (int k = 0; k < n; ++k)
      expected += 0.5 * std::log1p(variance(k) * std::pow(gain(k), 2 * m) / (sigma * sigma));
    const double found = channel(covariance, sigma);
    EXPECT_NEAR(found, expected, 1e-11 * expected) << m;
    EXPECT_LT(found, before) << m;
    before = found;
    covariance = product(product(step, covariance), step.transpose());
  }
}

TEST(Gaussian, channel_of_a_weak_signal_keeps_its_digits) {
  // 1/2 ln(1 + 1e-20) would be 0 from a determinant.
  EXPECT_NEAR(channel(MatrixXd::Constant(1, 1, 1e-20), 1) / 5e-21, 1, 1e-14);
  EXPECT_NEAR(channel(MatrixXd::Constant(1, 1, 3.0), 0.5), 0.5 * std::log(13), 1e-14);
  EXPECT_THROW(channel(MatrixXd::Identity(2, 2), 0), BadInput);
  EXPECT_THROW(gaussian_channel(nullptr, 0, 1), BadInput);
  EXPECT_THROW(channel(MatrixXd::Constant(1, 1, HUGE_VAL), 1), BadInput);
}

TEST(Gaussian, of_samples_approaches_the_truth) {
  // 5000 samples of three variances: deviation of the value 1/2 sqrt(2/N) sqrt(3) = 0.017.
  const Rows t = stretched(normal_rows(5000, 3, 1), {3, 1, 0.5});
  const std::vector<int> y(5000, 0);
  const auto found = gaussian_information(points_of(t), y, 0.5).input;
  EXPECT_NEAR(found.value, 0.5 * (std::log(37) + std::log(5) + std::log(2)), 5 * 0.017);
}

TEST(Gaussian, shrinks_as_ledoit_and_wolf_say) {
  // Their section 3 written out with its sums over samples; m / N not small.
  constexpr int n = 30, m = 8;
  const Rows t = normal_rows(n, m, 2) * VectorXd::LinSpaced(m, 0.5, 2).asDiagonal();
  const Rows x = (t.rowwise() - t.colwise().mean()).eval();
  const MatrixXd s = product(x.transpose(), x) / n, identity = MatrixXd::Identity(m, m);
  const double mu = s.trace() / m, d2 = (s - mu * identity).squaredNorm() / m;
  double b2 = 0;
  for (int k = 0; k < n; ++k) b2 += (x.row(k).transpose() * x.row(k) - s).squaredNorm() / m / n / n;
  b2 = std::min(b2, d2);
  const auto found = gaussian_information(points_of(t), std::vector<int>(n, 0), 0.7).input;
  EXPECT_GT(b2 / d2, 0.05);
  EXPECT_LT(b2 / d2, 0.95);
  EXPECT_NEAR(found.value, channel(b2 / d2 * mu * identity + (1 - b2 / d2) * s, 0.7), 1e-12);
}

TEST(Gaussian, shrinks_white_noise_of_few_samples_most_of_the_way) {
  // Fewer samples than components: half the eigenvalues of S are zero and the others twice too large, where
  // the truth is a multiple of the identity. What is left of that by 1 - delta < 0.2 costs less than 1/4 (1 -
  // delta)^2 m (m / N) / (1 + 1)^2 = 0.2.
  constexpr int n = 20, m = 40;
  const Rows t = normal_rows(n, m, 3);
  const Rows x = (t.rowwise() - t.colwise().mean()).eval();
  const MatrixXd s = product(x.transpose(), x) / n;
  const double white = 0.5 * m * std::log1p(s.trace() / m);
  const auto found = gaussian_information(points_of(t), std::vector<int>(n, 0), 1.0).input;
  EXPECT_NEAR(found.value, white, 0.2);
  EXPECT_LT(channel(s, 1.0), white - 2);
}

/// Samples on a line with exactly these means and variances by label.
struct TwoClasses {
  Rows t = Rows(4000, 1);
  std::vector<int> y;
  TwoClasses(const std::array<double, 2>& mean, const std::array<double, 2>& deviation) {
    for (int i = 0; i < 4000; ++i) {
      const auto label = static_cast<std::size_t>(i % 2);
      t(i, 0) = mean[label] + (i % 4 < 2 ? 1 : -1) * deviation[label];
      y.push_back(i % 2);
    }
  }
};

TEST(Gaussian, bounds_of_two_classes_enclose_the_integral) {
  const double sigma = 0.6;
  for (const double gap : {0.0, 0.5, 2.0, 5.0}) {
    for (const double wide : {0.5, 1.0, 3.0}) {
      const std::array<double, 2> mean{0, gap}, deviation{0.5, wide};
      const double s0 = std::hypot(0.5, sigma), s1 = std::hypot(wide, sigma);
      const double truth =
          entropy_on_line(
              [&](double x) { return 0.5 * (normal_density(x, 0, s0) + normal_density(x, gap, s1)); }, -40,
              45) -
          0.5 * (normal_entropy(s0) + normal_entropy(s1));
      const TwoClasses samples(mean, deviation);
      const auto found = gaussian_information(points_of(samples.t), samples.y, sigma).label;
      EXPECT_LE(*found.lower, truth + 1e-9) << gap << ' ' << wide;  // 1e-9: quadrature
      EXPECT_GE(*found.upper, truth - 1e-9) << gap << ' ' << wide;
      // Narrow enough to be useful: half of the trivial range 0 <= I <= ln 2.
      EXPECT_LE(*found.upper - *found.lower, 0.5 * std::log(2)) << gap << ' ' << wide;
    }
  }
}

TEST(Gaussian, bounds_of_two_equal_classes_have_their_closed_form) {
  // Two N(0 or g, v), v = s + sigma^2, equal shares: D_B = g^2 / 8v; from above ln 2, KL = g^2 / 2v, one
  // Gaussian.
  const double gap = 1.5, v = 0.25 + 0.36;
  const TwoClasses samples({0, gap}, {0.5, 0.5});
  const auto found = gaussian_information(points_of(samples.t), samples.y, 0.6).label;
  const auto bound = [](double distance) { return -std::log(0.5 * (1 + std::exp(-distance))); };
  const double upper = std::min(bound(gap * gap / (2 * v)), 0.5 * std::log1p(gap * gap / 4 / v));
  EXPECT_NEAR(*found.lower, bound(gap * gap / (8 * v)), 1e-10);
  EXPECT_NEAR(*found.upper, upper, 1e-10);
  EXPECT_NEAR(found.value, 0.5 * (*found.lower + *found.upper), 1e-12);
}

TEST(Gaussian, of_classes_far_apart_is_the_entropy_of_the_label) {
  const auto y = random_labels(500, 4, 4);
  Rows t = normal_rows(500, 3, 5);
  for (int i = 0; i < 500; ++i) t(i, 1) += 100 * y[i];
  const auto found = gaussian_information(points_of(t), y, 0.5).label;
  EXPECT_NEAR(*found.lower, LabelGroups(y).entropy(), 1e-12);
  EXPECT_NEAR(*found.upper, LabelGroups(y).entropy(), 1e-12);
}

TEST(Gaussian, of_labels_that_tell_nothing_is_about_zero) {
  // The fitted moments of C classes take up C m (m + 3) / 2 = 45 parameters: a bias of 45 / 2N = 0.011.
  const auto found =
      gaussian_information(points_of(normal_rows(2000, 3, 6)), random_labels(2000, 5, 7), 0.5).label;
  EXPECT_NEAR(found.value, 0, 0.03);
  // The covariance of a class with one sample is the noise alone.
  std::vector<int> y(10, 0);
  y[4] = 1;
  const auto found_one = gaussian_information(points_of(normal_rows(10, 2, 8)), y, 0.5).label;
  EXPECT_TRUE(std::isfinite(found_one.value));
  EXPECT_LE(found_one.value, LabelGroups(y).entropy());
}

TEST(Gaussian, depends_neither_on_order_nor_on_rotation_nor_on_place) {
  const Rows t = stretched(normal_rows(200, 4, 9), {2, 1, 1, 0.1});
  const auto y = random_labels(200, 3, 10);
  const Rows moved = (product(t, rotation(4, 11)).rowwise() + Eigen::RowVector4d(1, 2, -3, 5)).eval();
  const auto one = gaussian_information(points_of(t), y, 0.4);
  for (const auto& other : {gaussian_information(points_of(permuted(t)), permuted(y), 0.4),
                            gaussian_information(points_of(moved), y, 0.4)}) {
    EXPECT_NEAR(one.input.value, other.input.value, 1e-11);  // rounding of the sums
    EXPECT_NEAR(*one.label.lower, *other.label.lower, 1e-11);
    EXPECT_NEAR(*one.label.upper, *other.label.upper, 1e-11);
  }
}

}  // namespace
}  // namespace fluxformer::information
