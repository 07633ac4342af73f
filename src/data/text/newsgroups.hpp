#pragma once

// 20 Newsgroups: Usenet posts of 1993, classified by newsgroup. Sources: Lang, "NewsWeeder: learning to
// filter netnews", ICML 1995; the "bydate" version of J. Rennie, whose test posts are later than its training
// posts.

#include <vector>

#include "data/dataset_spec.hpp"
#include "data/text/text_dataset.hpp"

namespace fluxformer::data {

/// Posts of the training or the test split, as indices of their words.
class Newsgroups final : public TextDataset {
 public:
  /// Reads the posts of `spec.split` below `spec.directory` (see NewsgroupFiles); only the indices of their
  /// first `spec.length` words are kept (4 bytes each). The vocabulary is `spec.words`. If that is empty, it
  /// is built from the training split (which is then read for a test split as well): of the words that are
  /// kept, those that occur in the most posts (see Lexicon). Samples are ordered by group, then by number; if
  /// there are more than `spec.at_most`, that many are kept, evenly spaced. A post without words becomes a
  /// single <unk>. Throws BadInput for numbers out of range, a bad vocabulary and missing or damaged files.
  explicit Newsgroups(const DatasetSpec& spec);

  std::string name() const override { return "20news"; }
  std::size_t size() const override { return labels_.size(); }
  int classes() const override;
  int label(std::size_t index) const override;
  int length(std::size_t index) const override;
  std::vector<std::uint32_t> text(std::size_t index) const override;

 private:
  struct Contents {
    Vocabulary vocabulary;
    std::vector<int> labels;
    std::vector<std::size_t> starts;  ///< labels.size() + 1 of them
    std::vector<std::uint32_t> words;
  };
  static Contents load(const DatasetSpec& spec);
  Newsgroups(Contents contents, int longest);

  std::vector<int> labels_;           ///< [sample]
  std::vector<std::size_t> starts_;   ///< [sample], and the end
  std::vector<std::uint32_t> words_;  ///< those of sample i are starts_[i] .. starts_[i + 1] - 1
};

}  // namespace fluxformer::data
