// Information of binned states: counted by hand, ln N for a layer that keeps samples distinct, principal
// components.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "analysis/information/estimates.hpp"
#include "analysis/information/information.hpp"
#include "base/error.hpp"
#include "tests/unit/analysis/information/information_samples.hpp"

namespace fluxformer::information {
namespace {

using namespace test;
using ::testing::HasSubstr;

const std::pair<double, double> tanh_range{-1, 1};

TEST(Binning, counts_a_small_case_as_one_does_by_hand) {
  // Two bins hold {0, 0.1} and {0.9, 1}; labels (0 1) and (1 1).
  const std::vector<double> t{0, 0.1, 0.9, 1};
  const std::vector<int> y{0, 1, 1, 1};
  const auto found = binned_information({t.data(), 4, 1}, y, {2, {}});
  EXPECT_NEAR(found.input.value, std::log(2), 1e-15);
  // H(T) + H(Y) - H(T, Y) = ln 2 + (ln 4 - 3/4 ln 3) - 3/2 ln 2
  EXPECT_NEAR(found.label.value, 1.5 * std::log(2) - 0.75 * std::log(3), 1e-15);
}

TEST(Binning, tells_cells_apart_by_every_component) {
  // The four corners of a square, each twice: 2 components of 1 bit.
  const std::vector<double> t{0, 0, 0, 1, 1, 0, 1, 1, 0, 0, 0, 1, 1, 0, 1, 1};
  const std::vector<int> second{0, 1, 0, 1, 0, 1, 0, 1};  // the second component
  const auto found = binned_information({t.data(), 8, 2}, second, {3, {}});
  EXPECT_NEAR(found.input.value, std::log(4), 1e-15);
  EXPECT_NEAR(found.label.value, std::log(2), 1e-15);
}

TEST(Binning, of_an_injective_layer_with_fine_bins_is_exactly_ln_n) {
  // tanh(W x) with an invertible W; the closest two of 500 uniform numbers are about 1e-5 apart.
  const Rows x = normal_rows(500, 2, 1);
  const Rows t = product(x, rotation(2, 2)).array().tanh();
  const auto labels = random_labels(500, 3, 3);
  const auto found = binned_information(points_of(t), labels, {Index{1} << 30, tanh_range});
  EXPECT_EQ(found.input.value, std::log(500.0));
  EXPECT_NEAR(found.label.value, LabelGroups(labels).entropy(),
              1e-12);  // all the information in Y, whatever Y is
}

TEST(Binning, of_a_constant_state_is_zero) {
  const std::vector<double> t(20, 0.3);
  const auto found = binned_information({t.data(), 10, 2}, random_labels(10, 2, 1), {8, {}});
  EXPECT_NEAR(found.input.value, 0, 1e-15);
  EXPECT_NEAR(found.label.value, 0, 1e-15);
}

TEST(Binning, puts_what_lies_outside_a_stated_range_into_the_last_bins) {
  const std::vector<double> t{-5, -0.9, 0.9, 5};
  const auto found = binned_information({t.data(), 4, 1}, std::vector<int>{0, 0, 1, 1}, {2, tanh_range});
  EXPECT_NEAR(found.input.value, std::log(2), 1e-15);
  EXPECT_NEAR(found.label.value, std::log(2), 1e-15);
}

TEST(Binning, of_labels_that_tell_nothing_is_the_known_bias) {
  // 2 N I is chi-squared with (8 - 1)(4 - 1) = 21 degrees of freedom: mean 21, deviation 6.5.
  constexpr int count = 4000;
  const auto found = binned_information(points_of(normal_rows(count, 1, 4)), random_labels(count, 4, 5),
                                        {8, std::pair{-2.0, 2.0}});
  EXPECT_NEAR(2 * count * found.label.value, 21, 5 * 6.5);
}

TEST(Binning, does_not_depend_on_the_order_of_samples_at_all) {
  const Rows x = normal_rows(300, 3, 6);
  const auto y = random_labels(300, 4, 7);
  const auto one = binned_information(points_of(x), y, {6, {}});
  const auto other = binned_information(points_of(permuted(x)), permuted(y), {6, {}});
  EXPECT_EQ(one.input.value, other.input.value);
  EXPECT_EQ(one.label.value, other.label.value);
}

template <class Call>
std::string refusal(Call&& call) {
  try {
    call();
  } catch (const BadInput& e) {
    return e.what();
  }
  return "not refused";
}

TEST(Binning, refuses_what_has_no_answer) {
  std::vector<double> t{1, 2, 3, 4};
  const std::vector<int> y{0, 1, 0, 1};
  const Points points{t.data(), 4, 1};
  EXPECT_THAT(refusal([&] {
                binned_information(points, y, {0, {}});
              }),
              HasSubstr("0 bins; allowed are 1 to"));
  EXPECT_THAT(refusal([&] { binned_information(points, y, {2, std::pair{1.0, 1.0}}); }), HasSubstr("range"));
  EXPECT_THAT(refusal([&] { binned_information({t.data(), 1, 4}, y, {2, {}}); }), HasSubstr("at least 2"));
  EXPECT_THAT(refusal([&] { binned_information({t.data(), 4, 0}, y, {2, {}}); }), HasSubstr("0 components"));
  EXPECT_THAT(refusal([&] {
                binned_information({t.data(), 2, 2}, y, {2, {}});
              }),
              HasSubstr("4 labels for 2 samples"));
  t[3] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(refusal([&] {
                binned_information({t.data(), 2, 2}, std::vector<int>{0, 1}, {2, {}});
              }),
              HasSubstr("component 1 of sample 1"));
}

TEST(PrincipalComponents, find_the_directions_and_variances_of_a_stretched_cloud) {
  // Exactly white samples (corners of a cube), stretched by 3, 2, 1 and turned.
  Rows corners(8, 3);
  for (int i = 0; i < 8; ++i) corners.row(i) << (i & 1 ? 3 : -3), (i & 2 ? 2 : -2), (i & 4 ? 1 : -1);
  const Eigen::MatrixXd turn = rotation(3, 8);
  const Rows states = (product(corners, turn).rowwise() + Eigen::RowVector3d(5, -7, 1)).eval();
  const auto found = principal_components(points_of(states), 2);
  EXPECT_NEAR(found.variance[0], 9, 1e-12);
  EXPECT_NEAR(found.variance[1], 4, 1e-12);
  EXPECT_NEAR(found.total_variance, 14, 1e-12);
  const Eigen::Map<const Rows> axes(found.axes.data(), 2, 3), projected(found.projected.data(), 8, 2);
  EXPECT_TRUE(product(axes, axes.transpose()).isIdentity(1e-12));
  for (int j = 0; j < 2; ++j) {
    const double sign = axes.row(j).dot(turn.row(j)) < 0 ? -1 : 1;
    EXPECT_NEAR((axes.row(j) - sign * turn.row(j)).norm(), 0, 1e-12);
    EXPECT_NEAR((projected.col(j) - sign * corners.col(j)).norm(), 0, 1e-12);
  }
}

TEST(PrincipalComponents, have_signs_that_the_data_cannot_flip) {
  const Rows x = product(stretched(normal_rows(50, 4, 9), {4, 3, 2, 1}), rotation(4, 10));
  const Rows opposite = -x;
  const auto one = principal_components(points_of(x), 4),
             other = principal_components(points_of(opposite), 4);
  const auto mixed = principal_components(points_of(permuted(x)), 4);
  for (std::size_t j = 0; j < 4; ++j) {
    const auto axis = std::vector<double>(one.axes.begin() + static_cast<long>(4 * j),
                                          one.axes.begin() + static_cast<long>(4 * j + 4));
    EXPECT_GT(*std::max_element(axis.begin(), axis.end()), -*std::min_element(axis.begin(), axis.end()));
  }
  for (std::size_t i = 0; i < 16; ++i) {
    EXPECT_NEAR(one.axes[i], other.axes[i], 1e-12);
    EXPECT_NEAR(one.axes[i], mixed.axes[i], 1e-12);
  }
}

TEST(PrincipalComponents, all_of_them_keep_every_distance) {
  const Rows x = normal_rows(20, 5, 11);
  const auto found = principal_components(points_of(x), 5);
  const Eigen::Map<const Rows> projected(found.projected.data(), 20, 5);
  for (int i = 1; i < 20; ++i)
    EXPECT_NEAR((x.row(i) - x.row(0)).norm(), (projected.row(i) - projected.row(0)).norm(), 1e-12);
  EXPECT_THAT(refusal([&] { principal_components(points_of(x), 6); }),
              HasSubstr("6 asked for; there can be 1 to 5"));
  EXPECT_THAT(refusal([&] { principal_components(points_of(x), 0); }), HasSubstr("0 asked for"));
}

}  // namespace
}  // namespace fluxformer::information
