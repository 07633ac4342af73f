#include "data/text/words_of.hpp"

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

}  // namespace fluxformer::data
