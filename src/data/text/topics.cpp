#include "data/text/topics.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "base/error.hpp"

namespace fluxformer::data {
namespace {

/// Places of the random numbers in the stream of a sample: two numbers for each position, four for each
/// stretch.
enum Draw : std::uint64_t { length, words = 16, stretches = std::uint64_t{1} << 32U };

/// The i-th invented word, of two syllables; there are 3600.
std::string made_up(int i) {
  constexpr std::array<char, 12> consonants{'b', 'd', 'f', 'g', 'k', 'l', 'm', 'n', 'p', 'r', 's', 't'};
  constexpr std::array<char, 5> vowels{'a', 'e', 'i', 'o', 'u'};
  constexpr int syllables = static_cast<int>(consonants.size() * vowels.size());
  const auto syllable = [&](int s) {
    return std::string{consonants[static_cast<std::size_t>(s) / vowels.size()],
                       vowels[static_cast<std::size_t>(s) % vowels.size()]};
  };
  return syllable(i % syllables) + syllable(i / syllables);
}

Vocabulary made_up_vocabulary(const DatasetSpec& spec) {
  if (spec.vocabulary < Topics::least_words) {
    throw BadInput("data.vocabulary = " + std::to_string(spec.vocabulary) + ": data.set = topics needs " +
                   std::to_string(Topics::least_words) + " words at least");
  }
  std::vector<std::string> words{Vocabulary::pad_word, Vocabulary::unknown_word};
  const int count = std::min(spec.vocabulary, Topics::most_words);
  for (int i = 0; static_cast<int>(words.size()) < count; ++i) words.push_back(made_up(i));
  if (!spec.words.empty() && !same_but_for_added(spec.words, words)) {
    throw BadInput("the vocabulary given is not that of data.set = topics with data.vocabulary = " +
                   std::to_string(spec.vocabulary));
  }
  if (spec.words.size() > words.size()) words.push_back(spec.words.back());
  return Vocabulary(std::move(words));
}

/// Running sums of 1 / (i + shift), i = 0..count-1, scaled to end at 1.
std::vector<double> zipf(std::size_t count, double shift) {
  std::vector<double> sums;
  double sum = 0;
  for (std::size_t i = 0; i < count; ++i) sums.push_back(sum += 1 / (static_cast<double>(i) + shift));
  for (double& part : sums) part /= sum;
  return sums;
}

std::size_t pick(const std::vector<double>& sums, double u) {
  const auto found = std::upper_bound(sums.begin(), sums.end() - 1, u);
  return static_cast<std::size_t>(found - sums.begin());
}

}  // namespace

Topics::Topics(const DatasetSpec& spec)
    : TextDataset(made_up_vocabulary(spec), spec.length),
      classes_(spec.classes),
      labels_(spec.seed, spec.split == "train" ? "topics.train.labels" : "topics.test.labels"),
      texts_(spec.seed, spec.split == "train" ? "topics.train.texts" : "topics.test.texts"),
      size_(std::min(spec.at_most, spec.split == "train" ? training_samples : test_samples)) {
  if (classes_ < 4 || classes_ > 20 || classes_ % 4 != 0) {
    throw BadInput("data.classes = " + std::to_string(classes_) +
                   ": data.set = topics supports 4, 8, 12, 16 or 20");
  }
  if (spec.length < stretch) {
    throw BadInput("data.length = " + std::to_string(spec.length) + ": data.set = topics needs at least " +
                   std::to_string(stretch));
  }
  const int in_no_text = 2 + (words().back() == Vocabulary::mask_word ? 1 : 0);
  common_ = zipf(static_cast<std::size_t>(vocabulary() - in_no_text - classes_ / 2), 2.7);
  topical_ = zipf(topic_words, 1);
}

int Topics::label(std::size_t index) const {
  require(index);
  // Fisher-Yates shuffle of the classes, one for every classes() samples.
  const auto count = static_cast<std::size_t>(classes_);
  const RandomStream random = labels_.item(index / count);
  std::array<int, 20> order{};
  for (std::size_t c = 0; c < count; ++c) order[c] = static_cast<int>(c);
  for (std::size_t last = count - 1; last > 0; --last) {
    std::swap(order[last], order[random.below(last, last + 1)]);
  }
  return order[index % count];
}

int Topics::length(std::size_t index) const {
  require(index);
  const int shortest = std::max(stretch, tokens_x() / 4);
  const auto choices = static_cast<std::uint64_t>(tokens_x() - shortest + 1);
  return shortest + static_cast<int>(texts_.item(index).below(Draw::length, choices));
}

std::uint32_t Topics::topic_word(int topic, int j) const {
  constexpr int first_rank = 40, most_topics = 15;  // neither the most common words nor the rare ones
  return static_cast<std::uint32_t>(2 + classes_ / 2 + first_rank + topic + most_topics * j);
}

std::vector<std::uint32_t> Topics::text(std::size_t index) const {
  const int mine = label(index), pairs = classes_ / 4;
  const bool ordered = mine % 4 >= 2;
  const RandomStream random = texts_.item(index);
  std::vector<std::uint32_t> text(length(index));
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool topical = random.uniform(Draw::words + 2 * i) < topic_share;
    const double u = random.uniform(Draw::words + 2 * i + 1);
    text[i] =
        topical ? topic_word(topic(mine), static_cast<int>(pick(topical_, u)))
                : static_cast<std::uint32_t>(2 + classes_ / 2) + static_cast<std::uint32_t>(pick(common_, u));
  }
  for (std::size_t s = 0; s < text.size() / stretch; ++s) {
    const std::uint64_t draw = Draw::stretches + 4 * s;
    const std::uint64_t place = random.below(draw, 3 * (stretch - 3));
    const std::size_t first = s * stretch + place / 3, second = first + 1 + place % 3;
    int pair = mine / 4, order = mine % 4 == 3 ? 1 : 0;
    if (!ordered || (s > 0 && random.uniform(draw + 1) < 0.5)) {
      const int others = ordered ? pairs - 1 : pairs;
      if (others == 0) continue;
      const auto other = static_cast<int>(random.below(draw + 2, static_cast<std::uint64_t>(others)));
      pair = ordered && other >= pair ? other + 1 : other;
      order = random.uniform(draw + 3) < 0.5 ? 0 : 1;
    }
    text[first] = marker(pair, order);
    text[second] = marker(pair, 1 - order);
  }
  return text;
}

}  // namespace fluxformer::data
