// Joined texts: which tokens a line has, and that each is guessed once, with the words before it that it should see.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "data/text/packed_texts.hpp"
#include "data/text/words_of.hpp"
#include "tests/support/listed_samples.hpp"

namespace fluxformer::test {
namespace {

using data::PackedTexts;
using Words = std::vector<std::uint32_t>;
using testing::ElementsAre;

constexpr int words = 50;

/// Texts of these lengths; words count up from 2, and begin again after the last.
ListedSamples texts_of(const std::vector<int>& lengths, std::vector<std::string> names = {}) {
  const int longest = *std::ranges::max_element(lengths);
  ListedSamples::Content c{
      .tokens_x = longest,
      .vocabulary = names.empty() ? words : static_cast<int>(names.size()),
      .input = std::vector<double>(lengths.size() * static_cast<std::size_t>(longest), 0.0),
      .lengths = lengths,
      .labels = std::vector<int>(lengths.size(), 0),
      .words = std::move(names)};
  int next = 0;
  for (std::size_t text = 0; text < lengths.size(); ++text)
    for (int t = 0; t < lengths[text]; ++t)
      c.input[text * static_cast<std::size_t>(longest) + static_cast<std::size_t>(t)] =
          2 + next++ % (c.vocabulary - 2);
  return ListedSamples(std::move(c));
}

/// The tokens of a part, joined by hand.
Words joined(const data::Dataset& texts, const std::vector<std::size_t>& members, int end) {
  Words all;
  for (const auto member : members) {
    std::ranges::copy(data::words_of(texts, member), std::back_inserter(all));
    all.push_back(static_cast<std::uint32_t>(end));
  }
  return all;
}

TEST(PackedTexts, guess_each_token_but_the_first_once_whatever_their_number_the_lines_and_the_step) {
  for (int tokens = 2; tokens <= 40; ++tokens) {
    const auto texts = texts_of({tokens - 1});  // and its end
    const auto all = joined(texts, {0}, words);
    for (int n = 2; n <= 45; ++n)
      for (int step = 1; step < n; ++step) {
        const PackedTexts packed(texts, data::end_word_of(texts), n, {{{0}, step}});
        std::vector<int> times(all.size(), 0);
        for (std::size_t index = 0; index < packed.size(); ++index) {
          const auto line = data::words_of(packed, index);
          const auto first = index * static_cast<std::size_t>(step);
          ASSERT_LE(first + line.size(), all.size());
          ASSERT_TRUE(std::ranges::equal(line, std::span(all).subspan(first, line.size())));
          const int seen = packed.seen(index);
          ASSERT_EQ(seen, index == 0 ? 0 : n - step) << "tokens in front of the first guess";
          ASSERT_GT(packed.length(index), std::max(seen, 0)) << "a line guesses something";
          for (int t = std::max(1, seen); t < packed.length(index); ++t)
            ++times[first + static_cast<std::size_t>(t)];
        }
        ASSERT_EQ(times[0], 0);
        ASSERT_EQ(std::count(times.begin(), times.end(), 1), tokens - 1) << "n = " << n << ", step " << step;
        ASSERT_EQ(packed.size(), n >= tokens ? 1 : 1 + (tokens - n + step - 1) / step);
      }
  }
}

TEST(PackedTexts, are_padded_at_their_end_only) {
  const auto texts = texts_of({3, 4});
  const PackedTexts packed(texts, data::end_word_of(texts), 4, {{{0, 1}, 3}});  // 2 3 4 E 5 6 7 8 E
  ASSERT_EQ(packed.size(), 3);
  std::vector<std::vector<double>> lines(3, std::vector<double>(4, -1));
  for (std::size_t index = 0; index < 3; ++index) packed.tokens(index, lines[index].data());
  EXPECT_THAT(lines[0], ElementsAre(2, 3, 4, words));
  EXPECT_THAT(lines[1], ElementsAre(words, 5, 6, 7));
  EXPECT_THAT(lines[2], ElementsAre(7, 8, words, 0));
  EXPECT_EQ(packed.length(2), 3);
  EXPECT_EQ(packed.vocabulary(), words + 1);
}

TEST(PackedTexts, keep_the_texts_of_a_part_apart_from_those_of_others) {
  const auto texts = texts_of({5, 2, 3, 4});
  const PackedTexts packed(texts, data::end_word_of(texts), 6, {{{2, 0}, 5}, {{}, 5}, {{3}, 5}});
  EXPECT_THAT(packed.lines_of(0), ElementsAre(0, 1));
  EXPECT_THAT(packed.lines_of(1), ElementsAre());
  EXPECT_THAT(packed.lines_of(2), ElementsAre(2));
  EXPECT_EQ(packed.seen(2), 0) << "the first line of a part goes on with nothing";
  const std::vector<char> allowed(words + 1, 1);
  EXPECT_EQ(data::next_words_of(packed, packed.lines_of(0), allowed).words, joined(texts, {2, 0}, words));
  EXPECT_EQ(data::next_words_of(packed, packed.lines_of(2), allowed).words, joined(texts, {3}, words));
}

TEST(PackedTexts, end_with_a_word_of_the_texts_if_there_is_one_and_only_once) {
  const auto named = texts_of({3, 3}, {"<pad>", "<unk>", "a", "b", "</s>"});  // a b </s>, a b </s>
  const auto end = data::end_word_of(named);
  EXPECT_EQ(end.index, 4);
  EXPECT_FALSE(end.added);
  const PackedTexts packed(named, end, 6, {{{0, 1}, 5}});
  EXPECT_EQ(packed.vocabulary(), 5);
  EXPECT_THAT(data::words_of(packed, 0), ElementsAre(2, 3, 4, 2, 3, 4));
  const auto without = texts_of({2}, {"<pad>", "<unk>", "a", "b"});
  const PackedTexts added(without, data::end_word_of(without), 6, {{{0}, 5}});
  EXPECT_THAT(added.words(), ElementsAre("<pad>", "<unk>", "a", "b", "<eos>"));
  EXPECT_THAT(data::words_of(added, 0), ElementsAre(2, 3, 4));
}

TEST(PackedTexts, are_counted_with_contexts_of_one_text_that_lines_do_not_cut) {
  const auto texts = texts_of({3, 4});
  for (int n = 2; n < 12; ++n)
    for (int step = 1; step < n; ++step) {
      const PackedTexts packed(texts, data::end_word_of(texts), n, {{{0, 1}, step}});
      std::vector<char> allowed(words + 1, 1);
      allowed[6] = 0;
      const auto found = data::next_words_of(packed, packed.lines_of(0), allowed);
      EXPECT_THAT(found.words, ElementsAre(2, 3, 4, words, 5, 6, 7, 8, words));
      EXPECT_THAT(found.in_front, ElementsAre(0, 1, 2, 3, 0, 1, 2, 3, 4));
      EXPECT_THAT(found.targets, ElementsAre(1, 2, 3, 4, 6, 7, 8))
          << "the first word of a text, and all its ends";
      const auto context = found.context(7);
      EXPECT_EQ(Words(context.begin(), context.end()), Words({5, 6, 7}));
    }
}

}  // namespace
}  // namespace fluxformer::test
