#pragma once

// Labelled samples by global index: the same sample on any rank, in any order, in any run.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>

namespace fluxformer {

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
  /// Real tokens of a sample; those after them are padding.
  virtual int length(std::size_t index) const;

  Shard shard(int rank, int ranks) const { return balanced_shard(size(), rank, ranks); }

 protected:
  /// Throws std::out_of_range unless index < size().
  void require(std::size_t index) const;
};

inline constexpr std::size_t every_sample = std::numeric_limits<std::size_t>::max();

/// The data set called `name`:
///   "digits"  synthetic pen-stroke digits drawn from `seed`; `directory` is not looked at
///   "mnist"   the IDX files (gzip'd or not) in `directory` or `directory`/mnist; `seed` is not looked at
/// `split` is "train" or "test"; `tokens` is "patches" (7x7 tokens of 4x4 pixels), "rows" (28 tokens of 28)
/// or "pixels" (28x28 tokens of 1). Only the first `at_most` samples are kept. Throws BadInput for an unknown
/// word and for missing or damaged files, naming the folder and the files looked for. Reads files on this
/// rank: wrap in `collectively` where ranks must agree.
std::unique_ptr<Dataset> make_dataset(const std::string& name, const std::string& directory,
                                      const std::string& split, const std::string& tokens, std::uint64_t seed,
                                      std::size_t at_most = every_sample);

}  // namespace fluxformer
