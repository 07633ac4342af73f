#include "analysis/identifiability/word_classes.hpp"

#include <algorithm>
#include <cctype>

#include "analysis/accumulator.hpp"
#include "base/index.hpp"

namespace fluxformer::identifiability {
namespace {

constexpr std::size_t most_frequent = 20;

}  // namespace

std::vector<int> words_of(const data::Dataset& data, const Batch& batch, std::size_t b, int length) {
  std::vector<int> words;
  if (data.vocabulary() == 0) return words;
  const auto step = static_cast<std::size_t>(data.features());
  const std::size_t per_sample = batch.input.size() / batch.weight.size();
  for (Index i = 0; i < length; ++i)
    words.push_back(static_cast<int>(batch.input[b * per_sample + i * step]));
  return words;
}

WordClasses word_classes(const SampleSet& samples) {
  const auto& data = samples.data();
  if (data.vocabulary() == 0) return {};
  Sums counts(static_cast<std::size_t>(data.vocabulary()));
  accumulate(
      samples,
      [&](const Batch& batch) {
        for_each_sample(batch, [&](std::size_t b, std::size_t) {
          const int length = batch.length.empty() ? samples.line().tokens() : batch.length[b];
          for (const int word : words_of(data, batch, b, length)) counts.local()[word] += 1;
        });
      },
      counts);
  WordClasses classes;
  const auto placeholders = data.placeholders();
  std::vector<int> order;
  for (int word = 0; word < data.vocabulary(); ++word)
    if (std::ranges::find(placeholders, word) == placeholders.end()) order.push_back(word);
  std::ranges::stable_sort(order, [&](int a, int b) { return counts.total()[a] > counts.total()[b]; });
  order.resize(std::min(order.size(), most_frequent));
  classes.frequent = {order.begin(), order.end()};
  const auto names = data.words();
  for (std::size_t word = 0; word < names.size(); ++word) {
    const bool bare = std::ranges::none_of(names[word], [](char c) {
      const auto u = static_cast<unsigned char>(c);
      return std::isalnum(u) != 0 || u >= 128;  // letters beyond ASCII
    });
    if (bare && !names[word].empty()) classes.punctuation.insert(static_cast<int>(word));
  }
  return classes;
}

}  // namespace fluxformer::identifiability
