#include "training/batches.hpp"

#include <utility>

#include "base/error.hpp"
#include "base/index.hpp"
#include "base/random.hpp"

namespace fluxformer {
namespace {

void add_noise(const RandomStream& draw, double deviation, int count, double* numbers) {
  for (int j = 0; j < count; ++j) numbers[j] += deviation * draw.normal(j);
}

}  // namespace

Batches::Batches(const data::Dataset& data, std::vector<std::size_t> members, int global, Replica replica,
                 std::uint64_t seed, double augment, double noise)
    : data_(data),
      members_(std::move(members)),
      global_(global),
      replica_(replica),
      seed_(seed),
      augment_(augment),
      noise_(noise) {
  const auto batch = "train.batch = " + std::to_string(global);
  if (global > std::ssize(members_))
    throw BadInput(batch + ": there are " + std::to_string(members_.size()) + " samples to train on");
  if (global < replica.count)
    throw BadInput(batch + ": must be at least one sample for each of " + std::to_string(replica.count) +
                   " groups of ranks");
  if (const auto why = augment > 0 ? data.why_no_variants() : std::string(); !why.empty())
    throw BadInput("train.augment: " + why);
  if (noise > 0 && data.vocabulary() > 0)
    throw BadInput(
        "train.noise: words have no features to add noise to; train.augment replaces some of them by <unk>");
}

int Batches::capacity() const {
  return replica_.largest_share(global_);
}

Batch Batches::at(long step) {
  const long epoch = step / per_epoch();
  if (epoch != epoch_) {
    // Each epoch has a random order of its own; what does not fill a batch is left out.
    order_ = shuffled(members_.size(), seed_, "order", epoch);
    epoch_ = epoch;
  }
  const auto shard = data::balanced_shard(global_, replica_.index, replica_.count);
  const RandomStream variants(seed_, "variants"), noises(seed_, "noise on features");
  const Index count = shard.count;
  auto batch = empty_batch(data_, capacity());
  // The global batch is entries first .. first + global - 1 of the order of this epoch; the replica takes its
  // shard.
  const Index first = step % per_epoch() * global_;
  for (Index slot = 0; slot < std::ssize(batch.label); ++slot) {
    // A filler repeats the first sample of the shard with weight 0: all replicas have batches of one size.
    const bool filler = slot >= count;
    const Index position = shard.first + (filler ? 0 : slot);
    const Index index = members_[order_[first + position]];
    // Keyed by step and place in the global batch: draws do not depend on the ranks that share it.
    const long key = step * global_ + position;
    put_sample(data_, index, key, filler ? 0.0 : 1.0 / global_, slot, batch);
    if (augment_ > 0)
      data_.variant(index, variants.item(key), augment_, tokens_of(batch, slot));
    else
      data_.tokens(index, tokens_of(batch, slot));
    if (noise_ > 0)
      add_noise(noises.item(key), noise_, data_.length(index) * data_.features(), tokens_of(batch, slot));
  }
  return batch;
}

}  // namespace fluxformer
