// Clusters on the sphere by leaders against a search over all pairs.

#include "analysis/clusters/leaders.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/random.hpp"

namespace fluxformer::clusters {
namespace {

/// By atan2(|x - y|, |x + y|), which is exact for all angles.
double angle_between(const Tokens& tokens, Index i, Index j) {
  double apart = 0, together = 0;
  for (int k = 0; k < tokens.dimension; ++k) {
    const double x = tokens[i][k], y = tokens[j][k];
    apart += (x - y) * (x - y);
    together += (x + y) * (x + y);
  }
  return 2 * std::atan2(std::sqrt(apart), std::sqrt(together));
}

/// N(delta) by a search from token to token.
Index components_by_search(const Tokens& tokens, double delta) {
  std::vector<bool> seen(tokens.count(), false);
  Index found = 0;
  for (Index first = 0; first < tokens.count(); ++first) {
    if (seen[first]) continue;
    ++found;
    std::vector<Index> open{first};
    seen[first] = true;
    while (!open.empty()) {
      const Index i = open.back();
      open.pop_back();
      for (Index j = 0; j < tokens.count(); ++j)
        if (!seen[j] && angle_between(tokens, i, j) <= delta) {
          seen[j] = true;
          open.push_back(j);
        }
    }
  }
  return found;
}

/// Groups of tokens around these directions, normal with a standard deviation of `spread` along each axis: so many tokens in each.
Tokens groups(const std::vector<std::vector<double>>& centres, const std::vector<int>& counts,
              double spread) {
  const RandomStream random(4, "groups");
  Tokens tokens{static_cast<int>(centres[0].size()), {}};
  std::uint64_t drawn = 0;
  for (std::size_t group = 0; group < centres.size(); ++group)
    for (int k = 0; k < counts[group]; ++k) {
      auto x = centres[group];
      double square = 0;
      for (double& one : x) one += spread * random.normal(drawn++), square += one * one;
      for (const double one : x) tokens.x.push_back(one / std::sqrt(square));
    }
  return tokens;
}

constexpr Index many = 4096;

SphereClusters clusters_of(const Tokens& tokens, double delta, Index leaders = many) {
  return clusters_on_sphere(tokens, delta, leaders, MPI_COMM_SELF);
}

TEST(Leaders, cover_all_tokens_and_are_apart) {
  for (const int dimension : {2, 3, 7})
    for (const double radius : {0.05, 0.3, 1.0}) {
      const auto tokens = random_tokens(0, 300, dimension, 5);
      const auto found = leaders_of(tokens, radius, many, MPI_COMM_SELF);
      EXPECT_FALSE(found.cloud);
      auto both = found.tokens;
      both.x.insert(both.x.end(), tokens.x.begin(), tokens.x.end());
      const Index leaders = found.tokens.count();
      for (Index a = 0; a < leaders; ++a)
        for (Index b = 0; b < a; ++b) EXPECT_GT(angle_between(both, a, b), radius);
      ASSERT_EQ(std::ssize(found.of), tokens.count());
      for (Index i = 0; i < tokens.count(); ++i) {
        EXPECT_LE(angle_between(both, found.of[i], leaders + i), radius);
        for (Index before = 0; before < found.of[i]; ++before)
          EXPECT_GT(angle_between(both, before, leaders + i), radius);
      }
      // The first token leads, and the others in the order of the tokens.
      EXPECT_EQ(found.of[0], 0);
      Index next = 0;
      for (const Index own : found.of) {
        EXPECT_LE(own, next);
        if (own == next) ++next;
      }
      EXPECT_EQ(next, leaders);
    }
}

TEST(Leaders, bracket_the_components_of_random_tokens) {
  int exact = 0;
  for (const int dimension : {2, 3, 4, 8})
    for (const int count : {1, 2, 17, 200})
      for (const double delta : {0.02, 0.1, 0.25, 0.6, 1.2, 3.0}) {
        const auto tokens = random_tokens(7, count, dimension, count);
        const Index components = components_by_search(tokens, delta);
        const auto found = clusters_of(tokens, delta);
        EXPECT_LE(found.fewest, components) << dimension << ' ' << count << ' ' << delta;
        EXPECT_GE(found.most, components) << dimension << ' ' << count << ' ' << delta;
        EXPECT_EQ(std::ssize(found.masses), found.fewest);
        double all = 0;
        for (const double one : found.masses) all += one;
        EXPECT_NEAR(all, 1, 1e-14);
        EXPECT_TRUE(std::ranges::is_sorted(found.masses, std::greater<>()));
        exact += found.fewest == found.most;
      }
  EXPECT_GT(exact, 40);  // of 96: not all brackets are wide
}

TEST(Leaders, count_groups_exactly) {
  const double s = 1 / std::sqrt(3.0);
  const auto tokens = groups({{1, 0, 0}, {-1, 0, 0}, {0, 1, 0}, {0, -1, 0}, {0, 0, 1}, {0, 0, -1}, {s, s, s}},
                             {300, 200, 150, 130, 100, 70, 50}, 0.004);
  ASSERT_EQ(tokens.count(), 1000);
  for (const double delta : {0.05, 0.1, 0.2}) {
    EXPECT_EQ(components_by_search(tokens, delta), 7) << delta;
    const auto found = clusters_of(tokens, delta);
    EXPECT_EQ(found.fewest, 7) << delta;
    EXPECT_EQ(found.most, 7) << delta;
    EXPECT_NEAR(found.compact_share, 1, 1e-14) << delta;
    for (std::size_t group = 0; group < 7; ++group)
      EXPECT_NEAR(found.masses[group], (std::vector{0.3, 0.2, 0.15, 0.13, 0.1, 0.07, 0.05})[group], 1e-15);
  }
  // The last group is 0.955 from three others; the other three are at right angles to all but their opposites. By 3 delta all are one.
  EXPECT_EQ(components_by_search(tokens, 1.0), 4);
  EXPECT_EQ(clusters_of(tokens, 1.0).most, 4);
  EXPECT_EQ(clusters_of(tokens, 1.0).fewest, 1);
}

TEST(Leaders, count_the_edges) {
  const auto one = clusters_of({3, {0, 0, 1}}, 0.1);
  EXPECT_EQ(one.fewest, 1);
  EXPECT_EQ(one.most, 1);
  EXPECT_EQ(one.compact_share, 1);
  Tokens equal{4, {}};
  for (int k = 0; k < 50; ++k) equal.x.insert(equal.x.end(), {0.5, 0.5, -0.5, 0.5});
  EXPECT_EQ(clusters_of(equal, 0.1).most, 1);
  EXPECT_EQ(clusters_of(equal, 0.1).fewest, 1);
  const Tokens opposite{3, {0, 1, 0, 0, -1, 0}};
  EXPECT_EQ(clusters_of(opposite, 0.9).fewest, 2);
  EXPECT_EQ(clusters_of(opposite, 0.9).most, 2);
  EXPECT_EQ(clusters_of(opposite, 3.1).most, 2);
  EXPECT_EQ(clusters_of(opposite, 3.1).fewest, 1);  // 3 delta is beyond pi: only a range is known
  const auto shares = clusters_of(groups({{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}, {3, 5, 2}, 0), 0.1);
  EXPECT_EQ(shares.masses, (std::vector{0.5, 0.3, 0.2}));
}

TEST(Leaders, tell_small_angles) {
  // Two tokens 1e-9 apart: <x, y> is 1 to the last bit.
  const double turned = 0.7, apart = 1e-9;
  const Tokens tokens{
      3, {std::cos(turned), std::sin(turned), 0, std::cos(turned + apart), std::sin(turned + apart), 0}};
  for (const auto& [delta, count] : {std::pair{1.5e-9, 1}, {0.3e-9, 2}}) {
    EXPECT_EQ(clusters_of(tokens, delta).fewest, count);
    EXPECT_EQ(clusters_of(tokens, delta).most, count);
  }
}

TEST(Leaders, do_not_take_a_cloud_for_a_cluster) {
  const auto even = random_tokens(0, 2000, 3, 1);
  const auto found = clusters_of(even, 0.3);
  EXPECT_EQ(found.fewest, 1);
  EXPECT_EQ(found.most, 1);
  EXPECT_EQ(found.compact_share, 0);
  // Leaders 0.3 apart are some 90 of at most (2 / 0.15)^2 = 178; leaders 0.1 apart many more.
  EXPECT_EQ(clusters_of(even, 0.3, 200).fewest, 1);
  EXPECT_EQ(clusters_of(even, 0.3, 200).most, 0);
  EXPECT_EQ(clusters_of(even, 0.3, 20).fewest, 0);
  EXPECT_TRUE(clusters_of(even, 0.3, 20).masses.empty());
  EXPECT_EQ(clusters_of(even, 0.3, 20).compact_share, 0);
  const auto cloud = leaders_of(even, 0.3, 20, MPI_COMM_SELF);
  EXPECT_TRUE(cloud.cloud);
  EXPECT_EQ(cloud.tokens.count(), 21);
}

TEST(Leaders, tell_compact_components_from_wide_ones) {
  // A chain of 40 tokens 0.09 apart on a circle, and 10 tokens elsewhere.
  Tokens tokens{3, {}};
  for (int k = 0; k < 40; ++k) tokens.x.insert(tokens.x.end(), {std::cos(0.09 * k), std::sin(0.09 * k), 0});
  for (int k = 0; k < 10; ++k) tokens.x.insert(tokens.x.end(), {0, 0, 1});
  const auto found = clusters_of(tokens, 0.1);
  EXPECT_EQ(found.fewest, 2);
  EXPECT_EQ(found.most, 2);
  EXPECT_NEAR(found.compact_share, 0.2, 1e-15);
}

TEST(Leaders, want_an_angle_of_a_sphere) {
  for (const double delta : {0.0, -0.1, std::numbers::pi, std::nan("")})
    EXPECT_THROW(clusters_of({3, {0, 0, 1}}, delta), std::invalid_argument);
}

}  // namespace
}  // namespace fluxformer::clusters
