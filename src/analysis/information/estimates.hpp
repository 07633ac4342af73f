#pragma once

// All estimators of mutual information on one set of states, and on the states of a model at every depth.
// Estimators that do not work in hundreds of dimensions take the projection of the states to their m
// directions of largest variance, which loses information: I(T_m; .) <= I(T; .).

#include <mpi.h>

#include <span>
#include <vector>

#include "analysis/information/information.hpp"
#include "analysis/model_probe.hpp"
#include "base/index.hpp"
#include "base/random.hpp"
#include "model/sample_set.hpp"

namespace fluxformer::information {

/// Projected states, axes, and the variance that they keep.
struct PrincipalComponents {
  Index count = 0, components = 0;
  std::vector<double> projected;  ///< [sample][component]: (t - mean) . axis
  std::vector<double> axes;       ///< [component][channel], orthonormal
  std::vector<double> variance;   ///< variance along each axis (divisor N), in descending order
  double total_variance = 0;      ///< sum of the variances of all channels

  Points points() const { return {projected.data(), count, components}; }
};

/// Projection to the first m eigenvectors of the covariance, by N d^2 + d^3 operations. The entry of largest
/// magnitude of an axis is positive, which fixes the signs. Not collective. Throws BadInput unless 1 <= m <=
/// d, and as require_points does.
PrincipalComponents principal_components(const Points& states, Index m);

/// Settings of the estimators: the keys bottleneck.bins, .components, .noise and .neighbours.
struct EstimatorSettings {
  Index bins = 10;       ///< intervals of each component
  Index components = 3;  ///< principal components, for binning and ksg
  double noise = 0.2;    ///< sigma over the root mean square deviation of a component of T
  Index neighbours = 5;  ///< k of ksg
};

/// Number of parts of the estimators that can be computed independently.
inline constexpr int estimator_parts = 4;

/// Estimates of one part, in the order of variables::estimates() (the others are 0), in nats; NaN if the
/// state does not vary over the samples. `draw` gives the noise that ksg adds. Not collective.
std::vector<double> estimate(int part, const Points& states, std::span<const int> labels,
                             const EstimatorSettings& settings, const RandomStream& draw);

/// States of the samples at every depth, [depth][sample][channel], on all ranks: that of one token or (token
/// < 0) the mean over the real tokens. Every sample must have that token. Collective over the ranks of the
/// samples.
std::vector<double> states_by_depth(const SampleSet& samples, ModelProbe& probe, int token);

/// All estimates for the states of states_by_depth with `width` channels, [estimate][depth], the same on all
/// ranks, which share the work. Depth i draws from draws.item(i). Collective.
std::vector<std::vector<double>> estimates_by_depth(MPI_Comm comm, const std::vector<double>& states,
                                                    std::span<const int> labels, Index width,
                                                    const EstimatorSettings& settings,
                                                    const RandomStream& draws);

}  // namespace fluxformer::information
