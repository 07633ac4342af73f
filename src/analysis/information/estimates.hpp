#pragma once

// All estimators on one set of states, and on the states of a model at every depth.

#include <mpi.h>

#include <span>
#include <vector>

#include "analysis/information/information.hpp"
#include "analysis/model_probe.hpp"
#include "base/random.hpp"
#include "model/sample_set.hpp"

namespace fluxformer::information {

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
