// The next word of given logits.

#include "drivers/generate/word_choice.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/support/reached.hpp"

namespace fluxformer::test {
namespace {

const std::vector<double> logits{0.3, -1.2, 2.5, 2.5, 0.9, -4.0, 1.7};
constexpr double least = 0x1p-53, most = 1 - 0x1p-53;  // uniform numbers are odd multiples of 2^-53

/// softmax(z/T) over these words, 0 elsewhere.
std::vector<double> shares(const std::vector<int>& words, double temperature) {
  std::vector<double> p(logits.size(), 0.0);
  double sum = 0;
  for (const int w : words) sum += p[w] = std::exp(logits[w] / temperature);
  for (double& one : p) one /= sum;
  return p;
}

TEST(NextWord, has_the_shares_of_softmax_over_equally_spaced_uniforms) {
  constexpr int count = 20000;
  struct Case {
    WordChoice choice;
    std::vector<int> kept;
  };
  const std::vector<int> all{0, 1, 2, 3, 4, 5, 6};
  for (const auto& [choice, kept] :
       {Case{{1, 0}, all}, Case{{0.6, 0}, all}, Case{{3, 7}, all}, Case{{1, 4}, {2, 3, 4, 6}},
        Case{{2, 3}, {2, 3, 6}}, Case{{0.5, 2}, {2, 3}}}) {
    std::vector<double> found(logits.size(), 0.0);
    int before = 0;
    for (int i = 0; i < count; ++i) {
      const int word = next_word(logits, choice, (i + 0.5) / count);
      EXPECT_GE(word, before);  // in the order of words
      before = word;
      found[word] += 1.0 / count;
    }
    // An interval of length p holds p count points at these distances, give or take one.
    const auto p = shares(kept, choice.temperature);
    for (std::size_t w = 0; w < p.size(); ++w)
      EXPECT_LE(reached("shares of words, less their probabilities", std::abs(found[w] - p[w])),
                1.0001 / count);
  }
}

TEST(NextWord, is_the_first_and_the_last_word_with_a_share_at_the_ends) {
  EXPECT_EQ(next_word(logits, {1, 0}, least), 0);
  EXPECT_EQ(next_word(logits, {1, 0}, most), 6);
  EXPECT_EQ(next_word(logits, {1, 3}, least), 2);
  EXPECT_EQ(next_word(logits, {1, 3}, most), 6);
  // Far below the largest logit the share is 0.
  const std::vector<double> steep{-1e4, 0, -1e4};
  for (const double uniform : {least, 0.5, most}) EXPECT_EQ(next_word(steep, {1, 0}, uniform), 1);
}

TEST(NextWord, is_the_largest_logit_without_temperature_and_the_lowest_word_in_a_tie) {
  for (const double uniform : {least, 0.3, most}) {
    EXPECT_EQ(next_word(logits, {0, 0}, uniform), 2);
    EXPECT_EQ(next_word(logits, {0, 5}, uniform), 2);
    EXPECT_EQ(next_word(std::vector<double>(4, -3.0), {0, 0}, uniform), 0);
    // A single word that is kept is that one, at any temperature.
    for (const double temperature : {0.01, 1.0, 100.0})
      EXPECT_EQ(next_word(logits, {temperature, 1}, uniform), 2);
  }
  // Towards T = 0 both words of the tie stay.
  EXPECT_EQ(next_word(logits, {1e-300, 0}, 0.4), 2);
  EXPECT_EQ(next_word(logits, {1e-300, 0}, 0.6), 3);
}

TEST(NextWord, has_the_log_probability_of_softmax_whatever_the_level_of_the_logits) {
  const auto p = shares({0, 1, 2, 3, 4, 5, 6}, 1);
  for (const double level : {0.0, 700.0, -900.0}) {
    auto z = logits;
    for (double& one : z) one += level;
    for (int w = 0; w < std::ssize(z); ++w)
      // The logits are rounded to 2^-44 at these levels.
      EXPECT_NEAR(log_probability(z, w), std::log(p[w]), level == 0 ? 1e-14 : 1e-12);
  }
}

}  // namespace
}  // namespace fluxformer::test
