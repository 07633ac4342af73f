#include "data/text/words_of.hpp"

#include <algorithm>

#include "base/index.hpp"

namespace fluxformer::data {

std::vector<std::uint32_t> words_of(const Dataset& data, std::size_t index) {
  const Index numbers = data.features();  // of a token; the word is the first
  std::vector<double> tokens(Index{data.tokens_x() * data.tokens_y()} * numbers);
  data.tokens(index, tokens.data());
  std::vector<std::uint32_t> words(data.length(index));
  for (Index t = 0; t < std::ssize(words); ++t) words[t] = static_cast<std::uint32_t>(tokens[t * numbers]);
  return words;
}

std::vector<std::string> named_words_of(const Dataset& data, std::span<const std::size_t> members) {
  const auto names = data.words();
  if (names.empty()) return {};
  const Index tokens = data.tokens_x() * data.tokens_y();
  std::vector<std::string> found(std::ssize(members) * tokens);
  for (Index k = 0; k < std::ssize(members); ++k)
    for (Index t = k * tokens; const auto word : words_of(data, members[k])) found[t++] = names[word];
  return found;
}

NextWordPlaces next_words_of(const Dataset& data, const std::vector<std::size_t>& members,
                             const std::vector<char>& allowed) {
  NextWordPlaces found;
  std::uint32_t in_front = 0;
  for (std::size_t k = 0; k < members.size(); ++k) {
    const auto words = words_of(data, members[k]);
    const std::size_t seen = data.seen(members[k]);
    // The words that it shares with the member before it are in the list.
    const bool goes_on = seen > 0 && k > 0 && members[k] == members[k - 1] + 1;
    if (!goes_on) in_front = 0;
    for (std::size_t t = goes_on ? seen : 0; t < words.size(); ++t) {
      if (t >= std::max<std::size_t>(seen, 1) && allowed[words[t]] != 0)
        found.targets.push_back(static_cast<std::uint32_t>(found.words.size()));
      found.words.push_back(words[t]);
      found.in_front.push_back(in_front++);
      if (static_cast<int>(words[t]) == data.end_word()) in_front = 0;
    }
  }
  return found;
}

}  // namespace fluxformer::data
