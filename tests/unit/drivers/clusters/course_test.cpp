// The course of a seed, and what is derived from it.

#include "drivers/clusters/course.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>
#include <vector>

#include "analysis/clusters/cluster_variables.hpp"

namespace fluxformer {
namespace {

TEST(Course, gives_back_its_columns) {
  using namespace clusters::variables;
  const std::vector<Course::Column> columns{{number}, {moment, 2}, {energy}};
  Course course(columns);
  for (const double time : {1.0, 2.0})
    course.add({{energy, {12 * time}}, {number, {2 * time}}, {moment, {time, -time}}});
  EXPECT_EQ(course.count(), 2);
  EXPECT_EQ(course.width(), 4);
  EXPECT_EQ(course.of(number), (std::vector<double>{2, 4}));
  EXPECT_EQ(course.of(moment), (std::vector<double>{1, -1, 2, -2}));
  EXPECT_EQ(course.of(energy), (std::vector<double>{12, 24}));
  Course again(columns);
  again.restore(course.rows());
  again.fill(3);
  EXPECT_EQ(again.count(), 3);
  EXPECT_EQ(again.of(energy)[1], 24);
  EXPECT_TRUE(std::isnan(again.of(energy)[2]));
}

TEST(Course, refuses_rows_that_do_not_fit) {
  using namespace clusters::variables;
  Course course({{number}, {moment, 2}});
  EXPECT_THROW(course.add({{number, {1}}}), std::logic_error);
  EXPECT_THROW(course.add({{number, {1}}, {number, {1}}}), std::logic_error);
  EXPECT_THROW(course.add({{number, {1}}, {moment, {1}}}), std::logic_error);
  EXPECT_THROW(course.add({{number, {1}}, {energy, {1, 2}}}), std::logic_error);
  EXPECT_THROW(course.of(energy), std::logic_error);
}

TEST(Course, says_how_many_clusters_there_are_and_since_when) {
  const double none = missing_value;
  const std::vector<double> times{0, 0.5, 1};
  const auto words = [&](double last) {
    return words_of_clusters(times, std::vector<double>{none, 3, last});
  };
  EXPECT_EQ(words(1), "1 cluster at t = 1, the first at t = 0.5");
  EXPECT_EQ(words(3), "3 clusters at t = 1, the first at t = 0.5");
  EXPECT_EQ(words(none), "no clusters at t = 1");
  EXPECT_EQ(formed(times, std::vector<double>{none, 3, none}), 0.5);
  EXPECT_TRUE(std::isnan(formed(times, std::vector<double>(3, none))));
}

TEST(Course, merges_are_the_last_falls_of_the_number) {
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

TEST(Course, rate_of_growth_is_a_slope) {
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
