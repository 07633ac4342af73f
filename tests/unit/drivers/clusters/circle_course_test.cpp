// What clusters_circle derives from the course of a seed.

#include "drivers/clusters/circle_course.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "analysis/clusters/cluster_variables.hpp"

namespace fluxformer {
namespace {

TEST(CircleCourse, gives_back_its_columns) {
  CircleCourse course(2);
  for (const double time : {1.0, 2.0}) {
    CircleRow row{
        .sums = {.number_2 = 10 * time, .number_1 = 11 * time, .energy = 12 * time, .dissipation = 13 * time},
        .moments = {time, -time},
        .shares = std::vector<double>(CircleCourse::bins, time / CircleCourse::bins),
        .masses = {0.75, 0.25}};
    row.number = 2;
    course.add(row);
  }
  EXPECT_EQ(course.count(), 2);
  using namespace clusters::variables;
  EXPECT_EQ(course.of(number), (std::vector<double>{2, 2}));
  EXPECT_EQ(course.of(number_2), (std::vector<double>{10, 20}));
  EXPECT_EQ(course.of(dissipation), (std::vector<double>{13, 26}));
  EXPECT_EQ(course.of(moment), (std::vector<double>{1, -1, 2, -2}));
  EXPECT_EQ(course.of(density).size(), 2 * CircleCourse::bins);
  const auto masses = course.of(mass);
  ASSERT_EQ(masses.size(), 2 * CircleCourse::listed);
  EXPECT_EQ(masses[CircleCourse::listed + 1], 0.25);
  EXPECT_EQ(masses[2], 0);
  CircleCourse again(2);
  again.restore(course.rows());
  again.fill(3);
  EXPECT_EQ(again.count(), 3);
  EXPECT_EQ(again.of(number_1)[1], 22);
  EXPECT_TRUE(std::isnan(again.of(number_1)[2]));
}

TEST(CircleCourse, merges_are_the_last_falls_of_the_number) {
  const double none = missing_value;
  const std::vector<double> times{0, 1, 2, 3, 4, 5, 6, 7}, number{none, 4, 5, 3, 3, none, 1, 1};
  const auto found = merges(times, number);
  EXPECT_EQ(found.after[4], 2);  // five
  EXPECT_EQ(found.by[4], 3);
  EXPECT_EQ(found.after[3], 2);  // four or more
  EXPECT_EQ(found.by[3], 3);
  EXPECT_EQ(found.after[1], 4);  // two or more: three, up to t = 4; it is not known at t = 5
  EXPECT_EQ(found.by[1], 6);
  EXPECT_EQ(found.after[2], found.after[1]);
  EXPECT_TRUE(std::isnan(found.after[0]));  // one stays
  EXPECT_TRUE(std::isnan(found.after[5]));  // six: never
}

TEST(CircleCourse, rate_of_growth_is_a_slope) {
  std::vector<double> times, size;
  for (int k = 0; k < 20; ++k) {
    times.push_back(0.5 * k);
    size.push_back(1e-4 * std::exp(0.7 * times.back()));
  }
  size[0] = 1;  // beyond `most` from the start: nothing is left
  EXPECT_TRUE(std::isnan(rate_of_growth(times, size, 0, 0.03)));
  size[0] = 1e-5;  // in the noise
  EXPECT_NEAR(rate_of_growth(times, size, 5e-5, 0.03), 0.7, 1e-12);
  EXPECT_TRUE(std::isnan(rate_of_growth(times, size, 0.02, 0.03)));
}

}  // namespace
}  // namespace fluxformer
