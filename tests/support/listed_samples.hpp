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

/// The same with words 0 .. words - 1 for tokens, and with `segments` > 0 a segment to each.
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

inline std::vector<std::size_t> all_of(const data::Dataset& data) {
  std::vector<std::size_t> members(data.size());
  for (std::size_t j = 0; j < members.size(); ++j) members[j] = j;
  return members;
}

}  // namespace fluxformer::test
