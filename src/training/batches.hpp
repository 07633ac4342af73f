#pragma once

// The batches of a training. They depend on seed, epoch and position in the global batch only, not on the
// number of ranks.

#include <cstdint>
#include <vector>

#include "data/dataset.hpp"
#include "model/sample_set.hpp"

namespace fluxformer {

/// The batches of a training, of this replica. Every epoch is a new permutation of the samples.
class Batches {
 public:
  /// Global batches of `global` samples out of `members` of `data` (borrowed). Throws BadInput if there are
  /// fewer samples than that, or fewer samples in a batch than replicas.
  /// `augment` > 0: each time a sample is drawn it is a random variant of that strength (Dataset::variant);
  /// BadInput for data without variants.
  /// `noise` > 0: normal noise of that standard deviation is added to the features, in their units; BadInput
  /// for words.
  Batches(const data::Dataset& data, std::vector<std::size_t> members, int global, Replica replica,
          std::uint64_t seed, double augment = 0, double noise = 0);

  /// Number of whole batches in an epoch. Samples that are left over are used in other epochs.
  long per_epoch() const { return std::ssize(members_) / global_; }
  /// Number of samples in a batch of all replicas.
  int global() const { return global_; }
  /// Number of samples in a batch of this replica, fillers included: the largest share of any replica.
  int capacity() const;
  /// This replica's share of the batch of step 0, 1, ...: each sample has the weight 1 / global; samples of
  /// weight 0 fill the batch up to `capacity`. Batch::key is step * global + position: it never repeats.
  Batch at(long step);

 private:
  const data::Dataset& data_;
  std::vector<std::size_t> members_;
  int global_;
  Replica replica_;
  std::uint64_t seed_;
  double augment_, noise_;
  long epoch_ = -1;
  std::vector<std::size_t> order_;
};

}  // namespace fluxformer
