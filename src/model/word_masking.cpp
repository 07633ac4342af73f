#include "model/word_masking.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/index.hpp"
#include "data/text/vocabulary.hpp"

namespace fluxformer {
namespace {

bool between(const std::string& word, char first, char last) {
  return word.size() > 2 && word.front() == first && word.back() == last;
}

}  // namespace

MaskVocabulary mask_vocabulary(const data::Dataset& data) {
  const auto words = data.words();
  MaskVocabulary found{.size = data.vocabulary() + 1, .mask = data.vocabulary(), .added = true};
  for (const char* name : {data::Vocabulary::mask_word, "[MASK]"}) {
    const auto place = std::ranges::find(words, name);
    if (place == words.end() || !found.added) continue;
    found.mask = static_cast<int>(place - words.begin());
    found.size = data.vocabulary();
    found.added = false;
  }
  const auto no_words = data.placeholders();
  for (int word = 0; word < data.vocabulary(); ++word) {
    const auto name = words.empty() ? std::string() : words[word];
    if (word == found.mask || std::ranges::find(no_words, word) != no_words.end()) continue;
    if (!between(name, '[', ']') && !between(name, '<', '>')) found.ordinary.push_back(word);
  }
  return found;
}

WordMasking::WordMasking(const data::Dataset& data, double share)
    : vocabulary_(mask_vocabulary(data)), data_(data), share_(share) {
  ordinary_.assign(static_cast<std::size_t>(vocabulary_.size), 0);
  for (const int word : vocabulary_.ordinary) ordinary_[word] = 1;
}

std::size_t WordMasking::count(std::size_t words) const {
  if (words == 0) return 0;
  return std::max<std::size_t>(1, static_cast<std::size_t>(std::lround(share_ * static_cast<double>(words))));
}

double WordMasking::mean_count(const std::vector<std::size_t>& members) const {
  if (members.empty()) return 0;
  const auto numbers = static_cast<std::size_t>(data_.features());
  std::vector<double> tokens(static_cast<std::size_t>(data_.tokens_x() * data_.tokens_y()) * numbers);
  double sum = 0;
  for (const std::size_t index : members) {
    data_.tokens(index, tokens.data());
    std::size_t words = 0;
    for (Index t = 0; t < data_.length(index); ++t)
      words += static_cast<std::size_t>(ordinary_[tokens[t * numbers]]);
    sum += static_cast<double>(count(words));
  }
  return sum / static_cast<double>(members.size());
}

void WordMasking::apply(Batch& batch, const RandomStream& draws, double mean_count) const {
  const std::size_t samples = batch.label.size(), each = batch.input.size() / samples;
  const auto numbers = static_cast<std::size_t>(data_.features());
  batch.masked.clear();
  for (std::size_t slot = 0; slot < samples; ++slot) {
    if (batch.weight[slot] == 0) continue;
    double* const tokens = batch.input.data() + slot * each;
    const auto draw = draws.item(batch.key[slot]);
    const std::size_t all = each / numbers;
    std::vector<std::size_t> places;
    for (Index t = 0; t < batch.length[slot]; ++t)
      if (ordinary_[tokens[t * numbers]] != 0) places.push_back(t);
    std::sort(places.begin(), places.end(),
              [&](std::size_t a, std::size_t b) { return draw.uniform(a) < draw.uniform(b); });
    places.resize(count(places.size()));
    std::sort(places.begin(), places.end());
    for (const std::size_t t : places) {
      double& token = tokens[t * numbers];
      batch.masked.push_back({static_cast<int>(slot), static_cast<int>(t), static_cast<int>(token),
                              batch.weight[slot] / mean_count});
      const double kind = draw.uniform(all + t);
      if (kind < 0.8)
        token = vocabulary_.mask;
      else if (kind < 0.9)
        token = vocabulary_.ordinary[draw.below(2 * all + t, vocabulary_.ordinary.size())];
    }
  }
}

}  // namespace fluxformer
