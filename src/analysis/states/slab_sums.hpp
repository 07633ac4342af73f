#pragma once

// What is summed over one slab before roots and quotients are taken: the one place for the scalars of a
// hidden state.

#include <cstddef>
#include <vector>

#include "operators/slab.hpp"

namespace fluxformer::states {

/// Sums over real tokens, samples and channels. A sample of length 0 is left out.
class SlabSums {
 public:
  enum Sum { squares, rate_squares, gap_squares, reference_squares, values, variance, edges, numbers };
  static constexpr std::size_t count = 8;

  /// `context` is borrowed; the lengths of its mask may change.
  explicit SlabSums(const SlabContext& context) : context_(context) {}

  /// s[Sum] += my share of the sums for the slab u. rate_squares: of u - previous; gap_squares: of
  /// u - reference, with a reference only (it may be null). Collective over the token line.
  void add(const double* u, const double* previous, const float* reference, double* s);

  /// Root mean square of u.
  static double norm(const double* s);
  /// Mean square distance to the mean over the tokens of the same sample, per number.
  static double token_variance(const double* s);
  /// Half the mean over tokens of the squared differences to the next tokens east and south, per channel.
  static double dirichlet_energy(const double* s);

 private:
  /// body(local token, sample, index of the first channel in the slab)
  template <class Body>
  void for_real_tokens(Body&& body) const;
  /// Leaves the token means of each sample in token_mean_ (collective over the line).
  void add_values(const double* u, const double* previous, const float* reference, double* s);
  void add_variance(const double* u, double* s) const;
  void add_edges(const double* u, double* s) const;

  const SlabContext& context_;
  std::vector<double> token_mean_;  // [sample][channel]
  TokenHalo halo_;
};

}  // namespace fluxformer::states
