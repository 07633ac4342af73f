#pragma once

// Sums over samples that are distributed over ranks: each rank adds its samples, one reduction follows, then
// the sums are read.

#include <mpi.h>

#include <functional>
#include <vector>

#include "base/index.hpp"
#include "model/sample_set.hpp"

namespace fluxformer {

/// Base class of all sums over samples. Reading before `reduce` and adding after it throw std::logic_error,
/// so that nobody forgets the reduction.
class Accumulator {
 public:
  /// Replaces the sums of this rank by those over all ranks of `comm`. To be called once. Collective.
  void reduce(MPI_Comm comm);

 protected:
  explicit Accumulator(Index size = 0) { set_size(size); }
  /// Sets the number of sums, and all sums to 0.
  void set_size(Index size) { sums_.assign(size, 0.0); }
  /// Number of sums.
  Index size() const { return std::ssize(sums_); }
  /// Sums of this rank, to add to.
  double* local();
  /// Sums over all ranks.
  const std::vector<double>& total() const;

 private:
  std::vector<double> sums_;
  bool reduced_ = false;
};

/// Plain sums, which everybody may add to and read.
class Sums : public Accumulator {
 public:
  explicit Sums(Index count) : Accumulator(count) {}
  using Accumulator::local;
  using Accumulator::size;
  using Accumulator::total;
};

/// One row of numbers per sample, filled by the rank that holds the sample.
class SampleTable : public Accumulator {
 public:
  SampleTable(Index samples, Index columns) : Accumulator(samples * columns), columns_(columns) {}

  /// Row of a sample. Only the rank that holds the sample may write to it.
  double* row(Index sample) { return local() + sample * columns_; }
  /// Mean of a column over the samples.
  double mean(Index column) const;
  /// Largest number of a column; NaN if one of the numbers is NaN.
  double largest(Index column) const;
  /// All numbers, [sample][column].
  const std::vector<double>& numbers() const { return total(); }

 private:
  Index columns_;
};

/// Reduces an accumulator, an object with a `reduce` of its own, or a container of either.
template <class Sum>
void reduce(MPI_Comm comm, Sum& sums) {
  if constexpr (requires { sums.reduce(comm); })
    sums.reduce(comm);
  else
    for (auto& one : sums) one.reduce(comm);
}

/// Calls body(b, place) for the samples of a batch that are no fillers: `b` is the position in the batch,
/// `place` the position among all samples.
template <class Body>
void for_each_sample(const Batch& batch, const Body& body) {
  for (Index b = 0; b < std::ssize(batch.weight); ++b)
    if (batch.weight[b] != 0) body(b, Index{batch.key[b]});
}

/// Throws BadInput for samples whose tokens are distributed over ranks: each rank would count such a sample.
void require_whole_samples(const SampleSet& samples);

/// Calls `visit` with the batches of each rank and reduces `sums`, which `visit` adds to (see `reduce`).
/// Collective: an exception of `visit` on one rank is thrown on all. Throws as require_whole_samples does.
template <class... Sum>
void accumulate(const SampleSet& samples, const std::function<void(const Batch&)>& visit, Sum&... sums) {
  require_whole_samples(samples);
  samples.for_batches(visit);
  (reduce(samples.comm(), sums), ...);
}

}  // namespace fluxformer
