#pragma once

// Next words by counting: interpolated n-grams, the bar for a model of next words.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/index.hpp"
#include "data/dataset.hpp"
#include "data/text/words_of.hpp"

namespace fluxformer::data {

/// Counts of the words behind contexts of 0 to order - 1 words, and the probabilities of the next word w that
/// follow from them. With the k - 1 words h in front of w, c(hw) its count, C and N the sum of the counts and
/// the number of the different words behind h:
///
///   p_0 = 1 / (number of words that can be targets)
///   Witten-Bell   p_k = (c(hw) + N p_{k-1}) / (C + N)
///   Kneser-Ney    p_k = (max(c(hw) - D, 0) + D N p_{k-1}) / C,   D = n_1 / (n_1 + 2 n_2)
///
/// where n_j is the number of different hw with c(hw) = j, D = 0 if n_1 = 0, and in the orders k below the
/// highest one c(hw) is the number of different words in front of hw. A context that never occurred, or that
/// is longer than what there is, leaves p_{k-1}. Contexts never reach beyond their text.
/// Sources: Witten and Bell, IEEE Trans. Inf. Theory 37 (1991); Kneser and Ney, ICASSP 1995, interpolated as
/// in Chen and Goodman, Computer Speech and Language 13 (1999). Not collective.
class NGrams {
 public:
  /// A text and its context, nearest word last.
  using Context = std::span<const std::uint32_t>;

  /// Counts the words of samples `members` of `data` that are next words to guess (next_words_of), if `allowed`
  /// [word]. O(order T log T) time and O(order T) memory for T words.
  NGrams(const Dataset& data, const std::vector<std::size_t>& members, const std::vector<char>& allowed,
         int order);

  /// The largest order that was counted.
  int order() const { return static_cast<int>(levels_.size()); }
  /// The guess of the n-grams of one order at a word behind a context.
  struct Guess {
    double witten_bell, kneser_ney;  ///< its probabilities
    std::uint32_t likeliest;  ///< the word that most often follows the longest known context of at most
                              ///< order - 1 words, the lowest one in a tie; 0 without any count
  };
  /// The guesses of all orders, [order - 1], for `word` behind `context`. O(order log T) time.
  std::vector<Guess> guesses(Context context, std::uint32_t word) const;

 private:
  struct Continuation {
    std::uint32_t word;
    std::uint32_t count;      ///< of occurrences
    std::uint32_t preceding;  ///< different words in front of the context
  };
  /// A context by the place in the text of the word behind it, and the sums over its continuations.
  struct Known {
    std::uint32_t place;  ///< of the word behind it, in words_
    std::uint32_t first;  ///< its first continuation
    std::uint32_t count, preceding, different_preceded;
    std::uint32_t likeliest;  ///< the word with the largest count, the lowest one in a tie
  };
  /// The known contexts of one length.
  struct Level {
    Index length = 0;
    std::vector<Known> contexts;  ///< in the order of their words, nearest first; and an end
    std::vector<Continuation> continuations;
    double discount = 0, lower_discount = 0;  ///< D of the counts, and of the numbers of words in front
  };
  Level counted(Index length) const;
  /// The known context that equals the end of `context`; nullptr if there is none.
  const Known* find(const Level& level, Context context) const;
  static std::span<const Continuation> after(const Level& level, const Known& known);

  NextWordPlaces texts_;
  std::vector<Level> levels_;  ///< [length of the context]
  double uniform_ = 0;         ///< p_0
};

}  // namespace fluxformer::data
