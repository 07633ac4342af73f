// The bounds of Kolchinsky and Tracey: against sums written out, integrals, and closed forms of a Gaussian
// population.

#include <gtest/gtest.h>

#include <array>

#include "analysis/information/information.hpp"
#include "base/error.hpp"
#include "tests/unit/analysis/information/information_samples.hpp"

namespace fluxformer::information {
namespace {

using namespace test;

/// N values with the shares of a standard normal: the middle of each of N parts of equal probability.
Rows normal_quantiles(int count) {
  Rows x(count, 1);
  for (int i = 0; i < count; ++i) {
    const double share = (i + 0.5) / count;
    double low = -10, high = 10;
    for (int step = 0; step < 60; ++step) {
      const double middle = 0.5 * (low + high);
      (0.5 * std::erfc(-middle / std::numbers::sqrt2) < share ? low : high) = middle;
    }
    x(i, 0) = low;
  }
  return x;
}

TEST(Kde, of_two_samples_is_what_the_formula_says) {
  const std::vector<double> t{0, 0, 3, 4};  // 5 apart
  const double sigma = 2;
  const auto found = kde_information({t.data(), 2, 2}, std::vector<int>{7, -1}, sigma);
  const double lower = -std::log(0.5 * (1 + std::exp(-25 / (8 * 4.0))));
  const double upper = -std::log(0.5 * (1 + std::exp(-25 / (2 * 4.0))));
  EXPECT_NEAR(*found.input.lower, lower, 1e-14);
  EXPECT_NEAR(*found.input.upper, upper, 1e-14);
  EXPECT_NEAR(found.input.value, 0.5 * (lower + upper), 1e-14);
  // The label is the sample: the same question.
  EXPECT_NEAR(*found.label.lower, lower, 1e-14);
  EXPECT_NEAR(*found.label.upper, upper, 1e-14);
}

TEST(Kde, in_blocks_is_the_double_sum_written_out) {
  constexpr int count = 1100,
                m = 3;  // more than one block of rows and of columns, the last ones partly filled
  const Rows t = normal_rows(count, m, 1);
  const auto y = random_labels(count, 5, 2);
  const double sigma = 0.5;
  double all[2] = {0, 0}, within[2] = {0, 0};  // with 8 sigma^2, with 2 sigma^2
  for (int i = 0; i < count; ++i) {
    double sum[2] = {0, 0}, same[2] = {0, 0}, members = 0;
    for (int j = 0; j < count; ++j) {
      const double square = (t.row(i) - t.row(j)).squaredNorm();
      const bool is_same = y[i] == y[j];
      members += is_same;
      for (int which = 0; which < 2; ++which) {
        const double kernel = std::exp(-square / ((which == 0 ? 8 : 2) * sigma * sigma));
        sum[which] += kernel;
        if (is_same) same[which] += kernel;
      }
    }
    for (int which = 0; which < 2; ++which) {
      all[which] -= std::log(sum[which] / count) / count;
      within[which] -= std::log(same[which] / members) / count;
    }
  }
  const auto found = kde_information(points_of(t), y, sigma);
  EXPECT_NEAR(*found.input.lower, all[0], 1e-11);
  EXPECT_NEAR(*found.input.upper, all[1], 1e-11);
  EXPECT_NEAR(*found.label.lower, std::max(0.0, all[0] - within[1]), 1e-11);
  EXPECT_NEAR(*found.label.upper, std::min(LabelGroups(y).entropy(), all[1] - within[0]), 1e-11);
  EXPECT_NEAR(found.label.value, 0.5 * (all[0] + all[1] - within[0] - within[1]), 1e-11);
}

TEST(Kde, bounds_enclose_the_integral_for_a_few_samples) {
  // Four samples on a line, two labels; the entropies of the mixtures by quadrature.
  const std::array<double, 4> t{-1.5, -0.4, 0.7, 2.0};
  const std::vector<int> y{0, 0, 1, 1};
  for (const double sigma : {0.1, 0.4, 1.0, 3.0}) {
    const auto mixture = [&](std::size_t first, std::size_t last) {
      return entropy_on_line(
          [&](double x) {
            double p = 0;
            for (std::size_t i = first; i < last; ++i)
              p += normal_density(x, t[i], sigma) / static_cast<double>(last - first);
            return p;
          },
          -2 - 12 * sigma, 2.5 + 12 * sigma);
    };
    const double input = mixture(0, 4) - normal_entropy(sigma);
    const double label = mixture(0, 4) - 0.5 * (mixture(0, 2) + mixture(2, 4));
    const auto found = kde_information({t.data(), 4, 1}, y, sigma);
    EXPECT_LE(*found.input.lower, input + 1e-9) << sigma;  // 1e-9: quadrature
    EXPECT_GE(*found.input.upper, input - 1e-9) << sigma;
    EXPECT_LE(*found.label.lower, label + 1e-9) << sigma;
    EXPECT_GE(*found.label.upper, label - 1e-9) << sigma;
  }
}

TEST(Kde, bounds_enclose_the_channel_capacity_of_a_gaussian_state) {
  // T ~ N(0, s): E exp(-(x - x')^2 / (2 tau)) = (1 + s/tau)^(-1/2) exp(-x^2 / (2 (tau + s))) gives both
  // bounds of the population, with tau = 4 sigma^2 and sigma^2. Tolerance: the quadrature of 3000 quantiles,
  // which loses the variance of the tails (a share of about 1e-3 of s).
  const Rows z = normal_quantiles(3000);
  const std::vector<int> y(3000, 0);
  for (const double s : {0.01, 1.0, 9.0, 100.0}) {
    for (const double sigma : {0.5, 1.0, 2.0}) {
      const Rows t = std::sqrt(s) * z;
      const auto bound = [&](double tau) { return 0.5 * (std::log1p(s / tau) + s / (tau + s)); };
      const double truth = 0.5 * std::log1p(s / (sigma * sigma));
      const auto found = kde_information(points_of(t), y, sigma).input;
      EXPECT_LE(*found.lower, truth) << s << ' ' << sigma;
      EXPECT_GE(*found.upper, truth) << s << ' ' << sigma;
      EXPECT_NEAR(*found.lower, bound(4 * sigma * sigma), 2e-3) << s << ' ' << sigma;
      EXPECT_NEAR(*found.upper, bound(sigma * sigma), 2e-3) << s << ' ' << sigma;
      EXPECT_GE(found.value, *found.lower);
      EXPECT_LE(found.value, *found.upper);
    }
  }
}

TEST(Kde, of_samples_far_apart_is_ln_n_and_all_that_the_label_holds) {
  Rows t(40, 2);
  for (int i = 0; i < 40; ++i) t.row(i) << 100.0 * i, -50.0 * i;
  const auto y = random_labels(40, 3, 3);
  const auto found = kde_information(points_of(t), y, 1.0);
  EXPECT_NEAR(*found.input.lower, std::log(40.0), 1e-13);
  EXPECT_NEAR(*found.input.upper, std::log(40.0), 1e-13);
  EXPECT_NEAR(*found.label.lower, LabelGroups(y).entropy(), 1e-13);
  EXPECT_NEAR(*found.label.upper, LabelGroups(y).entropy(), 1e-13);
}

TEST(Kde, of_labels_that_tell_nothing_is_about_zero) {
  // Noise as wide as the state smooths over hundreds of samples: a bias of about (effective cells) / N <
  // 0.01.
  const Rows t = normal_rows(1000, 1, 4);
  const auto found = kde_information(points_of(t), random_labels(1000, 2, 5), 1.0);
  EXPECT_NEAR(found.label.value, 0, 0.01);
  EXPECT_EQ(*found.label.lower, 0);
  const std::vector<double> constant(20, 0.1);
  const auto none = kde_information({constant.data(), 10, 2}, random_labels(10, 2, 6), 0.01);
  EXPECT_EQ(*none.input.upper, 0);
  EXPECT_EQ(*none.label.upper, 0);
}

TEST(Kde, depends_neither_on_order_nor_on_rotation_nor_on_place) {
  const Rows t = normal_rows(400, 4, 7);
  const auto y = random_labels(400, 3, 8);
  // The distance from the origin must not cost digits: |x|^2 + |y|^2 - 2xy alone would be wrong by about
  // 1e-6.
  const Rows moved = (product(t, rotation(4, 9)).rowwise() + Eigen::RowVector4d(1e5, -2e5, 3e4, 5)).eval();
  const auto one = kde_information(points_of(t), y, 0.7);
  const auto mixed = kde_information(points_of(permuted(t)), permuted(y), 0.7);
  const auto elsewhere = kde_information(points_of(moved), y, 0.7);
  for (const auto& [other, tolerance] : {std::pair{mixed, 1e-12}, std::pair{elsewhere, 1e-10}}) {
    EXPECT_NEAR(*one.input.lower, *other.input.lower, tolerance);  // rounding: of sums, of t at 2e5
    EXPECT_NEAR(*one.input.upper, *other.input.upper, tolerance);
    EXPECT_NEAR(*one.label.upper, *other.label.upper, tolerance);
    EXPECT_NEAR(one.label.value, other.label.value, tolerance);
  }
}

TEST(Kde, refuses_to_do_without_noise) {
  const Rows t = normal_rows(4, 1, 1);
  const std::vector<int> y(4, 0);
  for (const double sigma : {0.0, -1.0, std::nan(""), HUGE_VAL})
    EXPECT_THROW(kde_information(points_of(t), y, sigma), BadInput) << sigma;
}

}  // namespace
}  // namespace fluxformer::information
