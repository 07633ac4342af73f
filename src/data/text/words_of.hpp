#pragma once

// The words of samples, as counts of words need them.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/dataset.hpp"

namespace fluxformer::data {

/// The words of sample `index` of `data`, whose tokens are words: those of its real tokens, in their order. Not
/// collective.
std::vector<std::uint32_t> words_of(const Dataset& data, std::size_t index);

/// The names of the words of samples `members`, [sample][token], of as many tokens as a sample can have: "" behind its
/// real ones. Empty if words have no names, or tokens are features. Not collective.
std::vector<std::string> named_words_of(const Dataset& data, std::span<const std::size_t> members);

/// Words of samples one behind the other, and those of them that are to be guessed from the words before them.
struct NextWordPlaces {
  std::vector<std::uint32_t> words;
  std::vector<std::uint32_t> in_front;  ///< [place]: number of words of its text in front of it
  std::vector<std::uint32_t> targets;   ///< places of the words to guess
  /// The words of its text in front of a place, the nearest one last.
  std::span<const std::uint32_t> context(std::uint32_t place) const {
    return {words.data() + place - in_front[place], in_front[place]};
  }
};

/// The next words of samples `members`: every word but the first of a sample, and but those that the sample before
/// it has shown (Dataset::seen), if `allowed` [word]. Texts end behind Dataset::end_word() and with samples of
/// their own. A sample that goes on where the member before it ended continues its text. Not collective.
NextWordPlaces next_words_of(const Dataset& data, const std::vector<std::size_t>& members,
                             const std::vector<char>& allowed);

}  // namespace fluxformer::data
