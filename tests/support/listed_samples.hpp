#pragma once

// A data set of a few samples held in memory.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "data/dataset.hpp"
#include "tests/support/test_vectors.hpp"

namespace fluxformer::test {

/// Samples held in memory.
class ListedSamples final : public data::Dataset {
 public:
  struct Content {
    int tokens_x = 1, tokens_y = 1, features = 1, classes = 2, vocabulary = 0;
    std::vector<double> input;  ///< [sample][token][feature]
    std::vector<int> lengths, labels;
    std::vector<std::string> words = {};  ///< their names
    std::vector<int> placeholders = {};
    std::vector<int> bytes = {};  ///< of words, [sample][token]; empty: not known
  };
  explicit ListedSamples(Content content) : c_(std::move(content)) {}

  std::string name() const override { return "listed"; }
  std::size_t size() const override { return c_.labels.size(); }
  int classes() const override { return c_.classes; }
  int label(std::size_t index) const override { return c_.labels.at(index); }
  int tokens_x() const override { return c_.tokens_x; }
  int tokens_y() const override { return c_.tokens_y; }
  int features() const override { return c_.features; }
  int length(std::size_t index) const override { return c_.lengths.at(index); }
  int vocabulary() const override { return c_.vocabulary; }
  int unknown_word() const override { return c_.vocabulary > 0 ? 1 : -1; }
  std::vector<std::string> words() const override { return c_.words; }
  std::vector<int> placeholders() const override { return c_.placeholders; }
  std::vector<int> token_bytes(std::size_t index) const override {
    if (c_.bytes.empty()) return {};
    const auto first =
        c_.bytes.begin() + static_cast<std::ptrdiff_t>(index * c_.bytes.size() / c_.labels.size());
    return {first, first + length(index)};
  }
  void tokens(std::size_t index, double* out) const override {
    const std::size_t size = c_.input.size() / c_.labels.size();
    std::copy_n(c_.input.begin() + static_cast<std::ptrdiff_t>(index * size), size, out);
  }
  void variant(std::size_t index, const RandomStream& draw, double strength, double* out) const override {
    tokens(index, out);
    for (std::size_t j = 0; j < c_.input.size() / c_.labels.size(); ++j) out[j] += strength * draw.normal(j);
  }

 private:
  Content c_;
};

/// `count` samples of normal numbers; lengths and labels cycle through the given values.
inline ListedSamples random_samples(int count, int tokens_x, int tokens_y, int features, int classes,
                                    unsigned seed) {
  const int tokens = tokens_x * tokens_y;
  ListedSamples::Content c{.tokens_x = tokens_x,
                           .tokens_y = tokens_y,
                           .features = features,
                           .classes = classes,
                           .input = random_vector(static_cast<std::size_t>(count * tokens * features), seed),
                           .lengths = {},
                           .labels = {}};
  for (int b = 0; b < count; ++b) {
    c.lengths.push_back(tokens - (3 * b) % tokens);
    c.labels.push_back((b * b + b / 3) % classes);
  }
  return ListedSamples(std::move(c));
}

/// Random samples of the words 0 .. words - 1, and with `segments` > 0 of a segment for each word.
inline ListedSamples random_words(int count, int tokens_x, int tokens_y, int words, int segments,
                                  int classes) {
  const int numbers = segments > 0 ? 2 : 1, tokens = tokens_x * tokens_y;
  ListedSamples::Content c{.tokens_x = tokens_x,
                           .tokens_y = tokens_y,
                           .features = numbers,
                           .classes = classes,
                           .vocabulary = words,
                           .input = {},
                           .lengths = {},
                           .labels = {}};
  for (int b = 0; b < count; ++b) {
    for (int t = 0; t < tokens; ++t) {
      c.input.push_back((t * t + 3 * b + b * t) % words);
      if (segments > 0) c.input.push_back((t + b) % 5 / 3 % segments);
    }
    c.lengths.push_back(tokens - (3 * b) % tokens);
    c.labels.push_back((b * b + b / 3) % classes);
  }
  return ListedSamples(std::move(c));
}

/// The names of the words of `random_texts`, the first two of which are placeholders.
inline std::vector<std::string> names_of_words() {
  return {"<pad>", "<unk>", "[CLS]", "[SEP]", "a", "b", "c", "d", "e", "f", "g", "h"};
}

/// Texts of random words and `numbers` (1, or 2 with segments) per token: [CLS], words and <unk>, [SEP],
/// padding. One in seven has no words between.
inline ListedSamples random_texts(std::size_t count, std::size_t tokens, std::size_t numbers,
                                  std::vector<std::string> names = names_of_words()) {
  constexpr std::uint64_t cls = 2, sep = 3, first = 4;
  const RandomStream draws(11, "texts of a test");
  ListedSamples::Content c{.tokens_x = static_cast<int>(tokens),
                           .features = static_cast<int>(numbers),
                           .vocabulary = static_cast<int>(names.size()),
                           .input = std::vector<double>(count * tokens * numbers, 0.0),
                           .lengths = {},
                           .labels = std::vector<int>(count, 0),
                           .words = std::move(names),
                           .placeholders = {0, 1}};
  const auto words = names_of_words().size() - first;
  for (std::size_t b = 0; b < count; ++b) {
    const auto draw = draws.item(b);
    const std::size_t length = b % 7 == 3 ? 2 : 2 + draw.below(0, tokens - 1);
    c.lengths.push_back(static_cast<int>(length));
    for (std::size_t t = 0; t < tokens; ++t) {
      auto word = draw.uniform(2 * tokens + t) < 0.1 ? 1 : first + draw.below(1 + t, words);
      if (t == 0) word = cls;
      if (t + 1 == length) word = sep;
      if (t >= length) word = 0;
      double* const token = c.input.data() + (b * tokens + t) * numbers;
      token[0] = static_cast<double>(word);
      if (numbers > 1) token[1] = static_cast<double>((t + b) % 5 / 3);
    }
  }
  return ListedSamples(std::move(c));
}

inline std::vector<std::size_t> all_of(const data::Dataset& data) {
  std::vector<std::size_t> members(data.size());
  for (std::size_t j = 0; j < members.size(); ++j) members[j] = j;
  return members;
}

}  // namespace fluxformer::test
