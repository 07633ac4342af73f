#include "drivers/generate/word_choice.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <vector>

#include "base/index.hpp"

namespace fluxformer {
namespace {

/// The words among which one is chosen, in their order.
std::vector<int> candidates(std::span<const double> z, int most) {
  std::vector<int> words(z.size());
  std::iota(words.begin(), words.end(), 0);
  if (most == 0 || most >= std::ssize(z)) return words;
  const auto before = [z](int a, int b) { return z[a] != z[b] ? z[a] > z[b] : a < b; };
  std::nth_element(words.begin(), words.begin() + most, words.end(), before);
  words.resize(most);
  std::ranges::sort(words);
  return words;
}

}  // namespace

int next_word(std::span<const double> z, const WordChoice& choice, double uniform) {
  const auto largest = std::ranges::max_element(z);  // the first of equal ones
  if (choice.temperature == 0) return static_cast<int>(largest - z.begin());
  const auto words = candidates(z, choice.most);
  std::vector<double> cumulated;
  cumulated.reserve(words.size());
  double sum = 0;
  for (const int word : words)
    cumulated.push_back(sum += std::exp((z[word] - *largest) / choice.temperature));
  // A sum of exponentials is compared with a share of all of it: the largest one is 1, so that there is such a word.
  const auto found = std::ranges::upper_bound(cumulated, uniform * sum);
  return words[std::min(found - cumulated.begin(), std::ssize(words) - 1)];
}

double log_probability(std::span<const double> z, int word) {
  const double top = *std::ranges::max_element(z);
  double sum = 0;
  for (const double one : z) sum += std::exp(one - top);
  return z[word] - top - std::log(sum);
}

}  // namespace fluxformer
