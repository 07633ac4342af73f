#pragma once

// Clusters among the tokens of trained models by depth: their states as points on the unit sphere, as the tokens of cluster theory are.
//
//   x_i = u_i / |u_i|          as they are, or less the mean of all tokens of all samples at that depth
//   N_2 = n^2 / sum_ij e^{beta (<x_i, x_j> - 1)}          within a sample of n tokens
//
// A direction that all tokens have in common looks like one cluster; the centred tokens do not have it. Padding is left out, and so is a
// token whose vector is 0, or 1e-13 of the mean that was taken away.
//
// Do the tokens of a text cluster, or are tokens of all texts alike? N_2 of sets that have one token from each of as many samples answers it.

#include <cstdint>
#include <span>
#include <vector>

#include "analysis/dense_matrices.hpp"
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
  bool nulls = true;       ///< normal and permuted tokens, and sets of tokens of different samples, too
  std::uint64_t seed = 1;  ///< of these and of the bootstrap
};

/// Means over samples, the same on all ranks; number_2 are geometric means. Indices in the order [depth][centring][beta or delta].
struct TokenClusters {
  std::vector<double> number_2;
  /// N_2 of as many independent tokens of a normal distribution with mean and covariance of that depth, and of the tokens each of whose
  /// vectors has its channels permuted; empty without nulls.
  std::vector<double> number_2_normal, number_2_permuted;
  /// N_2 of sets of as many tokens as a sample has, one from each of so many samples (log_number_across); NaN if a sample has more tokens than
  /// there are samples, empty without nulls.
  std::vector<double> number_2_across;
  std::vector<double>
      number_2_uniform;  ///< 1 / (1/n + (1 - 1/n) lambda_0), of independent tokens on the sphere, [beta]
  std::vector<double> components;     ///< of tokens at most delta apart
  std::vector<double> compact_share;  ///< share of tokens in components of a diameter up to 3 delta
  /// exp of the entropy of sigma_k / sum sigma of the directions' singular values, at most the smaller of tokens and channels, [depth][centring]
  /// (states::effective_rank_of; Roy and Vetterli, EUSIPCO 2007, 606); of the normal tokens, too, empty without nulls.
  std::vector<double> effective_rank, effective_rank_normal;
  /// Leaders at the middle delta, and the mean angle of a token to the nearest of them, in radians, [depth][centring] (leaders_by_products).
  std::vector<double> leaders, leader_angle;
  /// The longest stretch of depth, in layers, over which a sample keeps its number N of components while 2 <= N <= half of its tokens and 0.95
  /// of them are in compact ones; and the share of samples in which it is at least three layers, [centring][delta].
  std::vector<double> plateau, plateau_share;
  /// log E (HeadKernels) at the beginning of each layer with the layer's heads, its change until the layer's end with the same heads, and the
  /// share of samples in which it falls, by more than 1e-9, [layer][head]; NaN where no depth cell begins or ends there.
  std::vector<double> log_energy, energy_change, energy_falls;
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

/// Leaders among unit vectors, and the mean angle of all vectors to the nearest of them, in radians.
struct LeaderAngle {
  Index leaders = 0;
  double angle = 0;
};
/// In order, a vector that is farther than `radius` (in radians, below pi) from all leaders before it becomes a leader, as in leaders.hpp; from
/// products [n][n]. The angle is that to the nearest leader of all, 0 for leaders, else to some 3e-8, and at most `radius`. NaN unless all
/// products are finite. Not collective.
LeaderAngle leaders_by_products(std::span<const double> products, double radius);

/// log N_2, [beta], of the set of the vectors `first`, `first` + 1, ..., `size` of them, each from a sample of its own: row k of `tokens` is that
/// of sample k, and behind the last follows row 0. Vectors of length up to `zero` are left out. NaN if there are fewer than `size`. Not
/// collective.
std::vector<double> log_number_across(const RowMatrix& tokens, Index first, Index size, double zero,
                                      std::span<const double> betas);

/// The longest stretch between two of the depths s, ascending, over which `number` is one and the same and `counts` holds; 0 for none. Not
/// collective.
double longest_plateau(std::span<const double> s, std::span<const double> number,
                       const std::vector<bool>& counts);

/// Measures the states of a model at all rows of the probe. Cost: two forward passes; for each sample and depth products of all pairs of
/// tokens and an exponential for each pair and beta, their singular values, n d min(n, d), and the energies of a layer (HeadKernels); with nulls
/// three times that, d^2 for each token, d^3 for each depth and a token of each sample and depth in memory. Collective over the ranks of the
/// samples; throws BadInput for tokens that ranks share.
TokenClusters measure_token_clusters(const SampleSet& samples, ModelProbe& probe,
                                     const TokenClusterSettings& settings);

}  // namespace fluxformer::clusters
