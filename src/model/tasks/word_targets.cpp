#include "model/tasks/word_targets.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/error.hpp"
#include "data/text/vocabulary.hpp"
#include "data/text/words_of.hpp"

namespace fluxformer {
namespace {

bool between(const std::string& word, char first, char last) {
  return word.size() > 2 && word.front() == first && word.back() == last;
}

/// Lists the words of the data that may be masked.
void add_ordinary(const data::Dataset& data, MaskVocabulary& found) {
  const auto words = data.words();
  const auto no_words = data.placeholders();
  for (int word = 0; word < data.vocabulary(); ++word) {
    const auto name = words.empty() ? std::string() : words[word];
    if (word == found.mask || std::ranges::find(no_words, word) != no_words.end()) continue;
    if (!between(name, '[', ']') && !between(name, '<', '>')) found.ordinary.push_back(word);
  }
}

}  // namespace

MaskVocabulary mask_vocabulary(const data::Dataset& data) {
  const auto words = data.words();
  // The mask is a word of the data if one has such a name, else a new one behind the last.
  MaskVocabulary found{.size = data.vocabulary() + 1, .mask = data.vocabulary(), .added = true};
  for (const char* name : {data::Vocabulary::mask_word, "[MASK]"}) {
    const auto place = std::ranges::find(words, name);
    if (place == words.end() || !found.added) continue;
    found.mask = static_cast<int>(place - words.begin());
    found.size = data.vocabulary();
    found.added = false;
  }
  add_ordinary(data, found);
  return found;
}

MaskVocabulary mask_vocabulary_of_numbers(const data::Dataset& data) {
  MaskVocabulary found{.size = data.vocabulary(), .mask = data.vocabulary() - 1};
  add_ordinary(data, found);
  return found;
}

WordMasking::WordMasking(const data::Dataset& data, double share, MaskVocabulary vocabulary)
    : vocabulary_(std::move(vocabulary)), data_(data), share_(share) {
  ordinary_.assign(vocabulary_.size, 0);
  for (const int word : vocabulary_.ordinary) ordinary_[word] = 1;
}

std::size_t WordMasking::count(Index words) const {
  if (words == 0) return 0;
  // The share of the words, rounded, but at least one: every text with words has something to guess.
  return std::max(1L, std::lround(share_ * words));
}

double WordMasking::mean_count(const std::vector<std::size_t>& members) const {
  if (members.empty()) return 0;
  double sum = 0;
  for (const std::size_t index : members) {
    Index words = 0;
    for (const auto word : data::words_of(data_, index)) words += ordinary_[word];
    sum += count(words);
  }
  return sum / members.size();
}

void WordMasking::apply(Batch& batch, const RandomStream& draws, double mean_count) const {
  const Index samples = batch.label.size(), each = batch.input.size() / samples;
  const Index numbers = data_.features();
  batch.targets.clear();
  for (Index slot = 0; slot < samples; ++slot) {
    if (batch.weight[slot] == 0) continue;
    double* const tokens = batch.input.data() + slot * each;
    const auto draw = draws.item(batch.key[slot]);
    const Index all = each / numbers;
    // The draws of a sample have three ranges of indices: t for the order, all + t for what becomes of token
    // t, 2 all + t for the word that replaces it.
    std::vector<std::size_t> places;
    for (Index t = 0; t < batch.length[slot]; ++t)
      if (ordinary_[tokens[t * numbers]] != 0) places.push_back(t);
    // A random order, cut to the share; then sorted, so that the list does not depend on the draws' order.
    std::sort(places.begin(), places.end(),
              [&](Index a, Index b) { return draw.uniform(a) < draw.uniform(b); });
    places.resize(count(places.size()));
    std::sort(places.begin(), places.end());
    for (const Index t : places) {
      double& token = tokens[t * numbers];
      // With weights 1/N of the samples, the weights of all chosen words add up to 1 in the mean.
      batch.targets.push_back({static_cast<int>(slot), static_cast<int>(t), static_cast<int>(token),
                               batch.weight[slot] / mean_count});
      // 80 % become the mask, 10 % any ordinary word, 10 % stay.
      const double kind = draw.uniform(all + t);
      if (kind < 0.8)
        token = vocabulary_.mask;
      else if (kind < 0.9)
        token = vocabulary_.ordinary[draw.below(2 * all + t, vocabulary_.ordinary.size())];
    }
  }
}

SampleSet masked_for_evaluation(const SampleSet& samples, double share, const MaskVocabulary& vocabulary,
                                const std::string& key) {
  const WordMasking masking(samples.data(), share, vocabulary);
  const double mean = masking.mean_count(samples.members());
  if (mean == 0) throw BadInput(key + ": the samples for an evaluation have no words that can be masked");
  return samples.prepared([masking, mean](Batch& batch) {
    masking.apply(batch, RandomStream(0, "masked words of an evaluation"), mean);
  });
}

NextWords::NextWords(const data::Dataset& data) : possible_(data.vocabulary(), 1), data_(data) {
  const auto words = data.words();
  if (words.empty())
    for (const int word : data.placeholders()) possible_[word] = 0;
  if (const int unknown = data.unknown_word(); unknown >= 0) possible_[unknown] = 0;
  for (const char* name : {data::Vocabulary::pad_word, "[PAD]"})
    if (const auto place = std::ranges::find(words, name); place != words.end())
      possible_[place - words.begin()] = 0;
}

double NextWords::mean_count(const std::vector<std::size_t>& members) const {
  if (members.empty()) return 0;
  return static_cast<double>(data::next_words_of(data_, members, possible_).targets.size()) / members.size();
}

double NextWords::mean_bytes(const std::vector<std::size_t>& members) const {
  constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
  double sum = 0, targets = 0;
  for (const std::size_t index : members) {
    const auto words = data::words_of(data_, index);
    const auto bytes = data_.token_bytes(index);
    if (bytes.empty()) return unknown;
    for (std::size_t t = std::max(1, data_.seen(index)); t < words.size(); ++t) {
      const bool guessed = possible_[words[t]] != 0;
      if (!guessed && bytes[t] > 0) return unknown;
      sum += bytes[t];
      targets += guessed ? 1 : 0;
    }
  }
  return sum > 0 ? sum / targets : unknown;
}

void NextWords::apply(Batch& batch, double mean_count) const {
  const Index samples = batch.label.size(), each = batch.input.size() / samples;
  const Index numbers = data_.features();
  batch.targets.clear();
  for (Index slot = 0; slot < samples; ++slot) {
    if (batch.weight[slot] == 0) continue;
    const double* const tokens = batch.input.data() + slot * each;
    for (Index t = std::max(1, batch.seen[slot]); t < batch.length[slot]; ++t)
      if (const auto word = static_cast<int>(tokens[t * numbers]); possible_[word] != 0)
        batch.targets.push_back(
            {static_cast<int>(slot), static_cast<int>(t - 1), word, batch.weight[slot] / mean_count});
  }
}

SampleSet next_words_for_evaluation(const SampleSet& samples, const std::string& key) {
  const NextWords next(samples.data());
  const double mean = next.mean_count(samples.members());
  if (mean == 0) throw BadInput(key + ": the samples for an evaluation have no next words to guess");
  return samples.prepared([next, mean](Batch& batch) { next.apply(batch, mean); });
}

}  // namespace fluxformer
