#pragma once

// Projection of states to their m directions of largest variance, for estimators that do not work in hundreds
// of dimensions. The projection loses information: I(T_m; .) <= I(T; .).

#include <mpi.h>
#include <cstddef>
#include <span>
#include <vector>

#include "analysis/information/information.hpp"
#include "analysis/model_probe.hpp"
#include "base/random.hpp"
#include "model/sample_set.hpp"

namespace fluxformer::information {

/// The projected states, the axes, and how much of the variance they keep.
struct PrincipalComponents {
  std::size_t count = 0, components = 0;
  std::vector<double> projected;  ///< [sample][component]: (t - mean) . axis
  std::vector<double> axes;       ///< [component][channel], orthonormal
  std::vector<double> variance;   ///< along each axis (divisor N), in descending order
  double total_variance = 0;      ///< of all channels

  Points points() const { return {projected.data(), count, components}; }
};

/// Eigenvectors of the covariance; N d^2 + d^3 operations. The entry of largest magnitude of an axis is
/// positive, which fixes the signs. Not collective. Throws BadInput unless 1 <= m <= d, and as require_points
/// does.
PrincipalComponents principal_components(const Points& states, std::size_t m);

// All estimators on one set of states, and on the states of a model at every depth.

/// The keys bottleneck.bins, .components, .noise and .neighbours.
struct EstimatorSettings {
  std::size_t bins = 10;       ///< of each component
  std::size_t components = 3;  ///< principal components, for binning and ksg
  double noise = 0.2;          ///< sigma over the root mean square deviation of a component of T
  std::size_t neighbours = 5;  ///< k of ksg
};

/// The estimators come in parts that can be computed independently.
inline constexpr int estimator_parts = 4;

/// The estimates of one part, in the order of variables::estimates() (the others are 0), in nats; NaN if the
/// state does not vary over the samples. `draw`: of the noise that ksg adds. Not collective.
std::vector<double> estimate(int part, const Points& states, std::span<const int> labels,
                             const EstimatorSettings& settings, const RandomStream& draw);

/// The states of the samples at every depth, [depth][sample][channel], on all ranks: that of one token or
/// (token < 0) the mean over the real tokens. Every sample must have that token. Collective over the ranks of
/// the samples.
std::vector<double> states_by_depth(const SampleSet& samples, ModelProbe& probe, int token);

/// All estimates of such states of `width` channels, [estimate][depth], the same on all ranks,
/// which share the work. Depth i draws from `draws`.item(i). Collective.
std::vector<std::vector<double>> estimates_by_depth(MPI_Comm comm, const std::vector<double>& states,
                                                    std::span<const int> labels, std::size_t width,
                                                    const EstimatorSettings& settings,
                                                    const RandomStream& draws);

}  // namespace fluxformer::information
