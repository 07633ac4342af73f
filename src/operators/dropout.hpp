#pragma once

// Dropout: with probability `rate` a number is set to 0, else divided by 1 - rate. Linear and diagonal: its
// own adjoint. Which numbers depends on the sample's key and on place, not on ranks. Source: Srivastava et
// al. 2014.

#include <cstdint>
#include <vector>

#include "base/random.hpp"
#include "operators/slab.hpp"

namespace fluxformer {

class Dropout {
 public:
  /// `rate` in [0, 1).
  Dropout(double rate, std::uint64_t seed) : rate_(rate), random_(seed, "dropout") {}

  /// From now on with these keys of the samples of a slab; empty: nothing is dropped.
  void set_keys(std::vector<long> keys) { keys_ = std::move(keys); }
  bool active() const { return rate_ > 0 && !keys_.empty(); }
  /// The slab's numbers under the mask called `site`: one for each place of the model where something is
  /// dropped. Not collective.
  void apply(const SlabContext& context, std::uint64_t site, double* slab) const;

 private:
  double rate_;
  RandomStream random_;
  std::vector<long> keys_;
};

}  // namespace fluxformer
