#pragma once

// Sums over samples that ranks share: filled on each rank, reduced once, then read.

#include <mpi.h>

#include <cstddef>
#include <functional>
#include <vector>

#include "model/sample_set.hpp"

namespace fluxformer {

/// Base of everything that is added up sample by sample. Reading before `reduce` and adding after it throws
/// std::logic_error, so that the reduction cannot be forgotten.
class Accumulator {
 public:
  /// Replaces the sums of this rank by those of all ranks of `comm`. Once. Collective.
  void reduce(MPI_Comm comm);

 protected:
  explicit Accumulator(std::size_t size = 0) { set_size(size); }
  /// So many sums, all 0.
  void set_size(std::size_t size) { sums_.assign(size, 0.0); }
  std::size_t size() const { return sums_.size(); }
  /// The sums of this rank, to add to.
  double* local();
  /// The sums over all ranks.
  const std::vector<double>& total() const;

 private:
  std::vector<double> sums_;
  bool reduced_ = false;
};

/// Plain sums.
class Sums : public Accumulator {
 public:
  explicit Sums(std::size_t count) : Accumulator(count) {}
  /// Open to those that add and read: the sums of this rank, their number, and the sums over all ranks.
  using Accumulator::local;
  using Accumulator::size;
  using Accumulator::total;
};

/// One row of numbers per sample, filled by the rank that holds the sample.
class SampleTable : public Accumulator {
 public:
  SampleTable(std::size_t samples, std::size_t columns) : Accumulator(samples * columns), columns_(columns) {}

  /// The row of a sample. Only the rank that holds the sample may write to it.
  double* row(std::size_t sample) { return local() + sample * columns_; }
  /// Mean over the samples.
  double mean(std::size_t column) const;
  /// Largest number of any sample; NaN if one of them is NaN.
  double largest(std::size_t column) const;
  /// [sample][column]
  const std::vector<double>& numbers() const { return total(); }

 private:
  std::size_t columns_;
};

/// Reduces an accumulator, an object that consists of some, or a container of these.
template <class Meters>
void reduce(MPI_Comm comm, Meters& meters) {
  if constexpr (requires { meters.reduce(comm); })
    meters.reduce(comm);
  else
    for (auto& meter : meters) meter.reduce(comm);
}

/// Calls body(b, place) for the samples of a batch that are no fillers: `b` is their position in the batch,
/// `place` that among all samples.
template <class Body>
void for_each_sample(const Batch& batch, const Body& body) {
  for (std::size_t b = 0; b < batch.weight.size(); ++b)
    if (batch.weight[b] != 0) body(b, static_cast<std::size_t>(batch.key[b]));
}

/// Throws BadInput for samples whose tokens are spread over ranks: each rank would count them.
void require_whole_samples(const SampleSet& samples);

/// Shows the samples to `visit`, batch by batch on each rank, and reduces the meters that it adds to:
/// accumulators, what has a `reduce` of its own, or a container of these. Collective; what `visit` throws on
/// one rank all throw. Throws as require_whole_samples does.
template <class... Meters>
void accumulate(const SampleSet& samples, const std::function<void(const Batch&)>& visit, Meters&... meters) {
  require_whole_samples(samples);
  samples.for_batches(visit);
  (reduce(samples.comm(), meters), ...);
}

}  // namespace fluxformer
