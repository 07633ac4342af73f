// n-grams against their definition, by maps from contexts to counts.

#include "data/text/ngrams.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>

#include "data/text/newsgroups.hpp"
#include "tests/support/listed_samples.hpp"

namespace fluxformer::test {
namespace {

using data::Smoothing;
using Words = std::vector<std::uint32_t>;

constexpr int largest_order = 4;

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
      for (int order = 1; order <= largest_order; ++order) {
        EXPECT_EQ(counts.likeliest(order, before), definition.likeliest(order, before));
        for (const auto smoothing : {Smoothing::witten_bell, Smoothing::kneser_ney})
          // A few dozen roundings of numbers up to 1.
          EXPECT_NEAR(counts.probability(smoothing, order, before, text[t]),
                      definition.probability(smoothing, order, before, text[t]), 1e-14);
      }
    }
}

TEST_P(NGramsOf, have_probabilities_of_all_possible_words_that_sum_to_one) {
  const data::NGrams counts(data, members, allowed(), largest_order);
  const auto words = static_cast<std::uint32_t>(data.vocabulary());
  for (const Words& before : {Words{}, Words{3}, Words{2, 5}, Words{4, 4, 6}, Words{1, 1, 1}})
    for (int order = 1; order <= largest_order; ++order)
      for (const auto smoothing : {Smoothing::witten_bell, Smoothing::kneser_ney}) {
        double sum = 0;
        for (std::uint32_t word = 2; word < words; ++word)
          sum += counts.probability(smoothing, order, before, word);
        EXPECT_NEAR(sum, 1, 1e-14);
      }
}

TEST_P(NGramsOf, know_nothing_without_texts) {
  const data::NGrams counts(data, {}, allowed(), 2);
  EXPECT_EQ(counts.likeliest(2, Words{3}), 0);
  EXPECT_EQ(counts.probability(Smoothing::kneser_ney, 2, Words{3}, 4), 1.0 / (data.vocabulary() - 2));
}

INSTANTIATE_TEST_SUITE_P(with_and_without_segments, NGramsOf, testing::Values(1U, 2U));

/// The real posts, $FLUXFORMER_DATA/20news, without headers, quotes and footers: 128 words of each, 8000 words.
/// Perplexities and accuracies are those of another program, with one and two decimals.
TEST(NGramsOfPosts, have_the_perplexities_that_another_program_found) {
  const char* given = std::getenv("FLUXFORMER_DATA");
  if (given == nullptr || !std::filesystem::exists(std::filesystem::path(given) / "20news"))
    GTEST_SKIP() << "no newsgroups: set FLUXFORMER_DATA to the folder that holds 20news/";
  data::DatasetSpec spec{.name = "20news", .directory = given};
  spec.length = 128;
  spec.vocabulary = 8000;
  spec.keep_headers = spec.keep_quotes = spec.keep_footers = false;
  const data::Newsgroups train(spec);
  spec.words = train.words();
  spec.split = "test";
  const data::Newsgroups test(spec);
  std::vector<char> allowed(static_cast<std::size_t>(train.vocabulary()), 1);
  allowed[data::Vocabulary::pad] = allowed[data::Vocabulary::unknown] = 0;
  constexpr int orders = 5;
  const data::NGrams counts(train, all_of(train), allowed, orders);
  std::vector<double> witten_bell(orders, 0.0), kneser_ney(orders, 0.0), right(orders, 0.0);
  double targets = 0;
  for (std::size_t index = 0; index < test.size(); ++index) {
    const auto text = test.text(index);
    for (std::size_t t = 1; t < text.size(); ++t) {
      if (allowed[text[t]] == 0) continue;
      ++targets;
      const data::NGrams::Context before(text.data(), t);
      for (int order = 1; order <= orders; ++order) {
        witten_bell[order - 1] -=
            std::log(counts.probability(Smoothing::witten_bell, order, before, text[t]));
        kneser_ney[order - 1] -= std::log(counts.probability(Smoothing::kneser_ney, order, before, text[t]));
        right[order - 1] += counts.likeliest(order, before) == text[t] ? 1 : 0;
      }
    }
  }
  EXPECT_EQ(targets, 551982);
  constexpr std::array expected_witten_bell{822.1, 307.1, 306.5, 335.0, 346.3},
      expected_kneser_ney{821.8, 288.0, 245.7, 234.6, 230.6},
      expected_right{5.33, 13.62, 16.03, 16.53, 16.70};
  for (std::size_t k = 0; k < orders; ++k) {
    EXPECT_NEAR(std::exp(witten_bell[k] / targets), expected_witten_bell[k], 0.051);
    EXPECT_NEAR(std::exp(kneser_ney[k] / targets), expected_kneser_ney[k], 0.051);
    EXPECT_NEAR(100 * right[k] / targets, expected_right[k], 0.0051);
  }
}

}  // namespace
}  // namespace fluxformer::test
