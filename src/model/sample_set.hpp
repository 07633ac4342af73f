#pragma once

// The samples that a training or an analysis loops over: some members of a data set, shared by ranks, and the
// batches of them that one token line of ranks holds at a time.

#include <mpi.h>

#include <cstddef>
#include <functional>
#include <vector>

#include "base/index.hpp"
#include "data/dataset.hpp"
#include "mesh/token_line.hpp"
#include "model/model_spec.hpp"

namespace fluxformer {

/// A word that the model has to guess from the last state of a token: a masked word at its own token, the next
/// word at the one before.
struct WordTarget {
  int sample;     ///< slot of the sample in the batch
  int token;      ///< global index of the token whose state is read
  int word;       ///< index of the right word
  double weight;  ///< weight in the loss
};

/// A batch of samples. Every rank of a token line holds the same one, with all tokens of the line.
struct Batch {
  std::vector<double> input;             ///< [sample][global token][spec.input_size()]
  std::vector<int> length;               ///< real tokens of each sample; empty: all are real
  std::vector<int> label;                ///< class of each sample
  std::vector<double> weight;            ///< weight of each sample in the loss; 0 for padding of the batch
  std::vector<long> key = {};            ///< key of the random draws of each sample
  std::vector<WordTarget> targets = {};  ///< words to guess; empty unless the model guesses words
  std::vector<int> seen = {};  ///< first tokens of each sample that others have shown (Dataset::seen)
};

/// A batch with room for `capacity` samples of `data`, all of weight 0.
Batch empty_batch(const data::Dataset& data, int capacity);
/// Copies label, length, seen, weight and key of sample `index` of `data` into a slot; the tokens are left as they
/// are.
void put_sample(const data::Dataset& data, Index index, long key, double weight, Index slot, Batch& batch);
/// The tokens of the sample in a slot, [token][feature].
double* tokens_of(Batch& batch, Index slot);

/// One of the groups of ranks that share the samples among them: a token line of ranks, which sees whole
/// samples.
struct Replica {
  int index = 0, count = 1;
  /// Largest number of samples that any replica gets out of `samples`.
  int largest_share(Index samples) const;
};

/// The replica that this rank of `comm` belongs to, if each has `ranks` ranks in a row. Throws
/// std::invalid_argument unless `ranks` divides the number of ranks.
Replica replica_of(MPI_Comm comm, int ranks);

/// Throws BadInput that names the sample if a model would take the tokens of one for something else: a sample
/// of fewer real tokens than the model has class tokens, or the model's pad_word among them. Not collective:
/// the same on all ranks.
void require_real_tokens(const data::Dataset& data, const ModelSpec& spec);

/// The tokens of a sample, distributed over the ranks of `comm`: whole rows of a grid if there are enough of
/// them, else columns. Collective; throws BadInput for a rank without tokens.
TokenLine token_line(MPI_Comm comm, const data::Dataset& data, bool periodic = false);

/// The input sizes and number of classes that a model needs.
InputShape shape_of(const data::Dataset& data);

/// Some samples of a data set, and how ranks share them: which samples, on which ranks, how many at a time.
class SampleSet {
 public:
  /// The samples `members` of `data`. The ranks of `comm` share them, `line.size()` in a row as one replica,
  /// each replica a contiguous part of which it holds `capacity` at a time. `data` and `line` are borrowed.
  SampleSet(MPI_Comm comm, const TokenLine& line, const data::Dataset& data, std::vector<std::size_t> members,
            int capacity);
  /// This set with a `change` that is applied to each batch before it is visited.
  SampleSet prepared(std::function<void(Batch&)> change) const;
  /// A set of other samples of the same data on the same ranks, without the `change` of this one.
  SampleSet with(std::vector<std::size_t> others, int capacity) const;
  /// The first `count` of these samples, in batches no larger than the largest share of a replica.
  SampleSet first(Index count) const;

  const data::Dataset& data() const { return *data_; }
  const TokenLine& line() const { return *line_; }
  MPI_Comm comm() const { return comm_; }
  const Replica& replica() const { return replica_; }
  int capacity() const { return capacity_; }
  InputShape shape() const { return shape_of(*data_); }

  /// The indices of the samples in the data set.
  const std::vector<std::size_t>& members() const { return members_; }
  Index size() const { return std::ssize(members_); }
  /// The index in the data set of the sample with this key.
  std::size_t member(long key) const { return members_[key]; }

  /// The number of batches of this replica's part.
  Index batches() const;
  /// Calls visit(batch) for this replica's part, batch by batch. Batch::key is the place of a sample in
  /// `members`, its weight 1 / size(); the last batch is filled up with samples of weight 0. Collective over
  /// all ranks; `visit` may communicate over the token line only. What it throws on one rank all throw.
  void for_batches(const std::function<void(const Batch&)>& visit) const;

 private:
  MPI_Comm comm_;
  const TokenLine* line_;
  const data::Dataset* data_;
  std::vector<std::size_t> members_;
  int capacity_;
  Replica replica_;
  std::function<void(Batch&)> change_;
};

}  // namespace fluxformer
