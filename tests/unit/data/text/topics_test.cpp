#include "data/text/topics.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "data/make_dataset.hpp"
#include "data/text/baselines.hpp"
#include "tests/unit/data/images/idx_writer.hpp"

namespace fluxformer::test {
namespace {

using testing::HasSubstr;
using Text = std::vector<std::uint32_t>;

data::DatasetSpec spec(int classes = 8, int length = 64, const char* split = "train",
                       std::uint64_t seed = 1) {
  return {.name = "topics", .split = split, .seed = seed, .length = length, .classes = classes};
}

TEST(Topics, a_sample_depends_on_seed_split_and_index_alone) {
  const data::Topics once(spec()), again(spec());
  const Text late = once.text(12345), early = once.text(3);
  EXPECT_EQ(again.text(3), early);  // read in a different order, from another object
  EXPECT_EQ(again.text(12345), late);
  EXPECT_NE(early, data::Topics(spec(8, 64, "train", 2)).text(3));
  EXPECT_NE(early, data::Topics(spec(8, 64, "test")).text(3));
  EXPECT_EQ(data::Topics(spec(8, 64, "train", 2)).words(), once.words());
}

TEST(Topics, the_mask_of_a_model_is_one_more_word_and_changes_no_text) {
  const data::Topics plain(spec());
  auto asked = spec();
  asked.words = plain.words();
  asked.words.emplace_back("<mask>");
  const data::Topics masked(asked);
  EXPECT_EQ(masked.vocabulary(), plain.vocabulary() + 1);
  EXPECT_EQ(masked.words(), asked.words);
  for (std::size_t index = 0; index < 300; ++index) EXPECT_EQ(masked.text(index), plain.text(index)) << index;
}

TEST(Topics, classes_are_balanced_in_every_block_in_changing_order) {
  for (const int classes : {4, 12, 20}) {
    const data::Topics set(spec(classes));
    EXPECT_EQ(set.classes(), classes);
    std::set<std::vector<int>> orders;
    for (std::size_t block = 0; block < 5; ++block) {
      std::vector<int> order, expected;
      for (std::size_t i = 0; i < static_cast<std::size_t>(classes); ++i) {
        order.push_back(set.label(block * static_cast<std::size_t>(classes) + i));
        expected.push_back(static_cast<int>(i));
      }
      orders.insert(order);
      std::sort(order.begin(), order.end());
      EXPECT_EQ(order, expected);
    }
    EXPECT_GT(orders.size(), 1U);
  }
}

TEST(Topics, texts_vary_in_length_and_are_padded) {
  const data::Topics set(spec(8, 64));
  EXPECT_EQ(set.tokens_x(), 64);
  EXPECT_EQ(set.tokens_y(), 1);
  EXPECT_EQ(set.features(), 1);
  EXPECT_EQ(set.vocabulary(), 2000);
  const auto words = set.words();
  EXPECT_EQ(std::set<std::string>(words.begin(), words.end()).size(), 2000U);
  std::set<int> lengths;
  std::vector<double> tokens(64);
  for (std::size_t i = 0; i < 1000; ++i) {
    const Text text = set.text(i);
    set.tokens(i, tokens.data());
    ASSERT_EQ(static_cast<int>(text.size()), set.length(i));
    lengths.insert(set.length(i));
    for (std::size_t t = 0; t < 64; ++t) EXPECT_EQ(tokens[t], t < text.size() ? text[t] : 0.0);
    EXPECT_TRUE(
        std::all_of(text.begin(), text.end(), [](std::uint32_t word) { return word >= 2 && word < 2000; }));
  }
  // 49 lengths, 16 to 64, each missed with a chance of (48/49)^1000 = 1e-9.
  EXPECT_EQ(lengths.size(), 49U);
  EXPECT_EQ(*lengths.begin(), 16);
  EXPECT_EQ(*lengths.rbegin(), 64);
}

/// The commonest word: share 1 - 2/16 (markers; stretches are full where lengths are multiples of 16) times
/// 1 - 1/4 (topics) times (1/2.7) / sum of 1 / (r + 2.7).
TEST(Topics, common_words_follow_zipf_and_mandelbrot) {
  const data::Topics set(spec(8, 16));
  double norm = 0;
  for (int r = 0; r < 2000 - 2 - 4; ++r) norm += 1 / (r + 2.7);
  const double share = 14.0 / 16 * 0.75 / 2.7 / norm;
  double met = 0, all = 0;
  for (std::size_t i = 0; i < 10000; ++i) {
    const Text text = set.text(i);
    met += static_cast<double>(std::count(text.begin(), text.end(), 6U));  // after <pad>, <unk>, 4 markers
    all += static_cast<double>(text.size());
  }
  EXPECT_EQ(all, 160000);
  EXPECT_NEAR(met / all, share, 5 * std::sqrt(share / all));
}

/// Topic by the count of its words, then order by the first marker of the pair.
int read_with_order(const data::Topics& set, const Text& text) {
  int best = -1, most = -1;
  for (int topic = 0; topic < 3 * set.classes() / 4; ++topic) {
    int count = 0;
    for (int j = 0; j < data::Topics::topic_words; ++j) {
      count += static_cast<int>(std::count(text.begin(), text.end(), set.topic_word(topic, j)));
    }
    if (count > most) most = count, best = topic;
  }
  const int pair = best / 3;
  if (best % 3 < 2) return 4 * pair + best % 3;
  const auto first = std::find(text.begin(), text.end(), data::Topics::marker(pair, 0));
  const auto second = std::find(text.begin(), text.end(), data::Topics::marker(pair, 1));
  return first < second ? 4 * pair + 2 : 4 * pair + 3;
}

/// A classifier that only counts words cannot exceed 3/4: of the 2000 texts in 4000 that differ in order
/// only, half are guessed; standard deviation sqrt(500) / 4000 = 0.0056. A classifier that uses the order
/// only errs if it mistakes a topic.
TEST(Topics, order_of_words_tells_what_their_counts_cannot) {
  const data::Topics train(spec(8, 128)), test(spec(8, 128, "test"));
  data::NaiveBayes counting(0.1);
  counting.fit(train);
  EXPECT_NEAR(counting.accuracy(test), 0.75, 4 * 0.0056);
  int right = 0, ordered = 0, ordered_right = 0;
  for (std::size_t i = 0; i < test.size(); ++i) {
    const int label = test.label(i), told = read_with_order(test, test.text(i));
    right += told == label ? 1 : 0;
    if (label % 4 >= 2 && label / 2 == told / 2) ++ordered, ordered_right += told == label ? 1 : 0;
  }
  EXPECT_GE(right, 0.98 * 4000);
  EXPECT_GE(ordered, 1900);
  EXPECT_EQ(ordered_right, ordered);  // no noise: with the topic known, the order never misleads
}

TEST(Topics, every_pair_of_an_ordered_class_keeps_its_order) {
  for (const int classes : {4, 8, 20}) {
    const data::Topics set(spec(classes, 128));
    std::size_t pairs = 0, stretches = 0;
    for (std::size_t i = 0; i < 500; ++i) {
      const int label = set.label(i);
      if (label % 4 < 2) continue;
      const std::uint32_t first = data::Topics::marker(label / 4, label % 4 - 2);
      const std::uint32_t second = data::Topics::marker(label / 4, 3 - label % 4);
      bool open = false;
      for (const std::uint32_t word : set.text(i)) {
        if (word == first || word == second) {
          EXPECT_EQ(word, open ? second : first) << "sample " << i;
          open = !open;
          if (!open) ++pairs;
        }
      }
      EXPECT_FALSE(open);
      stretches += static_cast<std::size_t>(set.length(i) / data::Topics::stretch) - 1;
    }
    // One for certain in each of the 250 texts, then one in two; five deviations.
    EXPECT_NEAR(static_cast<double>(pairs), 250 + 0.5 * static_cast<double>(stretches),
                5 * std::sqrt(0.25 * static_cast<double>(stretches)));
  }
}

TEST(Topics, refuses_numbers_out_of_range_and_a_strange_vocabulary) {
  const auto refusal = [](data::DatasetSpec asked) { return complaint([&] { data::make_dataset(asked); }); };
  EXPECT_THAT(refusal(spec(6)), HasSubstr("data.classes = 6: data.set = topics supports 4, 8, 12, 16 or 20"));
  EXPECT_THAT(refusal(spec(24)), HasSubstr("data.classes = 24"));
  EXPECT_THAT(refusal(spec(0)), HasSubstr("data.classes = 0"));
  EXPECT_THAT(refusal(spec(8, 15)), HasSubstr("data.length = 15"));
  data::DatasetSpec asked = spec();
  asked.vocabulary = 499;
  EXPECT_THAT(refusal(asked), HasSubstr("data.vocabulary = 499"));
  asked.vocabulary = 500;
  const auto words = data::make_dataset(asked)->words();
  EXPECT_EQ(words.size(), 500U);
  asked.words = words;
  EXPECT_EQ(refusal(asked), "");
  asked.words[7] = "seven";
  EXPECT_THAT(refusal(asked), HasSubstr("vocabulary given is not that of data.set = topics"));
  asked = spec();
  asked.words = data::make_dataset(asked)->words();
  asked.words.emplace_back("mask");
  EXPECT_THAT(refusal(asked), HasSubstr("vocabulary given is not that of data.set = topics"));
  asked = spec();
  asked.at_most = 7;
  EXPECT_EQ(data::make_dataset(asked)->size(), 7U);
  EXPECT_THROW(data::make_dataset(asked)->length(7), std::out_of_range);
}

/// Every topic word of every number of classes lies within the smallest vocabulary.
TEST(Topics, topics_do_not_share_words) {
  for (const int classes : {4, 20}) {
    data::DatasetSpec asked = spec(classes);
    asked.vocabulary = 500;
    const data::Topics set(asked);
    std::set<std::uint32_t> seen;
    for (int topic = 0; topic < 3 * classes / 4; ++topic) {
      for (int j = 0; j < data::Topics::topic_words; ++j) seen.insert(set.topic_word(topic, j));
    }
    EXPECT_EQ(seen.size(), static_cast<std::size_t>(3 * classes / 4 * data::Topics::topic_words));
    EXPECT_LT(*seen.rbegin(), 500U);
    EXPECT_GE(*seen.begin(), static_cast<std::uint32_t>(2 + classes / 2));
  }
}

}  // namespace
}  // namespace fluxformer::test
