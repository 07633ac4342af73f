#pragma once

// How the gradient of a loss goes back through depth: its size at every state, and in every block of
// parameters.

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "analysis/accumulator.hpp"
#include "model/parameters.hpp"
#include "operators/slab.hpp"

namespace fluxformer::derivatives {

/// Over samples, each with a loss of its own (not divided by their number), in units of that loss per unit of
/// u.
struct GradientMeasures {
  std::vector<double> norm;   ///< root mean square over samples of |d loss / d u_i|, for i = 0 .. depths - 1
  std::vector<double> ratio;  ///< norm_i / norm_{i+1}: growth on the way back; 1 at the last depth
  double disparity = 0;       ///< largest over smallest norm; 1 is the same at every depth
  long samples = 0;
};

/// Accumulates GradientMeasures. Samples may be spread over ranks, each whole on one rank; only `reduce` is
/// collective.
class GradientMeter : public Accumulator {
 public:
  /// `context` is borrowed; the lengths of its mask may change from batch to batch, a sample of length 0 is
  /// left out. Throws BadInput for tokens spread over ranks.
  GradientMeter(int depths, const SlabContext& context);

  /// Adds the samples of the context at one depth: the slab d loss / d u_i. Every batch has to come by once
  /// at every depth. Which depths are consecutive is the caller's choice: compare models at the same spacing.
  void add(int depth, const double* u_bar);

  /// What has been added so far; NaN where nothing was.
  GradientMeasures measures() const;

 private:
  const SlabContext& context_;  // the sums are [depth][sum of squares, samples]
};

/// Gradient of one group of parameters (ParameterView::group): the embedding, one knot, ...
struct GroupNorm {
  std::string group;
  std::size_t parameters = 0;  ///< how many there are
  double norm = 0;             ///< Euclidean norm of their gradient
};

/// In the order of the layout. `gradient` is flat, of one loss or of the mean over samples. Not collective.
std::vector<GroupNorm> group_norms(const ParameterLayout& layout, std::span<const double> gradient);

}  // namespace fluxformer::derivatives
