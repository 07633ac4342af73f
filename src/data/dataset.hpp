#pragma once

// Labelled samples, addressed by global index: the same on every rank, in any order and in every run.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/random.hpp"

namespace fluxformer::data {

/// A contiguous range of global sample indices.
struct Shard {
  std::size_t first = 0;
  std::size_t count = 0;
};

/// The part of 0..size-1 that belongs to `rank` of `ranks`. The parts are contiguous, in rank order, and
/// cover every index once. Their counts differ by at most one (lower ranks get the larger ones) and may be 0.
/// Not collective. Throws std::invalid_argument for a rank that does not exist.
Shard balanced_shard(std::size_t size, int rank, int ranks);

/// Samples as tokens. Const and without hidden state: safe to call in any order and from any thread.
/// Nothing here is collective. Index arguments run from 0 to size() - 1; others throw std::out_of_range.
class Dataset {
 public:
  virtual ~Dataset() = default;

  /// The name in decks (data.set).
  virtual std::string name() const = 0;
  /// The folder or file of the samples where sets of one name() may come from several; else empty.
  virtual std::string origin() const { return {}; }
  /// Name and origin, for messages.
  std::string title() const { return origin().empty() ? name() : name() + " (" + origin() + ")"; }
  /// Number of samples of this split.
  virtual std::size_t size() const = 0;
  /// Number of labels.
  virtual int classes() const = 0;
  /// The label of a sample, 0..classes() - 1; -1: it has none (token files only).
  virtual int label(std::size_t index) const = 0;
  /// The label that the sample had before a wrong one was planted (WrongLabels): label() of all others.
  virtual int right_label(std::size_t index) const { return label(index); }
  /// True if the training and the test split are the same samples (a token file without splits).
  virtual bool one_split() const { return false; }

  /// Sizes of the token lattice; a line has tokens_y() = 1.
  virtual int tokens_x() const = 0;
  virtual int tokens_y() const = 0;
  /// Numbers per token.
  virtual int features() const = 0;
  /// The largest absolute value of a feature, where the files of others decide it; 0 otherwise.
  virtual double largest_feature() const { return 0; }
  /// Fills out[token][feature], token = y * tokens_x() + x: tokens_x() * tokens_y() * features() numbers.
  virtual void tokens(std::size_t index, double* out) const = 0;
  /// A random variant of the sample for training, with the same label and length: an image after a random
  /// affine map (see warp_image), a text with a share `strength` of its words replaced by unknown_word().
  /// `strength` is in [0, 1]. To be called only if why_no_variants() is empty.
  virtual void variant(std::size_t index, const RandomStream& draw, double strength, double* out) const = 0;
  /// The reason why the data set has no variants; empty if it has.
  virtual std::string why_no_variants() const { return {}; }
  /// Number of real tokens of a sample; the rest is padding.
  virtual int length(std::size_t index) const;
  /// True if samples may have padding.
  virtual bool padded() const { return vocabulary() > 0; }

  /// Number of words V. 0: tokens are dense features. V > 0: tokens are word indices 0..V-1 written as
  /// numbers; features() = 1, or 2 with segments.
  virtual int vocabulary() const { return 0; }
  /// Number of segments S; with S > 0 a token is a word index and a segment, 0..S-1.
  virtual int segments() const { return 0; }
  /// The vocabulary: words()[i] is the word with index i, in UTF-8. Passed as `DatasetSpec::words`, they give
  /// the same indices in another split or a later run. Empty if tokens are features, or words without names.
  virtual std::vector<std::string> words() const { return {}; }
  /// The index that stands for any other word, "<unk>"; -1: none.
  virtual int unknown_word() const { return -1; }
  /// Indices that stand for no word in particular: those of padding, of unknown_word() and, in token files,
  /// of the special tokens that the file names.
  virtual std::vector<int> placeholders() const { return {}; }

  /// Number of the first tokens of a sample that are the last ones of the sample before it (lines of joined
  /// texts); 0: it begins anew. They are seen, and not guessed again.
  virtual int seen(std::size_t index) const;
  /// The word that ends a text where a sample may hold several; -1: a sample is one text.
  virtual int end_word() const { return -1; }
  /// The bytes of text that each real token of a sample stands for, [token]: 0 for a mark around texts. Empty if they are
  /// not known.
  virtual std::vector<int> token_bytes(std::size_t index) const;

  Shard shard(int rank, int ranks) const { return balanced_shard(size(), rank, ranks); }

 protected:
  /// Throws std::out_of_range unless index < size().
  void require(std::size_t index) const;
};

}  // namespace fluxformer::data
