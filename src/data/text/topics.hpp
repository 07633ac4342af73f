#pragma once

// Built-in texts of known classes, so that nothing needs downloading; half of the classes differ in the order
// of words only.

#include <vector>

#include "data/dataset_spec.hpp"
#include "base/random.hpp"
#include "data/text/text_dataset.hpp"

namespace fluxformer::data {

/// Sample `index` depends on (seed, split, index) alone. Every classes() samples in a row hold each class
/// once, in shuffled order. The words are made-up syllables, the same for every seed: index
///   2 .. 1 + C/2          markers: `marker(p, 0)` and `marker(p, 1)` of pair p = 0 .. C/4 - 1
///   from then on          common words, the r-th with a chance proportional to 1 / (r + 2.7) (Zipf,
///   Mandelbrot)
/// A topic is topic_words common words of middle rank, disjoint from those of other topics. Classes come in
/// fours: 4p and 4p + 1 have a topic each, 4p + 2 and 4p + 3 share one. A text of class c is made so:
///   its length is uniform on max(16, L/4) .. L, L = spec.length; every position holds a common word, or with
///   chance topic_share a word of the topic of c (the j-th with a chance proportional to 1 / (1 + j));
///   then each 16 positions in a row get one pair of markers, the second 1 to 3 positions after the first:
///   of classes 4p + 2 and 4p + 3 the first pair and every other one with chance 1/2 is pair p, always in the
///   order 0, 1 in class 4p + 2 and 1, 0 in class 4p + 3; all others are of a pair and in an order drawn at
///   random (but never pair p; with C = 4 they are left out).
/// So the counts of words are equally likely in 4p + 2 and 4p + 3: whoever looks at counts alone is right at
/// most in 3/4 of all texts. Whoever looks at the order knows these two apart with certainty; topics are
/// confused rarely, and the less the longer the texts are.
class Topics final : public TextDataset {
 public:
  static constexpr std::size_t training_samples = 20000, test_samples = 4000;
  static constexpr int topic_words = 20, stretch = 16, most_words = 2000, least_words = 500;
  static constexpr double topic_share = 0.25;

  /// spec.classes is 4, 8, ... 20; spec.length at least 16; spec.vocabulary at least least_words, of which at
  /// most most_words are used; spec.words is empty or equal to words(). Throws BadInput otherwise.
  explicit Topics(const DatasetSpec& spec);

  std::string name() const override { return "topics"; }
  std::size_t size() const override { return size_; }
  int classes() const override { return classes_; }
  int label(std::size_t index) const override;
  int length(std::size_t index) const override;
  /// About 5 microseconds per 100 words: drawn anew at every call, nothing is kept.
  std::vector<std::uint32_t> text(std::size_t index) const override;

  static std::uint32_t marker(int pair, int which) {
    return static_cast<std::uint32_t>(2 + 2 * pair + which);
  }
  /// Topic of a class: 3p, 3p + 1, 3p + 2, 3p + 2 for classes 4p to 4p + 3.
  static int topic(int label) { return 3 * (label / 4) + (label % 4 < 2 ? label % 4 : 2); }
  /// The j-th word of a topic, 0 <= j < topic_words.
  std::uint32_t topic_word(int topic, int j) const;

 private:
  int classes_;
  RandomStream labels_, texts_;
  std::size_t size_;
  std::vector<double> common_;   ///< [rank]: chance of this or a lower rank
  std::vector<double> topical_;  ///< [j]: the same within a topic
};

}  // namespace fluxformer::data
