// What studies of tokens that gather have in common: their plan, and what they store by time.

#include "drivers/clusters/gathering.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "tests/unit/drivers/plan.hpp"
#include "tests/unit/io/temporary_folder.hpp"

namespace fluxformer::test {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::HasSubstr;

Gathering gathering(const std::vector<std::string>& given) {
  return plan_of_gathering(plan("clusters_sphere", given));
}

TEST(Gathering, has_the_value_of_every_key) {
  const auto found =
      gathering({"clusters.beta=5", "clusters.seeds=3,1", "clusters.time=2", "clusters.every=0.25",
                 "clusters.delta=0.4", "clusters.share=0.9", "clusters.tolerance=1e-6"});
  EXPECT_EQ(found.beta, 5);
  EXPECT_THAT(found.seeds, ElementsAre(3, 1));
  EXPECT_EQ(found.end, 2);
  EXPECT_EQ(found.every, 0.25);
  EXPECT_EQ(found.delta, 0.4);
  EXPECT_EQ(found.share, 0.9);
  EXPECT_EQ(found.tolerance, 1e-6);
  ASSERT_EQ(places_of_seeds(found.seeds).size(), 2u);
  EXPECT_EQ(places_of_seeds(found.seeds)[0].name, "seed 3");
}

TEST(Gathering, counts_within_the_width_of_the_kernel_unless_told) {
  EXPECT_DOUBLE_EQ(gathering({"clusters.beta=9"}).delta, 0.1);
  EXPECT_EQ(gathering({"clusters.beta=0.01"}).delta, 1);
}

TEST(Gathering, stores_the_end_once) {
  EXPECT_THAT(gathering({"clusters.time=1", "clusters.every=0.4"}).times(),
              ElementsAre(0, 0.4, DoubleNear(0.8, 1e-15), 1));
  // Ten steps of 0.1 are 1 but for a rounding.
  const auto ten = gathering({"clusters.time=1", "clusters.every=0.1"}).times();
  EXPECT_EQ(ten.size(), 11u);
  EXPECT_EQ(ten.back(), 1);
  EXPECT_THAT(gathering({"clusters.time=1", "clusters.every=1"}).times(), ElementsAre(0, 1));
}

TEST(Gathering, refuses_times_that_cannot_be_stored) {
  EXPECT_THAT(complaint<BadInput>([] {
                gathering({"clusters.time=1", "clusters.every=2"});
              }),
              HasSubstr("clusters.every"));
  EXPECT_THAT(complaint<BadInput>([] {
                gathering({"clusters.time=1", "clusters.every=1e-6"});
              }),
              HasSubstr("clusters.every"));
}

TEST(Gathering, grows_from_the_noise_of_the_tokens) {
  EXPECT_DOUBLE_EQ(formation_time(10000, 0.5), std::log(10000));  // n^{-1/2} e^{rate t} = 1
}

TEST(Course, says_how_many_clusters_there_are_and_since_when) {
  Course course;
  course.add_clusters(0, missing_value, {1});
  EXPECT_EQ(course.words(), "no clusters at t = 0");
  course.add_clusters(0.5, 3, {0.5, 0.3, 0.2});
  EXPECT_EQ(course.words(), "3 clusters at t = 0.5, the first at t = 0.5");
  course.add_clusters(1, missing_value, {0.8, 0.2});
  course.add_clusters(1.5, 1, {1});
  EXPECT_EQ(course.words(), "1 cluster at t = 1.5, the first at t = 0.5");
}

}  // namespace
}  // namespace fluxformer::test
