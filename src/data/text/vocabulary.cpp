#include "data/text/vocabulary.hpp"

#include <algorithm>
#include <numeric>

#include "base/error.hpp"

namespace fluxformer::data {

bool same_but_for_added(const std::vector<std::string>& known, const std::vector<std::string>& words) {
  const bool one_more = known.size() == words.size() + 1 &&
                        (known.back() == Vocabulary::mask_word || known.back() == end_marks[0]);
  return (one_more || known.size() == words.size()) && std::equal(words.begin(), words.end(), known.begin());
}

Vocabulary::Vocabulary(std::vector<std::string> words) : words_(std::move(words)) {
  if (words_.size() < 3 || words_[pad] != pad_word || words_[unknown] != unknown_word) {
    throw BadInput("the given vocabulary has " + std::to_string(words_.size()) +
                   " words; it must begin with <pad> and <unk> and hold at least one more");
  }
  for (std::size_t i = 0; i < words_.size(); ++i) {
    if (!indices_.emplace(words_[i], static_cast<std::uint32_t>(i)).second) {
      throw BadInput("the given vocabulary contains the word '" + words_[i] + "' twice");
    }
  }
}

std::uint32_t Vocabulary::index(std::string_view word) const {
  const auto found = indices_.find(word);
  return found == indices_.end() ? unknown : found->second;
}

std::uint32_t Lexicon::number(std::string_view word) {
  if (const auto found = numbers_.find(word); found != numbers_.end()) return found->second;
  const auto next = static_cast<std::uint32_t>(words_.size());
  words_.push_back(&numbers_.emplace(word, next).first->first);
  documents_.push_back(0);
  last_.push_back(0);
  return next;
}

void Lexicon::count(const std::vector<std::uint32_t>& document) {
  ++document_;
  for (const std::uint32_t number : document) {
    if (last_[number] != document_) ++documents_[number];
    last_[number] = document_;
  }
}

Vocabulary Lexicon::vocabulary(int largest, int least_count) const {
  std::vector<std::uint32_t> order;
  for (std::uint32_t number = 0; number < words_.size(); ++number) {
    if (documents_[number] >= static_cast<std::uint32_t>(least_count)) order.push_back(number);
  }
  if (order.empty()) {
    throw BadInput("data.least_count = " + std::to_string(least_count) +
                   ": no word occurs in that many of the " + std::to_string(document_) +
                   " training documents");
  }
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return documents_[a] != documents_[b] ? documents_[a] > documents_[b] : *words_[a] < *words_[b];
  });
  order.resize(std::min(order.size(), static_cast<std::size_t>(largest) - 2));
  std::vector<std::string> words{Vocabulary::pad_word, Vocabulary::unknown_word};
  for (const std::uint32_t number : order) words.push_back(*words_[number]);
  return Vocabulary(std::move(words));
}

std::vector<std::uint32_t> Lexicon::indices(const Vocabulary& vocabulary) const {
  std::vector<std::uint32_t> list;
  list.reserve(words_.size());
  for (const std::string* word : words_) list.push_back(vocabulary.index(*word));
  return list;
}

}  // namespace fluxformer::data
