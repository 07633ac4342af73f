#include "data/text/baselines.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "data/text/words_of.hpp"

namespace fluxformer::data {
WordGuess::WordGuess(const Dataset& data, const std::vector<std::size_t>& members,
                     const std::vector<char>& allowed)
    : followers_(allowed.size(), -1) {
  std::vector<std::size_t> counts(allowed.size(), 0);
  std::vector<std::pair<std::uint32_t, std::uint32_t>> pairs;  // (word, the next one)
  for (const std::size_t index : members) {
    const auto words = words_of(data, index);
    for (std::size_t t = 0; t < words.size(); ++t) {
      if (allowed[words[t]] == 0) continue;
      ++counts[words[t]];
      if (t > 0) pairs.emplace_back(words[t - 1], words[t]);
    }
  }
  likeliest_ = static_cast<int>(std::max_element(counts.begin(), counts.end()) - counts.begin());
  std::sort(pairs.begin(), pairs.end());
  std::vector<std::size_t> most(allowed.size(), 0);
  for (std::size_t first = 0; first < pairs.size();) {
    std::size_t end = first;
    while (end < pairs.size() && pairs[end] == pairs[first]) ++end;
    const auto [word, next] = pairs[first];
    if (end - first > most[word]) {
      most[word] = end - first;
      followers_[word] = static_cast<int>(next);
    }
    first = end;
  }
}

int WordGuess::after(int word) const {
  const int found = static_cast<std::size_t>(word) < followers_.size() ? followers_[word] : -1;
  return found >= 0 ? found : likeliest_;
}

namespace {

/// The words of a sample other than those that stand for none.
std::vector<std::uint32_t> real_words_of(const Dataset& data, std::size_t index) {
  const auto none = data.placeholders();
  auto words = words_of(data, index);
  std::erase_if(words, [&](std::uint32_t word) {
    return std::ranges::find(none, static_cast<int>(word)) != none.end();
  });
  return words;
}

std::vector<std::size_t> every_index(const Dataset& data) {
  std::vector<std::size_t> all(data.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  return all;
}

}  // namespace

NaiveBayes::NaiveBayes(double alpha) : alpha_(alpha) {
  if (!(alpha > 0) || !std::isfinite(alpha)) {
    throw BadInput("naive Bayes: alpha = " + std::to_string(alpha) + ", must be above 0");
  }
}

void NaiveBayes::fit(const Dataset& train) {
  fit(train, every_index(train));
}

void NaiveBayes::fit(const Dataset& train, const std::vector<std::size_t>& members) {
  const int counted = train.vocabulary() - static_cast<int>(train.placeholders().size());
  if (counted < 1 || members.empty()) {
    throw BadInput("naive Bayes needs texts: " + train.name() + " has " + std::to_string(members.size()) +
                   " samples and " + std::to_string(train.vocabulary()) + " words");
  }
  vocabulary_ = static_cast<std::size_t>(train.vocabulary());
  classes_ = static_cast<std::size_t>(train.classes());
  std::vector<double> documents(classes_), total(classes_);
  word_.assign(vocabulary_ * classes_, 0.0);
  for (const std::size_t i : members) {
    if (train.label(i) < 0) throw BadInput("naive Bayes: sample " + std::to_string(i) + " has no label");
    const auto c = static_cast<std::size_t>(train.label(i));
    ++documents[c];
    for (const std::size_t word : real_words_of(train, i)) ++word_[word * classes_ + c], ++total[c];
  }
  prior_.resize(classes_);
  const double words = counted;
  for (std::size_t c = 0; c < classes_; ++c) {
    prior_[c] = std::log(documents[c] / static_cast<double>(members.size()));
    const double whole = std::log(total[c] + alpha_ * words);
    for (std::size_t word = 0; word < vocabulary_; ++word) {
      double& entry = word_[word * classes_ + c];
      entry = std::log(entry + alpha_) - whole;
    }
  }
}

int NaiveBayes::predict(const Dataset& data, std::size_t index) const {
  if (prior_.empty()) throw BadInput("naive Bayes was used before it was fitted");
  if (static_cast<std::size_t>(data.vocabulary()) != vocabulary_) {
    throw BadInput("naive Bayes was fitted to " + std::to_string(vocabulary_) + " words, " + data.name() +
                   " has " + std::to_string(data.vocabulary()));
  }
  std::vector<double> score = prior_;
  for (const std::size_t word : real_words_of(data, index)) {
    for (std::size_t c = 0; c < classes_; ++c) score[c] += word_[word * classes_ + c];
  }
  return static_cast<int>(std::max_element(score.begin(), score.end()) - score.begin());
}

double NaiveBayes::accuracy(const Dataset& data) const {
  return accuracy(data, every_index(data));
}

double NaiveBayes::accuracy(const Dataset& data, const std::vector<std::size_t>& members) const {
  std::size_t right = 0;
  for (const std::size_t i : members) right += predict(data, i) == data.label(i) ? 1 : 0;
  return members.empty() ? 0.0 : static_cast<double>(right) / static_cast<double>(members.size());
}

}  // namespace fluxformer::data
