// Masked words: which are chosen, what stands in their place, and what they weigh.

#include "model/tasks/word_targets.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "model/sample_set.hpp"
#include "tests/support/listed_samples.hpp"

namespace fluxformer {
namespace {

using namespace test;
using testing::ElementsAre;

constexpr std::size_t word_masking_tokens = 30;
constexpr int cls = 2, sep = 3, first_ordinary = 4, ordinary = 8;

/// Samples `members` in the slots, in this order, with their index as key and weight 1.
Batch batch_of(const data::Dataset& data, const std::vector<std::size_t>& members) {
  auto batch = empty_batch(data, static_cast<int>(members.size()));
  for (std::size_t slot = 0; slot < members.size(); ++slot) {
    put_sample(data, members[slot], static_cast<long>(members[slot]), 1, slot, batch);
    data.tokens(members[slot], tokens_of(batch, slot));
  }
  return batch;
}

/// (token, right word, what stands there) of each masked word of a slot.
using Seen = std::vector<std::array<int, 3>>;
Seen seen(const Batch& batch, std::size_t slot, std::size_t numbers) {
  Seen list;
  const std::size_t each = batch.input.size() / batch.label.size();
  for (const auto& word : batch.targets)
    if (word.sample == static_cast<int>(slot))
      list.push_back(
          {word.token, word.word,
           static_cast<int>(batch.input[slot * each + static_cast<std::size_t>(word.token) * numbers])});
  return list;
}

class Masking : public testing::TestWithParam<std::size_t> {
 protected:
  const std::size_t numbers = GetParam();
  const ListedSamples data = random_texts(200, word_masking_tokens, numbers);
  const std::vector<std::size_t> members = all_of(data);
  const RandomStream draws{5, "masked words"};
  Batch plain = batch_of(data, members), batch = plain;

  int word(std::size_t slot, std::size_t token) const {
    return static_cast<int>(plain.input[(slot * word_masking_tokens + token) * numbers]);
  }
  std::size_t words_of(std::size_t slot) const {
    std::size_t count = 0;
    for (std::size_t t = 0; t < static_cast<std::size_t>(plain.length[slot]); ++t)
      if (word(slot, t) >= first_ordinary) ++count;
    return count;
  }
  static std::size_t wanted(double share, std::size_t words) {
    const auto rounded = static_cast<std::size_t>(std::floor(share * static_cast<double>(words) + 0.5));
    return words == 0 ? 0 : std::max<std::size_t>(1, rounded);
  }
};

TEST_P(Masking, lists_the_rounded_share_of_the_ordinary_words_of_each_sample_and_at_least_one) {
  for (const double share : {0.01, 0.15, 0.5, 1.0}) {
    batch = plain;
    WordMasking(data, share).apply(batch, draws, 1);
    std::size_t without = 0;
    for (const std::size_t slot : members) {
      std::set<int> places;
      for (const auto& [token, right, there] : seen(batch, slot, numbers)) {
        places.insert(token);
        EXPECT_LT(token, plain.length[slot]);
        EXPECT_EQ(right, word(slot, static_cast<std::size_t>(token)));
        EXPECT_GE(right, first_ordinary) << "of sample " << slot;
      }
      EXPECT_EQ(places.size(), seen(batch, slot, numbers).size());
      EXPECT_EQ(places.size(), wanted(share, words_of(slot))) << "share " << share << ", sample " << slot;
      if (words_of(slot) == 0) ++without;
    }
    EXPECT_GE(without, members.size() / 7);  // there are samples without any
  }
}

TEST_P(Masking, leaves_all_other_words_and_every_segment_as_they_are) {
  WordMasking masking(data, 0.3);
  masking.apply(batch, draws, 1);
  std::vector<char> listed(batch.input.size(), 0);
  for (const auto& target : batch.targets)
    listed[(static_cast<std::size_t>(target.sample) * word_masking_tokens +
            static_cast<std::size_t>(target.token)) *
           numbers] = 1;
  for (std::size_t j = 0; j < batch.input.size(); ++j) {
    if (listed[j] == 0) {
      EXPECT_EQ(batch.input[j], plain.input[j]) << j;
      continue;
    }
    const int there = static_cast<int>(batch.input[j]);
    EXPECT_TRUE(there == masking.vocabulary().mask || masking.ordinary()[there] != 0) << there;
  }
  EXPECT_EQ(batch.length, plain.length);
  EXPECT_EQ(batch.weight, plain.weight);
}

// Counts of independent draws with probability p among n: five standard deviations sqrt(n p (1 - p)), which a
// right count leaves once in 1.7 million, and these numbers are the same in every run.
TEST_P(Masking, shows_the_mask_for_80_percent_any_word_for_10_and_the_right_one_for_10) {
  WordMasking masking(data, 0.3);
  std::array<double, 3> counts{};  // mask, the right word, another one
  std::vector<double> others(names_of_words().size(), 0.0);
  double n = 0;
  for (std::uint64_t epoch = 0; epoch < 20; ++epoch) {
    batch = plain;
    masking.apply(batch, draws.item(epoch), 1);
    for (const std::size_t slot : members)
      for (const auto& [token, right, there] : seen(batch, slot, numbers)) {
        ++n;
        ++counts[there == masking.vocabulary().mask ? 0 : there == right ? 1 : 2];
        if (there != masking.vocabulary().mask && there != right) ++others[there];
      }
  }
  ASSERT_GT(n, 10000);
  const auto check = [](double count, double of, double p, const std::string& what) {
    EXPECT_NEAR(count, of * p, 5 * std::sqrt(of * p * (1 - p))) << what;
  };
  // One in eight of the random words is the right one.
  check(counts[0], n, 0.8, "masks");
  check(counts[1], n, 0.1 + 0.1 / ordinary, "right words");
  check(counts[2], n, 0.1 - 0.1 / ordinary, "other words");
  // The eight words are about equally frequent in the texts, and as random words exactly so.
  for (int other = 0; other < ordinary; ++other)
    check(others[first_ordinary + other], counts[2], 1.0 / ordinary, "word " + std::to_string(other));
}

TEST_P(Masking, draws_the_random_words_of_a_sample_one_by_one) {
  const WordMasking masking(data, 1);
  masking.apply(batch, draws, 1);
  double pairs = 0, alike = 0;
  for (const std::size_t slot : members) {
    std::vector<int> others;
    for (const auto& [token, right, there] : seen(batch, slot, numbers))
      if (there != masking.vocabulary().mask && there != right) others.push_back(there);
    for (std::size_t j = 0; j < others.size(); ++j)
      for (std::size_t k = 0; k < j; ++k) {
        ++pairs;
        if (others[j] == others[k]) ++alike;
      }
  }
  ASSERT_GT(pairs, 100);
  EXPECT_LT(alike, pairs / 3);  // about one pair in eight
  EXPECT_GT(alike, pairs / 24);
}

TEST_P(Masking, chooses_every_place_equally_often) {
  const std::size_t slot = 5;
  const auto words = static_cast<double>(words_of(slot));
  ASSERT_GT(words, 5);
  WordMasking masking(data, 0.3);
  std::vector<double> chosen(word_masking_tokens, 0.0);
  constexpr int times = 3000;
  for (std::uint64_t time = 0; time < times; ++time) {
    auto one = batch_of(data, {slot});
    masking.apply(one, draws.item(time), 1);
    for (const auto& target : one.targets) ++chosen[target.token];
  }
  const double p = static_cast<double>(wanted(0.3, words_of(slot))) / words;
  for (std::size_t t = 0; t < word_masking_tokens; ++t) {
    const bool can_be = t < static_cast<std::size_t>(plain.length[slot]) && word(slot, t) >= first_ordinary;
    // Five standard deviations of the number of `times` independent draws.
    EXPECT_NEAR(chosen[t], can_be ? times * p : 0, can_be ? 5 * std::sqrt(times * p * (1 - p)) : 0) << t;
  }
}

TEST_P(Masking, depends_on_the_draws_and_the_key_of_a_sample_and_not_on_its_slot_or_company) {
  WordMasking masking(data, 0.3);
  masking.apply(batch, draws, 1);
  auto again = plain;
  masking.apply(again, draws, 1);
  EXPECT_EQ(again.input, batch.input);
  auto few = batch_of(data, {40, 2, 17});
  masking.apply(few, draws, 1);
  const std::vector<std::size_t> company{40, 2, 17};
  for (std::size_t slot = 0; slot < company.size(); ++slot)
    EXPECT_EQ(seen(few, slot, numbers), seen(batch, company[slot], numbers)) << company[slot];

  auto keyed = plain, drawn = plain;
  for (long& key : keyed.key) key += 1000;
  masking.apply(keyed, draws, 1);
  masking.apply(drawn, RandomStream(6, "masked words"), 1);
  std::size_t other_key = 0, other_draws = 0, samples = 0;
  for (const std::size_t slot : members) {
    if (words_of(slot) < 15) continue;
    ++samples;
    const auto before = seen(batch, slot, numbers);
    if (seen(keyed, slot, numbers) != before) ++other_key;
    if (seen(drawn, slot, numbers) != before) ++other_draws;
  }
  ASSERT_GT(samples, 20U);
  // Five of 15 places or more: two choices agree once in thousands.
  EXPECT_EQ(other_key, samples);
  EXPECT_EQ(other_draws, samples);
}

TEST_P(Masking, weighs_the_words_of_all_members_as_one_mean) {
  const auto line = TokenLine::even(MPI_COMM_SELF, static_cast<int>(word_masking_tokens), 1, 1, 1);
  const std::vector<std::size_t> some(members.begin() + 30, members.begin() + 101);
  const WordMasking masking(data, 0.15);
  double words = 0;
  for (const std::size_t member : some) words += static_cast<double>(wanted(0.15, words_of(member)));
  const double mean = masking.mean_count(some);
  // A sum of whole numbers, divided once.
  EXPECT_DOUBLE_EQ(mean, words / static_cast<double>(some.size()));
  double sum = 0, count = 0;
  SampleSet(MPI_COMM_SELF, line, data, some, 8)
      .prepared([&](Batch& shown) { masking.apply(shown, draws, mean); })
      .for_batches([&](const Batch& shown) {
        for (const auto& target : shown.targets) {
          EXPECT_GT(shown.weight[target.sample], 0);  // no filler
          // Three divisions and this product are rounded, by half an epsilon each.
          EXPECT_NEAR(target.weight * words, 1, 3 * std::numeric_limits<double>::epsilon());
          sum += target.weight;
          ++count;
        }
      });
  EXPECT_EQ(count, words);
  EXPECT_NEAR(sum, 1, words * std::numeric_limits<double>::epsilon());  // as many roundings of at most 1
}

TEST_P(Masking, lists_nothing_for_fillers_and_samples_without_words) {
  const WordMasking masking(data, 0.5);
  auto mixed = batch_of(data, {3, 4, 5, 10});  // 3 and 10 have none
  mixed.weight[1] = 0;
  mixed.targets = {{0, 0, 0, 1}};  // of the batch before
  const auto before = mixed.input;
  masking.apply(mixed, draws, 1);
  for (const auto& target : mixed.targets) EXPECT_EQ(target.sample, 2);
  EXPECT_FALSE(mixed.targets.empty());
  const auto each = static_cast<std::ptrdiff_t>(word_masking_tokens * numbers);
  EXPECT_TRUE(std::equal(before.begin(), before.begin() + 2 * each, mixed.input.begin()));
  EXPECT_EQ(masking.mean_count({3, 10}), 0);
  EXPECT_EQ(masking.mean_count({}), 0);
}

TEST_P(Masking, spares_the_padding_where_it_has_the_index_of_a_word) {
  const auto nameless = random_words(9, 5, 2, 6, numbers > 1 ? 2 : 0, 2);  // lengths 10, 7, 4, 1, ...
  const WordMasking masking(nameless, 1);
  auto all = batch_of(nameless, all_of(nameless));
  masking.apply(all, draws, 1);
  double words = 0;
  for (std::size_t slot = 0; slot < nameless.size(); ++slot) {
    const auto length = static_cast<std::size_t>(nameless.length(slot));
    EXPECT_EQ(seen(all, slot, numbers).size(), length);
    for (const auto& [token, right, there] : seen(all, slot, numbers))
      EXPECT_LT(token, nameless.length(slot));
    words += static_cast<double>(length);
  }
  EXPECT_DOUBLE_EQ(masking.mean_count(all_of(nameless)), words / 9);
}

INSTANTIATE_TEST_SUITE_P(WithAndWithoutSegments, Masking, testing::Values(1U, 2U));

TEST(MaskVocabulary, has_one_word_more_where_none_is_the_mask) {
  const auto found = mask_vocabulary(random_texts(1, word_masking_tokens, 1));
  EXPECT_EQ(found.size, 13);
  EXPECT_EQ(found.mask, 12);
  EXPECT_TRUE(found.added);
  EXPECT_THAT(found.ordinary, ElementsAre(4, 5, 6, 7, 8, 9, 10, 11));
}

TEST(MaskVocabulary, takes_the_mask_of_the_words) {
  auto names = names_of_words();
  names[6] = "[MASK]";
  auto found = mask_vocabulary(random_texts(1, word_masking_tokens, 1, names));
  EXPECT_EQ(found.size, 12);
  EXPECT_EQ(found.mask, 6);
  EXPECT_FALSE(found.added);
  EXPECT_THAT(found.ordinary, ElementsAre(4, 5, 7, 8, 9, 10, 11));
  names[9] = "<mask>";  // before [MASK], which is no ordinary word either
  found = mask_vocabulary(random_texts(1, word_masking_tokens, 1, names));
  EXPECT_EQ(found.size, 12);
  EXPECT_EQ(found.mask, 9);
  EXPECT_FALSE(found.added);
  EXPECT_THAT(found.ordinary, ElementsAre(4, 5, 7, 8, 10, 11));
}

TEST(MaskVocabulary, spares_names_in_brackets_and_what_stands_for_no_word) {
  const auto found = mask_vocabulary(
      random_texts(1, word_masking_tokens, 1,
                   {"pad", "unk", "[x]", "<s>", "[]", "<>", "[x", "x>", "[x>", "<x]", "", "</s>"}));
  EXPECT_THAT(found.ordinary, ElementsAre(4, 5, 6, 7, 8, 9, 10));
  EXPECT_EQ(found.mask, 12);
}

TEST(MaskVocabulary, of_words_without_names_spares_only_what_stands_for_no_word) {
  const auto found = mask_vocabulary(random_words(2, 3, 1, 5, 0, 2));
  EXPECT_EQ(found.size, 6);
  EXPECT_EQ(found.mask, 5);
  EXPECT_TRUE(found.added);
  EXPECT_THAT(found.ordinary, ElementsAre(0, 1, 2, 3, 4));
}

}  // namespace
}  // namespace fluxformer
