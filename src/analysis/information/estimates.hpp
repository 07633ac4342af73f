#pragma once

// All estimators on one set of states, and on the states of a model at every depth.

#include <mpi.h>

#include <array>
#include <span>
#include <string>
#include <vector>

#include "analysis/information/information.hpp"
#include "analysis/model_probe.hpp"
#include "base/random.hpp"
#include "model/sample_set.hpp"

namespace fluxformer::information {

struct EstimatorSettings {
  std::size_t bins = 10;       ///< of each component
  std::size_t components = 3;  ///< principal components, for binning and ksg
  double noise = 0.2;          ///< sigma over the root mean square deviation of a component of T
  std::size_t neighbours = 5;  ///< k of ksg
};

/// Names of the estimates. input_* is I(X;T), for kde, ksg and gaussian I(X; T + sigma Z); label_* is I(T;Y),
/// for kde and gaussian I(T + sigma Z; Y). In nats.
inline constexpr std::array estimate_names = {"input_binning",
                                              "label_binning",
                                              "input_kde",
                                              "input_kde_lower",
                                              "input_kde_upper",
                                              "label_kde",
                                              "label_kde_lower",
                                              "label_kde_upper",
                                              "input_ksg",
                                              "label_ksg",
                                              "input_gaussian",
                                              "label_gaussian",
                                              "label_gaussian_lower",
                                              "label_gaussian_upper",
                                              "sigma",
                                              "kept_variance"};
inline constexpr std::size_t estimate_count = estimate_names.size();
/// The estimators come in parts that can be computed independently.
inline constexpr int estimator_parts = 4;

/// The estimates of one part, in the order of the names (the others are 0); NaN if the state does not vary
/// over the samples. `draw`: of the noise that ksg adds. Not collective.
std::array<double, estimate_count> estimate(int part, const Points& states, std::span<const int> labels,
                                            const EstimatorSettings& settings, const RandomStream& draw);

/// The states of the samples at every depth, [depth][sample][channel], on all ranks: that of one token or
/// (token < 0) the mean over the real tokens. Every sample must have that token. Collective over the ranks of
/// the samples.
std::vector<double> states_by_depth(const SampleSet& samples, ModelProbe& probe, int token);

/// All estimates of such states of `width` channels, [name of the estimate][depth], the same on all ranks,
/// which share the work. Depth i draws from `draws`.item(i). Collective.
std::vector<std::vector<double>> estimates_by_depth(MPI_Comm comm, const std::vector<double>& states,
                                                    std::span<const int> labels, std::size_t width,
                                                    const EstimatorSettings& settings,
                                                    const RandomStream& draws);

}  // namespace fluxformer::information
