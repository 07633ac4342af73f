// Next words: which are listed, at which tokens, and what they weigh.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "data/text/packed_texts.hpp"
#include "model/tasks/word_targets.hpp"
#include "tests/support/listed_samples.hpp"

namespace fluxformer {
namespace {

using namespace test;

class NextWordsOf : public testing::TestWithParam<std::size_t> {
 protected:
  static constexpr std::size_t tokens = 20;
  const std::size_t numbers = GetParam();
  const ListedSamples data = random_texts(50, tokens, numbers);
  const std::vector<std::size_t> members = all_of(data);

  Batch batch(double weight) const {
    auto made = empty_batch(data, static_cast<int>(members.size()));
    for (const std::size_t member : members) {
      put_sample(data, static_cast<Index>(member), static_cast<long>(member), weight,
                 static_cast<Index>(member), made);
      data.tokens(member, tokens_of(made, static_cast<Index>(member)));
    }
    return made;
  }
};

TEST_P(NextWordsOf, are_all_words_but_the_first_and_those_that_stand_for_none) {
  const NextWords next(data);
  auto listed = batch(0.25);
  listed.weight[3] = 0;  // filler of a batch
  listed.targets = {{0, 0, 0, 1}};
  next.apply(listed, 2);
  std::size_t at = 0;
  for (std::size_t slot = 0; slot < members.size(); ++slot) {
    if (slot == 3) continue;
    for (int t = 1; t < data.length(slot); ++t) {
      const auto word =
          static_cast<int>(listed.input[(slot * tokens + static_cast<std::size_t>(t)) * numbers]);
      if (next.possible()[static_cast<std::size_t>(word)] == 0) continue;
      ASSERT_LT(at, listed.targets.size());
      const auto& target = listed.targets[at++];
      EXPECT_EQ(target.sample, static_cast<int>(slot));
      EXPECT_EQ(target.token, t - 1) << "is guessed from the token before";
      EXPECT_EQ(target.word, word);
      EXPECT_EQ(target.weight, 0.125);
    }
  }
  EXPECT_EQ(at, listed.targets.size());
  EXPECT_GT(at, members.size());
}

TEST_P(NextWordsOf, weigh_one_together_in_an_evaluation) {
  const NextWords next(data);
  auto listed = batch(1.0 / static_cast<double>(members.size()));
  next.apply(listed, next.mean_count(members));
  double sum = 0;
  for (const auto& target : listed.targets) sum += target.weight;
  EXPECT_NEAR(sum, 1, 1e-13);  // some hundred roundings of numbers below 1
}

TEST_P(NextWordsOf, leave_out_padding_and_the_unknown_word) {
  const NextWords next(data);
  const auto words = data.words();
  for (std::size_t word = 0; word < next.possible().size(); ++word) {
    const bool none = static_cast<int>(word) == data.unknown_word() ||
                      (words.empty() ? std::ranges::count(data.placeholders(), static_cast<int>(word)) > 0
                                     : words[word] == "<pad>" || words[word] == "[PAD]");
    EXPECT_EQ(next.possible()[word] == 0, none) << word;
  }
}

INSTANTIATE_TEST_SUITE_P(with_and_without_segments, NextWordsOf, testing::Values(1U, 2U));

// The line 2 3 4 E 5 6 7 8 E of two texts is cut into 2 3 4 E, 4 E 5 6, 5 6 7 8 and 7 8 E.
class NextWordsOfPackedTexts : public testing::Test {
 protected:
  static constexpr int end = 9;
  const ListedSamples texts{{.tokens_x = 4,
                             .vocabulary = end,
                             .input = {2, 3, 4, 0, 5, 6, 7, 8},
                             .lengths = {3, 4},
                             .labels = {0, 0},
                             .bytes = {3, 1, 2, 0, 4, 1, 1, 5}}};
  const data::PackedTexts packed{texts, data::end_word_of(texts), 4, {{{0, 1}, 2}}};
  const NextWords next{packed};
};

TEST_F(NextWordsOfPackedTexts, are_guessed_once_and_the_first_of_a_text_behind_the_end_of_the_one_before) {
  auto lines = empty_batch(packed, 4);
  for (std::size_t line = 0; line < 4; ++line) {
    put_sample(packed, static_cast<Index>(line), static_cast<long>(line), 0.25, static_cast<Index>(line),
               lines);
    packed.tokens(line, tokens_of(lines, static_cast<Index>(line)));
  }
  next.apply(lines, next.mean_count(all_of(packed)));
  using testing::FieldsAre;
  EXPECT_THAT(lines.targets, testing::ElementsAre(FieldsAre(0, 0, 3, 0.125), FieldsAre(0, 1, 4, 0.125),
                                                  FieldsAre(0, 2, end, 0.125), FieldsAre(1, 1, 5, 0.125),
                                                  FieldsAre(1, 2, 6, 0.125), FieldsAre(2, 1, 7, 0.125),
                                                  FieldsAre(2, 2, 8, 0.125), FieldsAre(3, 1, end, 0.125)));
}

TEST_F(NextWordsOfPackedTexts, have_the_bytes_of_those_that_are_guessed) {
  EXPECT_EQ(next.mean_bytes(all_of(packed)), (1 + 2 + 0 + 4 + 1 + 1 + 5 + 0) / 8.0);
}

}  // namespace
}  // namespace fluxformer
