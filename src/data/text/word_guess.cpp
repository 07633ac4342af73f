#include "data/text/word_guess.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/index.hpp"

namespace fluxformer::data {

WordGuess::WordGuess(const Dataset& data, const std::vector<std::size_t>& members,
                     const std::vector<char>& allowed)
    : followers_(allowed.size(), -1) {
  const auto numbers = static_cast<std::size_t>(data.features());
  std::vector<double> tokens(static_cast<std::size_t>(data.tokens_x() * data.tokens_y()) * numbers);
  std::vector<std::size_t> counts(allowed.size(), 0);
  std::vector<std::pair<std::uint32_t, std::uint32_t>> pairs;  // (word, the next one)
  for (const std::size_t index : members) {
    data.tokens(index, tokens.data());
    for (Index t = 0; t < data.length(index); ++t) {
      const auto word = static_cast<std::uint32_t>(tokens[t * numbers]);
      if (allowed[word] == 0) continue;
      ++counts[word];
      if (t > 0) pairs.emplace_back(static_cast<std::uint32_t>(tokens[(t - 1) * numbers]), word);
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

}  // namespace fluxformer::data
