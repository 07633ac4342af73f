// Studies of tokens that gather: their plan, and what they store by time.

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
  EXPECT_EQ(found.start, "random");
  EXPECT_EQ(found.times.size(), 9u);
  EXPECT_EQ(found.end(), 2);
  EXPECT_EQ(found.delta, 0.4);
  EXPECT_EQ(found.share, 0.9);
  EXPECT_EQ(found.tolerance, 1e-6);
}

TEST(Gathering, counts_within_the_width_of_the_kernel_unless_told) {
  EXPECT_DOUBLE_EQ(gathering({"clusters.beta=9"}).delta, 0.1);
  EXPECT_EQ(gathering({"clusters.beta=0.01"}).delta, 1);
}

TEST(Gathering, stores_the_end_once) {
  EXPECT_THAT(gathering({"clusters.time=1", "clusters.every=0.4"}).times,
              ElementsAre(0, 0.4, DoubleNear(0.8, 1e-15), 1));
  // Ten steps of 0.1 are 1 but for a rounding.
  const auto ten = gathering({"clusters.time=1", "clusters.every=0.1"}).times;
  EXPECT_EQ(ten.size(), 11u);
  EXPECT_EQ(ten.back(), 1);
  EXPECT_THAT(gathering({"clusters.time=1", "clusters.every=1"}).times, ElementsAre(0, 1));
  EXPECT_THAT(gathering({"clusters.time=7", "clusters.every=1", "clusters.stretch=2"}).times,
              ElementsAre(0, 1, DoubleNear(3, 1e-14), 7));
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

TEST(Gathering, counts_what_is_compact_and_lists_its_masses) {
  const auto found = gathering({"clusters.share=0.9"});
  EXPECT_EQ(found.number(3, 0.9), 3);
  EXPECT_TRUE(std::isnan(found.number(3, 0.89)));
  const auto masses = listed_masses(2, {0.75, 0.25});
  ASSERT_EQ(std::ssize(masses), listed_clusters);
  EXPECT_THAT((std::vector(masses.begin(), masses.begin() + 3)), ElementsAre(0.75, 0.25, 0));
  EXPECT_EQ(listed_masses(missing_value, {1})[0], 0);
}

TEST(Gathering, grows_from_the_noise_of_the_tokens) {
  EXPECT_DOUBLE_EQ(formation_time(10000, 0.5), std::log(10000));  // n^{-1/2} e^{rate t} = 1
}

}  // namespace
}  // namespace fluxformer::test
