#pragma once

// Sums over one slab, from which all scalar measures of a hidden state are computed.

#include <vector>

#include "base/index.hpp"
#include "operators/slab.hpp"

namespace fluxformer::states {

/// Sums over real tokens, samples and channels. Samples of length 0 are left out.
class SlabSums {
 public:
  /// Index of each sum.
  enum Sum { squares, rate_squares, gap_squares, reference_squares, values, variance, edges, numbers };
  static constexpr Index count = 8;

  /// `context` is borrowed; the lengths of its mask may change.
  explicit SlabSums(const SlabContext& context) : context_(context) {}

  /// Adds this rank's share of the sums over the slab u to s[Sum]. rate_squares is over u - previous,
  /// gap_squares over u - reference, if there is a reference (it may be null). Collective over the token
  /// line.
  void add(const double* u, const double* previous, const float* reference, double* s);

  /// Root mean square of u.
  static double norm(const double* s);
  /// Mean square distance to the mean over the tokens of the same sample, per number.
  static double token_variance(const double* s);
  /// Half the mean over tokens of the squared differences to the next tokens east and south, per channel.
  static double dirichlet_energy(const double* s);

 private:
  /// Calls body(local token, sample, index of the first channel in the slab).
  template <class Body>
  void for_real_tokens(Body&& body) const;
  /// Adds the sums over values, and computes token_mean_, the token means of each sample (collective over the
  /// line).
  void add_values(const double* u, const double* previous, const float* reference, double* s);
  void add_variance(const double* u, double* s) const;
  void add_edges(const double* u, double* s) const;

  const SlabContext& context_;
  std::vector<double> token_mean_;  // [sample][channel]
  TokenHalo halo_;
};

}  // namespace fluxformer::states
