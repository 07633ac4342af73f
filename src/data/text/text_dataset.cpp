#include "data/text/text_dataset.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace fluxformer::data {

TextDataset::TextDataset(Vocabulary vocabulary, int longest)
    : vocabulary_(std::move(vocabulary)), longest_(longest) {}

void TextDataset::tokens(std::size_t index, double* out) const {
  const std::vector<std::uint32_t> words = text(index);
  double* const end = std::copy(words.begin(), words.end(), out);
  std::fill(end, out + longest_, Vocabulary::pad);
}

void TextDataset::variant(std::size_t index, const RandomStream& draw, double strength, double* out) const {
  tokens(index, out);
  for (int token = 0; token < length(index); ++token)
    if (draw.uniform(static_cast<std::uint64_t>(token)) < strength) out[token] = Vocabulary::unknown;
}

void check_text(const DatasetSpec& spec) {
  const auto at_least = [](const char* key, int value, int least, const char* what) {
    if (value < least) {
      throw BadInput(std::string(key) + " = " + std::to_string(value) + ": " + what + ", at least " +
                     std::to_string(least));
    }
  };
  at_least("data.length", spec.length, 1, "tokens per text");
  at_least("data.vocabulary", spec.vocabulary, 3, "words with <pad> and <unk>");
  at_least("data.least_count", spec.least_count, 1, "training documents that a word occurs in");
}

}  // namespace fluxformer::data
