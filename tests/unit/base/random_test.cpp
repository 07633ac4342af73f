#include "base/random.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <numbers>
#include <set>
#include <stdexcept>
#include <vector>

namespace fluxformer {
namespace {

using Block = std::array<std::uint32_t, 4>;

// Random123, tests/kat_vectors, philox4x32 with 10 rounds: counter, key, result.
TEST(Philox, matches_the_reference_vectors) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr std::uint32_t ones = 0xffffffff;
  EXPECT_EQ(philox({ones, ones, ones, ones}, {ones, ones}),
            (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

// Archived results depend on everything drawn from a seed (weights, digits, shards), so these bits must not
// change.
TEST(RandomStream, keeps_its_numbers_from_version_to_version) {
  const RandomStream stream(42, "weights");
  EXPECT_EQ(stream.below(7, 1'000'000'000), 639438107U);
  EXPECT_DOUBLE_EQ(stream.uniform(7), 0.21929211151352102);
  EXPECT_DOUBLE_EQ(stream.item(3).item(5).uniform(7), 0.10032583923738725);
  EXPECT_NEAR(stream.normal(7), -1.1151495864088028, 1e-14);  // log and cos may differ in the last bits
}

// Also where a run ends within a block, and where the index passes 2^32.
TEST(RandomStream, gives_runs_of_words_as_single_blocks) {
  const auto stream = RandomStream(3, "words").item(5);
  for (const std::uint64_t first : {std::uint64_t{0}, (std::uint64_t{1} << 32U) - 7}) {
    std::vector<std::uint32_t> words(4 * 37 + 3);
    stream.bits(first, words);
    for (std::size_t i = 0; i < words.size(); ++i) EXPECT_EQ(words[i], stream.bits(first + i / 4)[i % 4]);
  }
}

TEST(RandomStream, gives_the_same_number_in_any_order) {
  const RandomStream stream(1, "order");
  std::vector<double> forwards;
  for (std::uint64_t i = 0; i < 100; ++i) forwards.push_back(stream.normal(i));
  const RandomStream again(1, "order");
  for (std::uint64_t i = 100; i-- > 0;) EXPECT_EQ(again.normal(i), forwards[i]);
}

// Streams that differ in seed, purpose, item or nesting of items share no number. 53-bit values: a chance
// collision among these 11 000 has probability n^2 / 2^53 = 1e-8.
TEST(RandomStream, families_and_items_never_meet) {
  const RandomStream family(1, "weights");
  const std::vector<RandomStream> streams = {family,
                                             RandomStream(2, "weights"),
                                             RandomStream(std::uint64_t{1} << 32, "weights"),
                                             RandomStream(1, "digits"),
                                             family.item(0),
                                             family.item(1),
                                             family.item(std::uint64_t{1} << 32),
                                             family.item(0).item(1),
                                             family.item(1).item(0),
                                             family.item(1).item(1),
                                             family.item(0).item(1).item(1)};
  std::set<double> seen;
  for (const RandomStream& stream : streams)
    for (std::uint64_t i = 0; i < 1000; ++i) seen.insert(stream.uniform(i << 20));
  EXPECT_EQ(seen.size(), streams.size() * 1000);
}

// Neighbouring items are effectively independent: the correlation of n pairs has deviation 1/sqrt(n).
TEST(RandomStream, neighbouring_items_are_uncorrelated) {
  const RandomStream family(5, "noise");
  constexpr int n = 100'000;
  double items = 0;
  double indices = 0;
  for (std::uint64_t i = 0; i < n; ++i) {
    items += family.item(i).normal(0) * family.item(i + 1).normal(0);
    indices += family.normal(i) * family.normal(i + 1);
  }
  EXPECT_LT(std::abs(items) / n, 4 / std::sqrt(n));
  EXPECT_LT(std::abs(indices) / n, 4 / std::sqrt(n));
}

// Sample moments of n draws lie within four standard deviations of the sampling distribution.
TEST(RandomStream, uniform_numbers_have_the_moments_of_the_uniform_law) {
  const RandomStream stream(3, "uniform");
  constexpr int n = 100'000;
  double mean = 0;
  double square = 0;
  for (std::uint64_t i = 0; i < n; ++i) {
    const double x = stream.uniform(i, -1, 3);
    EXPECT_GT(x, -1);
    EXPECT_LT(x, 3);
    mean += (x - 1) / n;
    square += (x - 1) * (x - 1) / n;
  }
  EXPECT_NEAR(mean, 0, 4 * std::sqrt(4. / 3 / n));
  EXPECT_NEAR(square, 4. / 3, 4 * std::sqrt((16. / 5 - 16. / 9) / n));
}

TEST(RandomStream, normal_numbers_have_the_moments_of_the_normal_law) {
  const RandomStream stream(3, "normal");
  constexpr int n = 100'000;
  double moments[5] = {};
  int beyond_two = 0;
  for (std::uint64_t i = 0; i < n; ++i) {
    const double x = stream.normal(i);
    for (int k = 1; k <= 4; ++k) moments[k] += std::pow(x, k) / n;
    beyond_two += std::abs(x) > 2 ? 1 : 0;
  }
  // Variances of x, x^2, x^3, x^4 under the normal law: 1, 2, 15, 96.
  EXPECT_NEAR(moments[1], 0, 4 * std::sqrt(1. / n));
  EXPECT_NEAR(moments[2], 1, 4 * std::sqrt(2. / n));
  EXPECT_NEAR(moments[3], 0, 4 * std::sqrt(15. / n));
  EXPECT_NEAR(moments[4], 3, 4 * std::sqrt(96. / n));
  const double tail = std::erfc(std::numbers::sqrt2);
  EXPECT_NEAR(beyond_two, n * tail, 4 * std::sqrt(n * tail));
}

TEST(RandomStream, below_reaches_every_number_equally_often) {
  const RandomStream stream(9, "below");
  constexpr int n = 70'000;
  std::vector<int> hits(7);
  for (std::uint64_t i = 0; i < n; ++i) ++hits.at(stream.below(i, hits.size()));
  // Binomial: deviation sqrt(n p (1-p)).
  for (const int count : hits) EXPECT_NEAR(count, n / 7, 4 * std::sqrt(n * (1. / 7) * (6. / 7)));
}

TEST(RandomStream, below_covers_the_whole_64_bit_range) {
  const RandomStream stream(9, "below");
  const std::uint64_t most = ~std::uint64_t{0};
  int upper_half = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) upper_half += stream.below(i, most) > most / 2 ? 1 : 0;
  EXPECT_NEAR(upper_half, 500, 4 * std::sqrt(250.));
  EXPECT_EQ(stream.below(0, 1), 0U);
  EXPECT_THROW(stream.below(0, 0), std::logic_error);
}

TEST(Shuffled, is_a_permutation_that_depends_on_seed_purpose_and_item) {
  const auto order = shuffled(100, 1, "order", 0);
  EXPECT_EQ(std::set<std::size_t>(order.begin(), order.end()).size(), 100u);
  EXPECT_LT(*std::max_element(order.begin(), order.end()), 100u);
  EXPECT_EQ(order, shuffled(100, 1, "order", 0));
  EXPECT_NE(order, shuffled(100, 2, "order", 0));
  EXPECT_NE(order, shuffled(100, 1, "other", 0));
  EXPECT_NE(order, shuffled(100, 1, "order", 1));
  EXPECT_TRUE(shuffled(0, 1, "order", 0).empty());
  EXPECT_EQ(shuffled(1, 1, "order", 0), std::vector<std::size_t>{0});
}

TEST(Shuffled, brings_every_number_to_every_place) {
  // 600 orders of 3: each of the 6 orders is expected 100 times, with a deviation of 9.
  std::map<std::vector<std::size_t>, int> times;
  for (std::uint64_t item = 0; item < 600; ++item) ++times[shuffled(3, 1, "order", item)];
  EXPECT_EQ(times.size(), 6u);
  for (const auto& [order, often] : times) EXPECT_NEAR(often, 100, 45);  // five deviations
}

}  // namespace
}  // namespace fluxformer
