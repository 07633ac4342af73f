#pragma once

// Labelled samples by global index: the same sample on any rank, in any order, in any run.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "base/random.hpp"

namespace fluxformer::data {

/// A contiguous range of global sample indices.
struct Shard {
  std::size_t first = 0;
  std::size_t count = 0;
};

/// The part of 0..size-1 that belongs to `rank` of `ranks`: contiguous, in rank order, covering every index
/// once; counts differ by at most one (the lower ranks hold the longer ones) and may be 0. Not collective.
Shard balanced_shard(std::size_t size, int rank, int ranks);

/// Samples laid out as tokens. Const and without hidden state: safe to call in any order, from any thread.
/// Nothing here is collective. Index arguments run from 0 to size() - 1; others throw std::out_of_range.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual std::string name() const = 0;
  virtual std::size_t size() const = 0;
  /// Number of different labels.
  virtual int classes() const = 0;
  /// 0..classes() - 1.
  virtual int label(std::size_t index) const = 0;

  /// Token lattice; a line has tokens_y() = 1.
  virtual int tokens_x() const = 0;
  virtual int tokens_y() const = 0;
  /// Numbers per token.
  virtual int features() const = 0;
  /// Fills out[token][feature], token = y * tokens_x() + x: tokens_x() * tokens_y() * features() numbers.
  virtual void tokens(std::size_t index, double* out) const = 0;
  /// A random variant of the sample for training, the same label and length: an image under a random affine
  /// map (see warp_image), a text with a share `strength` of its words replaced by <unk>. `strength` is in
  /// [0, 1].
  virtual void variant(std::size_t index, const RandomStream& draw, double strength, double* out) const = 0;
  /// Real tokens of a sample; those after them are padding.
  virtual int length(std::size_t index) const;

  /// 0: tokens are dense features. V > 0: tokens are word indices 0..V-1 written as numbers, features() = 1,
  /// and padding is index 0.
  virtual int vocabulary() const { return 0; }
  /// words()[i] is the word of index i in UTF-8, vocabulary() of them ("<pad>" is 0, "<unk>", any other word,
  /// is 1); empty unless tokens are words. Given back in `DatasetSpec::words`, they give the same indices in
  /// another split or a later run.
  virtual std::vector<std::string> words() const { return {}; }

  Shard shard(int rank, int ranks) const { return balanced_shard(size(), rank, ranks); }

 protected:
  /// Throws std::out_of_range unless index < size().
  void require(std::size_t index) const;
};

inline constexpr std::size_t every_sample = std::numeric_limits<std::size_t>::max();

/// Which data set, and how it is cut into tokens.
struct DatasetSpec {
  std::string name = "digits";
  std::string directory{};         ///< of the files; not looked at by the built-in sets
  std::string split = "train";     ///< train | test
  std::string tokens = "patches";  ///< of an image: patches (7x7 of 4x4 pixels) | rows (28 of 28) | pixels
  std::uint64_t seed = 1;          ///< of the built-in sets
  std::size_t at_most = every_sample;  ///< samples kept

  int length = 256;                  ///< text: tokens of a sample; longer texts are cut, shorter ones padded
  int vocabulary = 20000;            ///< text: the largest vocabulary, <pad> and <unk> included
  int least_count = 2;               ///< text: a word must occur in so many training documents
  bool keep_headers = true;          ///< newsgroups: the lines before the first blank one
  bool keep_quotes = true;           ///< newsgroups: lines quoted from another post
  bool keep_footers = true;          ///< newsgroups: the signature
  std::vector<std::string> words{};  ///< text: a given vocabulary; empty: built from the training split

  int alphabets = 0;  ///< omniglot: the first so many alphabets; 0: all
  int classes = 20;   ///< topics: 4, 8, ... 20
};

/// The data set called `spec.name`:
///   "digits"      synthetic pen-stroke digits drawn from `seed`
///   "mnist"       the IDX files (gzip'd or not) in `directory` or `directory`/mnist
///   "omniglot"    handwritten characters, from the zip in `directory` or `directory`/omniglot; also
///                 "omniglot_small1", "omniglot_small2" and "omniglot_evaluation": its other zips
///   "20news"      posts of 20 newsgroups, from the tar.gz or its tree in `directory` or `directory`/20news
///   "topics"      synthetic texts drawn from `seed`
/// Only the first `at_most` samples are kept (of "20news": so many at equal distances). Throws BadInput for
/// an unknown word, a number out of range and for missing or damaged files, naming the folder and the files
/// looked for. Reads files on this rank: wrap in `collectively` where ranks must agree.
std::unique_ptr<Dataset> make_dataset(const DatasetSpec& spec);

}  // namespace fluxformer::data
