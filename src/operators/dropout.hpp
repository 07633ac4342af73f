#pragma once

// Dropout: a number is set to 0 with probability `rate` and divided by 1 - rate otherwise. Linear and
// diagonal, hence its own adjoint. The mask depends on the sample's key, the site and the position, not on
// ranks. Source: Srivastava et al. 2014.

#include <cstdint>
#include <vector>

#include "base/random.hpp"
#include "operators/slab.hpp"

namespace fluxformer {

/// Masks of one seed; nothing is stored per mask.
class Dropout {
 public:
  /// `rate` in [0, 1).
  Dropout(double rate, std::uint64_t seed) : rate_(rate), random_(seed, "dropout") {}

  /// Sets the keys of the samples of a slab; empty: nothing is dropped.
  void set_keys(std::vector<long> keys) { keys_ = std::move(keys); }
  bool active() const { return rate_ > 0 && !keys_.empty(); }
  /// Masks the slab; each place in the model that has dropout is a `site` with masks of its own. Not
  /// collective.
  void apply(const SlabContext& context, std::uint64_t site, double* slab) const;

 private:
  double rate_;
  RandomStream random_;
  std::vector<long> keys_;
};

}  // namespace fluxformer
