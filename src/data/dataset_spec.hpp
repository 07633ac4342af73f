#pragma once

// Which data set is asked for, and how its samples become tokens.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace fluxformer::data {

inline constexpr std::size_t every_sample = std::numeric_limits<std::size_t>::max();

/// Sizes that a given model has for its input; 0: no such size.
struct ModelSizes {
  int vocabulary = 0;  ///< rows of the word table
  int segments = 0;    ///< rows of the segment table
  int tokens = 0;      ///< positions
  int classes = 0;     ///< outputs of the head
};

/// The values of the keys data.*. Each data set reads those that concern it.
struct DatasetSpec {
  std::string name = "digits";
  std::string directory{};      ///< folder of the files; ignored by the built-in sets
  std::string split = "train";  ///< train | test
  std::string tokens =
      "patches";           ///< tokens of an image: patches (7x7 of 4x4 pixels) | rows (28 of 28) | pixels |
                           ///< whole (1 of 784)
  std::uint64_t seed = 1;  ///< seed of the built-in sets
  std::size_t at_most = every_sample;  ///< samples kept
  double wrong_labels = 0;  ///< share of the training samples that get a wrong label, by `seed`; 0: none

  int length = 256;          ///< text: tokens of a sample; longer texts are cut, shorter ones padded
  bool whole = false;        ///< newsgroups: no text is cut, a sample has the tokens of the longest
  int vocabulary = 20000;    ///< text: the largest vocabulary, <pad> and <unk> included
  int least_count = 2;       ///< text: training documents in which a word must occur at least
  bool keep_headers = true;  ///< newsgroups: the lines before the first blank one
  bool keep_quotes = true;   ///< newsgroups: lines quoted from another post
  bool keep_footers = true;  ///< newsgroups: the signature
  std::vector<std::string>
      words{};  ///< text: a given vocabulary; empty: built from the training split, or as the
                ///< token file says

  std::string file{};  ///< tokens: the token file
  int cut = 0;         ///< tokens: samples are cut to this many tokens; 0: not at all
  ModelSizes model{};  ///< tokens: sizes of the model that the samples are for

  int alphabets = 0;  ///< omniglot: only the first this many alphabets; 0: all
  int classes = 20;   ///< topics: 4, 8, ... 20

  /// True if the samples are made from `seed`; false if they are read from files, which have no seed.
  bool built_in() const { return name == "digits" || name == "topics"; }
};

}  // namespace fluxformer::data
