#include "data/text/packed_texts.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "data/text/vocabulary.hpp"
#include "data/text/words_of.hpp"

namespace fluxformer::data {

EndWord end_word_of(const Dataset& texts) {
  const auto words = texts.words();
  for (const auto mark : end_marks)
    if (const auto place = std::ranges::find(words, mark); place != words.end())
      return {.index = static_cast<int>(place - words.begin()), .name = *place};
  return {.index = texts.vocabulary(), .added = true, .name = std::string(end_marks[0])};
}

PackedTexts::PackedTexts(const Dataset& texts, EndWord end, int tokens, const std::vector<Part>& parts)
    : name_(texts.name()),
      origin_(texts.origin()),
      why_no_variants_(texts.why_no_variants()),
      names_(texts.words()),
      placeholders_(texts.placeholders()),
      vocabulary_(texts.vocabulary() + (end.added ? 1 : 0)),
      unknown_(texts.unknown_word()),
      tokens_(tokens),
      one_split_(texts.one_split()),
      end_(std::move(end)) {
  if (end_.added && !names_.empty()) names_.push_back(end_.name);
  const auto last = static_cast<std::uint32_t>(end_.index);
  for (const auto& part : parts) {
    auto& joined = parts_.emplace_back(Joined{part.step, {}, {}});
    for (const std::size_t index : part.texts) {
      const auto words = words_of(texts, index);
      joined.words.insert(joined.words.end(), words.begin(), words.end());
      if (words.empty() || words.back() != last) joined.words.push_back(last);
      const auto bytes = texts.token_bytes(index);
      joined.bytes.insert(joined.bytes.end(), bytes.begin(), bytes.end());
      if (!bytes.empty()) joined.bytes.resize(joined.words.size());
    }
    // A line begins wherever the one before it leaves tokens that have to be guessed.
    const auto all = joined.words.size(), reach = static_cast<std::size_t>(tokens);
    for (std::size_t first = 0, left = 1; left < all; left = first + reach, first += part.step)
      lines_.push_back({parts_.size() - 1, first});
  }
}

std::vector<std::size_t> PackedTexts::lines_of(std::size_t part) const {
  std::vector<std::size_t> found;
  for (std::size_t index = 0; index < lines_.size(); ++index)
    if (lines_[index].part == part) found.push_back(index);
  return found;
}

const PackedTexts::Line& PackedTexts::line(std::size_t index) const {
  require(index);
  return lines_[index];
}

int PackedTexts::label(std::size_t index) const {
  require(index);
  return -1;
}

int PackedTexts::length(std::size_t index) const {
  const auto& at = line(index);
  return static_cast<int>(
      std::min<std::size_t>(static_cast<std::size_t>(tokens_), parts_[at.part].words.size() - at.first));
}

int PackedTexts::seen(std::size_t index) const {
  const auto& at = line(index);
  return at.first == 0 ? 0 : tokens_ - parts_[at.part].step;
}

void PackedTexts::tokens(std::size_t index, double* out) const {
  const auto& at = line(index);
  const auto* const first = parts_[at.part].words.data() + at.first;
  double* const rest = std::copy_n(first, length(index), out);
  std::fill(rest, out + tokens_, 0.0);
}

std::vector<int> PackedTexts::token_bytes(std::size_t index) const {
  const auto& at = line(index);
  const auto& bytes = parts_[at.part].bytes;
  if (bytes.empty()) return {};
  return {bytes.begin() + static_cast<std::ptrdiff_t>(at.first),
          bytes.begin() + static_cast<std::ptrdiff_t>(at.first) + length(index)};
}

void PackedTexts::variant(std::size_t index, const RandomStream& draw, double strength, double* out) const {
  if (!why_no_variants_.empty()) throw BadInput(why_no_variants_);
  tokens(index, out);
  for (int token = 0; token < length(index); ++token)
    if (draw.uniform(static_cast<std::uint64_t>(token)) < strength) out[token] = unknown_;
}

}  // namespace fluxformer::data
