#pragma once

// Built-in synthetic texts. Nothing has to be downloaded. Half of the classes differ only in the order of
// their words.

#include <vector>

#include "base/random.hpp"
#include "data/dataset_spec.hpp"
#include "data/text/text_dataset.hpp"

namespace fluxformer::data {

/// Synthetic texts on topics. Sample `index` depends on (seed, split, index) alone. classes() consecutive
/// samples, from a multiple of it on, contain each class once, in random order. The words are invented
/// syllables, the same for every seed. Their indices:
///   2 .. 1 + C/2   markers: `marker(p, 0)` and `marker(p, 1)` of pair p = 0 .. C/4 - 1
///   after these    common words, the r-th with probability proportional to 1 / (r + 2.7) (Zipf-Mandelbrot)
/// A topic consists of topic_words common words of medium rank; topics do not overlap. Classes come in groups
/// of four: 4p and 4p + 1 have a topic each, 4p + 2 and 4p + 3 share one. A text of class c:
///   1. Its length is uniform on max(16, L/4) .. L, L = spec.length. Every position holds a common word, or
///      with probability topic_share a word of the topic of c (the j-th with probability proportional to
///      1 / (1 + j)).
///   2. Each stretch of 16 positions gets a pair of markers, the second 1 to 3 positions after the first. In
///      classes 4p + 2 and 4p + 3 the first pair, and every other one with probability 1/2, is pair p, always
///      in the order 0, 1 in class 4p + 2 and 1, 0 in class 4p + 3. All other pairs are random, in random
///      order (but never pair p; with C = 4 they are left out).
/// Word counts therefore have the same distribution in 4p + 2 and 4p + 3: a classifier that uses counts alone
/// is right for at most 3/4 of all texts. Word order separates these two classes with certainty. Topics are
/// rarely confused, and less often in longer texts.
class Topics final : public TextDataset {
 public:
  static constexpr std::size_t training_samples = 20000, test_samples = 4000;
  static constexpr int topic_words = 20, stretch = 16, most_words = 2000, least_words = 500;
  static constexpr double topic_share = 0.25;

  /// Requires: spec.classes is 4, 8, ... 20; spec.length at least 16; spec.vocabulary at least least_words,
  /// of which at most most_words are used; spec.words is empty or equal to words(), but for a "<mask>" or
  /// "<eos>" at its end. Throws BadInput otherwise.
  explicit Topics(const DatasetSpec& spec);

  std::string name() const override { return "topics"; }
  std::size_t size() const override { return size_; }
  int classes() const override { return classes_; }
  int label(std::size_t index) const override;
  int length(std::size_t index) const override;
  /// Draws the text anew at each call, which takes about 5 microseconds per 100 words.
  std::vector<std::uint32_t> text(std::size_t index) const override;

  /// The index of marker `which` (0 or 1) of a pair.
  static std::uint32_t marker(int pair, int which) {
    return static_cast<std::uint32_t>(2 + 2 * pair + which);
  }
  /// The topic of a class: 3p, 3p + 1, 3p + 2, 3p + 2 for classes 4p to 4p + 3.
  static int topic(int label) { return 3 * (label / 4) + (label % 4 < 2 ? label % 4 : 2); }
  /// The j-th word of a topic, 0 <= j < topic_words.
  std::uint32_t topic_word(int topic, int j) const;

 private:
  int classes_;
  RandomStream labels_, texts_;
  std::size_t size_;
  std::vector<double> common_;   ///< [rank]: probability of this or a lower rank
  std::vector<double> topical_;  ///< [j]: probability of this or a lower index within a topic
};

}  // namespace fluxformer::data
