#include "data/text/ngrams.hpp"

#include <algorithm>
#include <iterator>

namespace fluxformer::data {
namespace {

/// D = n_1 / (n_1 + 2 n_2)
double discount_of(Index once, Index twice) {
  return once > 0 ? static_cast<double>(once) / static_cast<double>(once + 2 * twice) : 0.0;
}

/// Compares contexts of `length` words that end in front of `a` and `b`, nearest word first: -1, 0 or 1.
int compare(const std::uint32_t* a, const std::uint32_t* b, Index length) {
  for (Index back = 1; back <= length; ++back)
    if (a[-back] != b[-back]) return a[-back] < b[-back] ? -1 : 1;
  return 0;
}

}  // namespace

NGrams::NGrams(const Dataset& data, const std::vector<std::size_t>& members, const std::vector<char>& allowed,
               int order)
    : texts_(next_words_of(data, members, allowed)),
      uniform_(1.0 / static_cast<double>(std::ranges::count_if(allowed, [](char can) { return can != 0; }))) {
  for (Index length = 0; length < order; ++length) levels_.push_back(counted(length));
}

NGrams::Level NGrams::counted(Index length) const {
  const auto& words = texts_.words;
  const auto& available = texts_.in_front;
  std::vector<std::uint32_t> places;
  std::ranges::copy_if(texts_.targets, std::back_inserter(places),
                       [&](std::uint32_t place) { return available[place] >= length; });
  // In the order of context, word, and the word in front of the context; those with none in front come first.
  const auto in_front = [&](std::uint32_t place) {
    return available[place] > length ? Index{words[place - length - 1]} : Index{-1};
  };
  std::ranges::sort(places, [&](std::uint32_t a, std::uint32_t b) {
    if (const auto found = compare(&words[a], &words[b], length); found != 0) return found < 0;
    if (words[a] != words[b]) return words[a] < words[b];
    return in_front(a) < in_front(b);
  });
  Level level;
  level.length = length;
  Index before = -1;
  for (std::size_t k = 0; k < places.size(); ++k) {
    const auto place = places[k];
    const bool new_context = k == 0 || compare(&words[places[k - 1]], &words[place], length) != 0;
    if (new_context)
      level.contexts.push_back({place, static_cast<std::uint32_t>(level.continuations.size()), 0, 0, 0, 0});
    if (new_context || level.continuations.back().word != words[place]) {
      level.continuations.push_back({words[place], 0, 0});
      before = -1;
    }
    auto& known = level.contexts.back();
    auto& continuation = level.continuations.back();
    ++continuation.count, ++known.count;
    if (const auto front = in_front(place); front != before) {
      known.different_preceded += continuation.preceding == 0 ? 1 : 0;
      ++continuation.preceding, ++known.preceding;
      before = front;
    }
  }
  level.contexts.push_back({0, static_cast<std::uint32_t>(level.continuations.size()), 0, 0, 0, 0});
  for (std::size_t k = 0; k + 1 < level.contexts.size(); ++k)  // max_element returns the first of equals
    level.contexts[k].likeliest =
        std::ranges::max_element(after(level, level.contexts[k]), {}, &Continuation::count)->word;
  const auto number_with = [&](std::uint32_t Continuation::*counts, std::uint32_t value) {
    return std::ranges::count(level.continuations, value, counts);
  };
  level.discount = discount_of(number_with(&Continuation::count, 1), number_with(&Continuation::count, 2));
  level.lower_discount =
      discount_of(number_with(&Continuation::preceding, 1), number_with(&Continuation::preceding, 2));
  return level;
}

const NGrams::Known* NGrams::find(const Level& level, Context context) const {
  if (std::ssize(context) < level.length) return nullptr;
  const auto* const end = context.data() + context.size();
  const auto last = level.contexts.end() - 1;
  const auto found = std::partition_point(level.contexts.begin(), last, [&](const Known& known) {
    return compare(&texts_.words[known.place], end, level.length) < 0;
  });
  const bool same = found != last && compare(&texts_.words[found->place], end, level.length) == 0;
  return same ? &*found : nullptr;
}

std::span<const NGrams::Continuation> NGrams::after(const Level& level, const Known& known) {
  const auto* const next = &known + 1;
  return {level.continuations.data() + known.first, next->first - known.first};
}

std::vector<NGrams::Guess> NGrams::guesses(Context context, std::uint32_t word) const {
  std::vector<Guess> found;
  found.reserve(levels_.size());
  double witten_bell = uniform_, lower = uniform_;  // `lower`: Kneser-Ney's p_k below the highest order
  std::uint32_t likeliest = 0;
  for (const auto& level : levels_) {
    const auto* const known = find(level, context);
    if (known == nullptr) break;  // then no longer context is known either
    const auto continuations = after(level, *known);
    const auto at = std::ranges::lower_bound(continuations, word, {}, &Continuation::word);
    const bool seen = at != continuations.end() && at->word == word;
    const double count = seen ? at->count : 0, preceding = seen ? at->preceding : 0;
    const double different = static_cast<double>(continuations.size());
    likeliest = known->likeliest;
    witten_bell = (count + different * witten_bell) / (known->count + different);
    const double highest =
        (std::max(count - level.discount, 0.0) + level.discount * different * lower) / known->count;
    found.push_back({witten_bell, highest, likeliest});
    if (known->preceding > 0)
      lower = (std::max(preceding - level.lower_discount, 0.0) +
               level.lower_discount * known->different_preceded * lower) /
              known->preceding;
  }
  found.resize(levels_.size(), {witten_bell, lower, likeliest});
  return found;
}

}  // namespace fluxformer::data
