// Guesses of words against a count of every pair.

#include "data/text/baselines.hpp"

#include <gtest/gtest.h>

#include <cstdint>

#include "tests/support/listed_samples.hpp"

namespace fluxformer::test {
namespace {

/// A data set of one-number tokens; the samples have these words, padded by word 0.
ListedSamples texts(int vocabulary, const std::vector<std::vector<int>>& samples) {
  constexpr std::size_t tokens = 8;
  ListedSamples::Content c{.tokens_x = tokens,
                           .vocabulary = vocabulary,
                           .input = std::vector<double>(samples.size() * tokens, 0.0),
                           .lengths = {},
                           .labels = std::vector<int>(samples.size(), 0)};
  for (std::size_t b = 0; b < samples.size(); ++b) {
    std::copy(samples[b].begin(), samples[b].end(),
              c.input.begin() + static_cast<std::ptrdiff_t>(b * tokens));
    c.lengths.push_back(static_cast<int>(samples[b].size()));
  }
  return ListedSamples(std::move(c));
}

TEST(WordGuess, is_what_a_count_of_every_pair_gives) {
  const auto some_of = [](std::size_t count) {
    std::vector<std::size_t> members;
    for (std::size_t j = 0; j < count; ++j)
      if (j % 3 != 1) members.push_back(j);
    return members;
  };
  for (const std::size_t numbers : {1U, 2U})
    for (const std::size_t count : {4U, 60U}) {
      const auto data = random_texts(count, 12, numbers);
      const auto members = some_of(count);
      const auto words = static_cast<std::size_t>(data.vocabulary());
      std::vector<char> allowed(words + 1, 0);  // the last one is the mask, which is in no text
      for (std::size_t word = 4; word < words; ++word) allowed[word] = word == 7 ? 0 : 1;
      const data::WordGuess guess(data, members, allowed);

      std::vector<std::vector<int>> pairs(words + 1, std::vector<int>(words + 1, 0));
      std::vector<int> single(words + 1, 0);
      std::vector<double> tokens(12 * numbers);
      for (const std::size_t member : members) {
        data.tokens(member, tokens.data());
        for (std::size_t t = 0; t < static_cast<std::size_t>(data.length(member)); ++t) {
          const auto word = static_cast<std::size_t>(tokens[t * numbers]);
          ++single[word];
          if (t > 0) ++pairs[static_cast<std::size_t>(tokens[(t - 1) * numbers])][word];
        }
      }
      const auto best = [&](const std::vector<int>& counts) {
        int found = -1;
        for (std::size_t word = 0; word <= words; ++word)
          if (allowed[word] != 0 && counts[word] > (found < 0 ? 0 : counts[found]))
            found = static_cast<int>(word);
        return found;
      };
      EXPECT_EQ(guess.likeliest(), best(single));
      for (std::size_t word = 0; word <= words; ++word) {
        const int found = best(pairs[word]);
        EXPECT_EQ(guess.after(static_cast<int>(word)), found < 0 ? best(single) : found)
            << "after " << word << ", samples " << count << ", numbers " << numbers;
      }
    }
}

TEST(WordGuess, takes_the_lower_index_of_words_that_are_equally_frequent) {
  const auto data = texts(6, {{5, 3, 5, 3}, {2, 5, 2, 3}, {4, 2}});
  const std::vector<char> all(6, 1);
  const data::WordGuess guess(data, {0, 1, 2}, all);
  EXPECT_EQ(guess.likeliest(), 2);  // as often as 3 and 5
  EXPECT_EQ(guess.after(5), 3);     // twice, 2 only once
  EXPECT_EQ(guess.after(2), 3);     // once, as 5
  EXPECT_EQ(guess.after(4), 2);
  EXPECT_EQ(guess.after(3), 5);
}

TEST(WordGuess, falls_back_on_the_most_frequent_word_behind_words_that_nothing_follows) {
  const auto data = texts(6, {{1, 4, 4}, {2, 3}, {5}});
  std::vector<char> allowed{0, 0, 0, 0, 1, 1};
  const data::WordGuess guess(data, {0, 1, 2}, allowed);
  EXPECT_EQ(guess.likeliest(), 4);
  EXPECT_EQ(guess.after(5), 4);   // the last word of its text
  EXPECT_EQ(guess.after(2), 4);   // only a word that may not be guessed follows
  EXPECT_EQ(guess.after(77), 4);  // the mask, say
  EXPECT_EQ(guess.after(1), 4);
  // The padding behind the texts is no word: nothing follows 3 but it.
  EXPECT_EQ(data::WordGuess(data, {1}, {1, 1, 1, 1, 1, 1}).after(3), 2);
}

}  // namespace
}  // namespace fluxformer::test
