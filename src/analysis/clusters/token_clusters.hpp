#pragma once

// Clusters among the tokens of trained models by depth: their states as points on the unit sphere, as the tokens of cluster theory are.
//
//   x_i = u_i / |u_i|          as they are, or less the mean of all tokens of all samples at that depth
//   N_2 = n^2 / sum_ij e^{beta (<x_i, x_j> - 1)}          within a sample of n tokens
//
// A direction that all tokens have in common looks like one cluster; the centred tokens do not have it. Padding is left out, and so is a
// token whose vector is 0, or 1e-13 of the mean that was taken away.

#include <cstdint>
#include <span>
#include <vector>

#include "analysis/model_probe.hpp"
#include "base/index.hpp"
#include "model/sample_set.hpp"

namespace fluxformer::clusters {

/// Whether tokens are centred: the index of the axis `centring`.
inline constexpr Index centrings = 2;  // 0: as they are, 1: centred

/// How tokens are measured.
struct TokenClusterSettings {
  std::vector<double> betas = {};   ///< of the soft numbers
  std::vector<double> deltas = {};  ///< angles up to which two tokens belong together, in radians, below pi
  bool nulls = true;                ///< normal and permuted tokens, too
  std::uint64_t seed = 1;           ///< of these and of the bootstrap
};

/// Means over samples, the same on all ranks; number_2 are geometric means. Indices in the order [depth][centring][beta or delta].
struct TokenClusters {
  std::vector<double> number_2;
  /// N_2 of as many independent tokens of a normal distribution with mean and covariance of that depth, and of the tokens each of whose
  /// vectors has its channels permuted; empty without nulls.
  std::vector<double> number_2_normal, number_2_permuted;
  std::vector<double>
      number_2_uniform;  ///< 1 / (1/n + (1 - 1/n) lambda_0), of independent tokens on the sphere, [beta]
  std::vector<double> components;     ///< of tokens at most delta apart
  std::vector<double> compact_share;  ///< share of tokens in components of a diameter up to 3 delta
  std::vector<double> cosine_within,
      cosine_between;  ///< mean over pairs of tokens of a sample, of different samples [depth][centring]
  std::vector<double> left_out;  ///< tokens whose vector is 0 [depth]
  /// log N_2 at the last depth less that at the depth of the least, [centring][beta]: that depth is found on one half of the samples and
  /// the difference taken on the other, both ways. Its standard deviation over 200 bootstraps of the samples.
  std::vector<double> escape, escape_error;
};

/// Connected components of unit vectors, and the share of the vectors in components of a diameter up to 3 delta.
struct Components {
  Index number = 0;
  double compact_share = 0;
};
/// The components of vectors at most `delta` apart (an angle below pi), from their products [n][n]; angles as 2 asin(|x - y| / 2), to some
/// 3e-8. Not collective.
Components components_of(std::span<const double> products, double delta);

/// Measures the states of a model at all rows of the probe. Cost: two forward passes; for each sample and depth products of all pairs of
/// tokens and an exponential for each pair and beta; with nulls d^2 for each token, and d^3 for each depth. Collective over the ranks of the
/// samples; throws BadInput for tokens that ranks share.
TokenClusters measure_token_clusters(const SampleSet& samples, ModelProbe& probe,
                                     const TokenClusterSettings& settings);

}  // namespace fluxformer::clusters
