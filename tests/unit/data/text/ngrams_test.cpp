// n-grams against their definition, by maps from contexts to counts.

#include "data/text/ngrams.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <numbers>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>

#include "data/text/newsgroups.hpp"
#include "data/text/words_of.hpp"
#include "tests/support/listed_samples.hpp"

namespace fluxformer::test {
namespace {

using Words = std::vector<std::uint32_t>;

constexpr int largest_order = 4;
enum class Smoothing { witten_bell, kneser_ney };

/// The counts behind each context, from all texts; a word is a target unless it is the first or not allowed.
struct Definition {
  std::map<Words, std::map<std::uint32_t, int>> occurrences;
  std::map<Words, std::map<std::uint32_t, std::set<std::uint32_t>>> in_front;
  double possible = 0;

  Definition(const std::vector<Words>& texts, const std::vector<char>& allowed) {
    for (const char can : allowed) possible += can;
    for (const auto& text : texts)
      for (std::size_t t = 1; t < text.size(); ++t) {
        if (allowed[text[t]] == 0) continue;
        for (std::size_t length = 0; length <= t && length < largest_order; ++length) {
          const auto first = text.begin() + static_cast<long>(t - length);
          const Words context(first, text.begin() + static_cast<long>(t));
          ++occurrences[context][text[t]];
          auto& words = in_front[context][text[t]];
          if (length < t) words.insert(*(first - 1));
        }
      }
  }

  /// The counts of the words behind a context: occurrences, or different words in front.
  std::map<std::uint32_t, double> counts(const Words& context, bool highest) const {
    std::map<std::uint32_t, double> found;
    if (!occurrences.contains(context)) return found;
    for (const auto& [word, count] : occurrences.at(context))
      found[word] = highest ? count : static_cast<double>(in_front.at(context).at(word).size());
    return found;
  }

  double discount(std::size_t length, bool highest) const {
    double once = 0, twice = 0;
    for (const auto& [context, words] : occurrences) {
      if (context.size() != length) continue;
      for (const auto& [word, count] : counts(context, highest)) once += count == 1, twice += count == 2;
    }
    return once > 0 ? once / (once + 2 * twice) : 0;
  }

  double probability(Smoothing smoothing, int order, const Words& before, std::uint32_t word) const {
    double p = 1 / possible;
    for (int k = 1; k <= order && k - 1 <= std::ssize(before); ++k) {
      const Words context(before.end() - (k - 1), before.end());
      const bool highest = k == order || smoothing == Smoothing::witten_bell;
      const auto all = counts(context, highest);
      double sum = 0, different = 0;
      for (const auto& [other, count] : all) sum += count, different += count > 0;
      if (sum == 0) continue;
      const double count = all.contains(word) ? all.at(word) : 0;
      if (smoothing == Smoothing::witten_bell) {
        p = (count + different * p) / (sum + different);
      } else {
        const double d = discount(context.size(), highest);
        p = (std::max(count - d, 0.0) + d * different * p) / sum;
      }
    }
    return p;
  }

  std::uint32_t likeliest(int order, const Words& before) const {
    for (int length = std::min<int>(order - 1, static_cast<int>(before.size())); length >= 0; --length) {
      const auto found = occurrences.find(Words(before.end() - length, before.end()));
      if (found == occurrences.end()) continue;
      std::uint32_t best = 0;
      int most = 0;
      for (const auto& [word, count] : found->second)
        if (count > most) best = word, most = count;  // of equals the lowest stays
      return best;
    }
    return 0;
  }
};

class NGramsOf : public testing::TestWithParam<std::size_t> {
 protected:
  static constexpr std::size_t tokens = 14;
  const ListedSamples data = random_texts(40, tokens, GetParam());
  const std::vector<std::size_t> members = {0, 1, 2, 4, 5, 7, 8, 9, 12, 13, 17, 18, 21, 25, 30, 31, 39};

  std::vector<Words> texts(const std::vector<std::size_t>& chosen) const {
    std::vector<Words> found;
    std::vector<double> numbers(tokens * GetParam());
    for (const std::size_t index : chosen) {
      data.tokens(index, numbers.data());
      auto& text = found.emplace_back();
      for (int t = 0; t < data.length(index); ++t)
        text.push_back(static_cast<std::uint32_t>(numbers[static_cast<std::size_t>(t) * GetParam()]));
    }
    return found;
  }
  std::vector<char> allowed() const {
    std::vector<char> can(static_cast<std::size_t>(data.vocabulary()), 1);
    can[0] = can[1] = 0;
    return can;
  }
};

TEST_P(NGramsOf, are_their_definition_on_known_and_on_other_texts) {
  const Definition definition(texts(members), allowed());
  const data::NGrams counts(data, members, allowed(), largest_order);
  EXPECT_EQ(counts.order(), largest_order);
  for (const auto& text : texts(all_of(data)))
    for (std::size_t t = 0; t < text.size(); ++t) {
      const Words before(text.begin(), text.begin() + static_cast<long>(t));
      const auto guesses = counts.guesses(before, text[t]);
      ASSERT_EQ(guesses.size(), largest_order);
      for (int order = 1; order <= largest_order; ++order) {
        const auto& guess = guesses[static_cast<std::size_t>(order) - 1];
        EXPECT_EQ(guess.likeliest, definition.likeliest(order, before));
        // A few dozen roundings of numbers up to 1.
        EXPECT_NEAR(guess.witten_bell, definition.probability(Smoothing::witten_bell, order, before, text[t]),
                    1e-14);
        EXPECT_NEAR(guess.kneser_ney, definition.probability(Smoothing::kneser_ney, order, before, text[t]),
                    1e-14);
      }
    }
}

TEST_P(NGramsOf, have_probabilities_of_all_possible_words_that_sum_to_one) {
  const data::NGrams counts(data, members, allowed(), largest_order);
  const auto words = static_cast<std::uint32_t>(data.vocabulary());
  for (const Words& before : {Words{}, Words{3}, Words{2, 5}, Words{4, 4, 6}, Words{1, 1, 1}})
    for (std::size_t k = 0; k < largest_order; ++k) {
      double witten_bell = 0, kneser_ney = 0;
      for (std::uint32_t word = 2; word < words; ++word) {
        const auto guess = counts.guesses(before, word).at(k);
        witten_bell += guess.witten_bell, kneser_ney += guess.kneser_ney;
      }
      EXPECT_NEAR(witten_bell, 1, 1e-14);
      EXPECT_NEAR(kneser_ney, 1, 1e-14);
    }
}

TEST_P(NGramsOf, know_nothing_without_texts) {
  const data::NGrams counts(data, {}, allowed(), 2);
  const auto guesses = counts.guesses(Words{3}, 4);
  ASSERT_EQ(guesses.size(), 2);
  for (const auto& guess : guesses) {
    EXPECT_EQ(guess.likeliest, 0);
    EXPECT_EQ(guess.kneser_ney, 1.0 / (data.vocabulary() - 2));
    EXPECT_EQ(guess.witten_bell, guess.kneser_ney);
  }
}

INSTANTIATE_TEST_SUITE_P(with_and_without_segments, NGramsOf, testing::Values(1U, 2U));

/// Sums over words to guess, of n-grams of orders 1, 2 and on.
struct Reached {
  explicit Reached(int orders) : witten_bell(orders, 0.0), kneser_ney(orders, 0.0), right(orders, 0.0) {}

  double targets = 0;
  std::vector<double> witten_bell, kneser_ney;  ///< sums of -log p, [order - 1]
  std::vector<double> right;                    ///< number of words

  void add(const std::vector<data::NGrams::Guess>& guesses, std::uint32_t word, double times = 1) {
    targets += times;
    for (std::size_t k = 0; k < guesses.size(); ++k) {
      witten_bell[k] -= times * std::log(guesses[k].witten_bell);
      kneser_ney[k] -= times * std::log(guesses[k].kneser_ney);
      right[k] += guesses[k].likeliest == word ? times : 0;
    }
  }
};

/// $FLUXFORMER_DATA if it holds 20news/, else nothing.
const char* folder_of_posts() {
  const char* const given = std::getenv("FLUXFORMER_DATA");
  return given != nullptr && std::filesystem::exists(std::filesystem::path(given) / "20news") ? given
                                                                                              : nullptr;
}
constexpr const char* no_posts = "no newsgroups: set FLUXFORMER_DATA to the folder that holds 20news/";

/// The real posts: 128 words of each, 8000 words. Perplexities and accuracies are those of another program, with one
/// and two decimals.
struct KindOfPosts {
  const char* name;
  bool whole;  ///< with headers, quotes and footers
  double training_targets, targets;
  std::array<double, 5> witten_bell, kneser_ney, right;
};
class NGramsOfPosts : public testing::TestWithParam<KindOfPosts> {};

TEST_P(NGramsOfPosts, have_the_perplexities_that_another_program_found) {
  const char* const given = folder_of_posts();
  if (given == nullptr) GTEST_SKIP() << no_posts;
  const auto& expected = GetParam();
  data::DatasetSpec spec{.name = "20news", .directory = given};
  spec.length = 128;
  spec.vocabulary = 8000;
  spec.keep_headers = spec.keep_quotes = spec.keep_footers = expected.whole;
  const data::Newsgroups train(spec);
  spec.words = train.words();
  spec.split = "test";
  const data::Newsgroups test(spec);
  std::vector<char> allowed(static_cast<std::size_t>(train.vocabulary()), 1);
  allowed[data::Vocabulary::pad] = allowed[data::Vocabulary::unknown] = 0;
  constexpr int orders = 5;
  EXPECT_EQ(data::next_words_of(train, all_of(train), allowed).targets.size(), expected.training_targets);
  const data::NGrams counts(train, all_of(train), allowed, orders);
  Reached reached(orders);
  for (std::size_t index = 0; index < test.size(); ++index) {
    const auto text = test.text(index);
    for (std::size_t t = 1; t < text.size(); ++t)
      if (allowed[text[t]] != 0) reached.add(counts.guesses({text.data(), t}, text[t]), text[t]);
  }
  EXPECT_EQ(reached.targets, expected.targets);
  for (std::size_t k = 0; k < orders; ++k) {
    EXPECT_NEAR(std::exp(reached.witten_bell[k] / reached.targets), expected.witten_bell[k], 0.051);
    EXPECT_NEAR(std::exp(reached.kneser_ney[k] / reached.targets), expected.kneser_ney[k], 0.051);
    EXPECT_NEAR(100 * reached.right[k] / reached.targets, expected.right[k], 0.0051);
  }
}

INSTANTIATE_TEST_SUITE_P(each_kind, NGramsOfPosts,
                         testing::Values(KindOfPosts{"whole",
                                                     true,
                                                     1179142,
                                                     770011,
                                                     {1049.3, 172.0, 121.4, 117.1, 118.3},
                                                     {1049.0, 166.6, 104.4, 85.8, 79.0},
                                                     {3.64, 20.02, 27.85, 31.21, 32.59}},
                                         KindOfPosts{"stripped",
                                                     false,
                                                     844838,
                                                     551982,
                                                     {822.1, 307.1, 306.5, 335.0, 346.3},
                                                     {821.8, 288.0, 245.7, 234.6, 230.6},
                                                     {5.33, 13.62, 16.03, 16.53, 16.70}}),
                         [](const auto& kind) { return kind.param.name; });

/// The bytes of texts, one text a sample.
class BytesOfTexts final : public data::Dataset {
 public:
  void add(const std::string& text) {
    texts_.push_back(text);
    longest_ = std::max(longest_, text.size());
  }
  const std::vector<std::string>& texts() const { return texts_; }

  std::string name() const override { return "bytes"; }
  std::size_t size() const override { return texts_.size(); }
  int classes() const override { return 1; }
  int label(std::size_t) const override { return 0; }
  int tokens_x() const override { return static_cast<int>(longest_); }
  int tokens_y() const override { return 1; }
  int features() const override { return 1; }
  int length(std::size_t index) const override { return static_cast<int>(texts_.at(index).size()); }
  int vocabulary() const override { return 256; }
  void tokens(std::size_t index, double* out) const override {
    std::ranges::transform(texts_.at(index), out, [](char byte) { return static_cast<unsigned char>(byte); });
  }
  void variant(std::size_t index, const RandomStream&, double, double* out) const override {
    tokens(index, out);
  }

 private:
  std::vector<std::string> texts_;
  std::size_t longest_ = 0;
};

/// The bytes of the real posts, with headers: bits per byte and accuracies of another program, with three and two
/// decimals.
TEST(NGramsOfBytes, have_the_bits_per_byte_that_another_program_found) {
  const char* const given = folder_of_posts();
  if (given == nullptr) GTEST_SKIP() << no_posts;
  const char* const tier = std::getenv("FLUXFORMER_TIER");
  if (tier == nullptr || std::string_view(tier) != "full") GTEST_SKIP() << "in the second tier only: minutes";
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "too slow under the sanitizers";
#endif
  BytesOfTexts train, test;
  const data::NewsgroupFiles posts(given);
  posts.for_each(true, [&](int, long, const std::string& text) { train.add(text); });
  posts.for_each(false, [&](int, long, const std::string& text) { test.add(text); });
  constexpr int orders = 6;
  const std::vector<char> allowed(256, 1);
  EXPECT_EQ(data::next_words_of(train, all_of(train), allowed).targets.size(), 22043180);
  const data::NGrams counts(train, all_of(train), allowed, orders);
  // Each different byte with the five before it, or all of its text, counts as often as it occurs.
  std::unordered_map<std::string_view, double> different;
  for (const std::string_view text : test.texts())
    for (std::size_t t = 1; t < text.size(); ++t) {
      const std::size_t before = std::min<std::size_t>(t, orders - 1);
      ++different[text.substr(t - before, before + 1)];
    }
  Reached reached(orders);
  for (const auto& [bytes, times] : different) {
    Words words;
    for (const char byte : bytes) words.push_back(static_cast<unsigned char>(byte));
    reached.add(counts.guesses({words.data(), words.size() - 1}, words.back()), words.back(), times);
  }
  EXPECT_EQ(reached.targets, 13792977);
  constexpr std::array witten_bell{5.013, 4.040, 3.278, 2.704, 2.362, 2.236},
      kneser_ney{5.014, 4.040, 3.275, 2.670, 2.291, 2.116}, right{16.94, 24.51, 37.07, 47.86, 55.63, 59.57};
  for (std::size_t k = 0; k < orders; ++k) {
    EXPECT_NEAR(reached.witten_bell[k] / reached.targets / std::numbers::ln2, witten_bell[k], 0.00051);
    EXPECT_NEAR(reached.kneser_ney[k] / reached.targets / std::numbers::ln2, kneser_ney[k], 0.00051);
    EXPECT_NEAR(100 * reached.right[k] / reached.targets, right[k], 0.0051);
  }
}

}  // namespace
}  // namespace fluxformer::test
