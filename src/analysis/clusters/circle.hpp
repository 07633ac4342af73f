#pragma once

// Tokens on the circle, of weights w_j >= 0: attention by moments, in O(n K) instead of O(n^2), and their clusters.
//
//   k(theta) = e^{beta (cos theta - 1)} = c_0 + 2 sum_k c_k cos(k theta),    c_k = e^{-beta} I_k(beta)
//   z_i = sum_j w_j k(theta_i - theta_j) = c_0 W + 2 sum_k c_k Re(W M_k e^{-i k theta_i}),    W M_k = sum_j w_j e^{i k theta_j}
//   d theta_i / dt = (v / beta) z'(theta_i) / Z_i,    Z_i = z(theta_i) of soft-max attention, W of unnormalised
//
// W = sum_j w_j. A token of weight w moves as w equal tokens do. Fewer tokens than K are summed by pairs: that is cheaper, and forces
// between clusters that are far apart, like e^{-2 beta}, are not lost among the roundings of moments. Angles are in radians.

#include <mpi.h>

#include <complex>
#include <span>
#include <vector>

#include "analysis/clusters/growth_rates.hpp"
#include "analysis/clusters/soft_numbers.hpp"
#include "base/index.hpp"

namespace fluxformer::clusters {

/// The kernel by waves, up to the first with c_K < 1e-18 c_0. Not collective.
struct CircleKernel {
  /// `inverse_temperature`: beta > 0.
  explicit CircleKernel(double inverse_temperature);
  /// K
  int order() const { return static_cast<int>(value.size()) - 1; }
  double beta;
  std::vector<double> value, slope;  ///< c_k, and k c_k / beta
};

/// Attention between tokens on the circle, whose angles the ranks share. Spans are [token] of this rank.
class CircleAttention {
 public:
  /// `weights`: of this rank's tokens; of all ranks at least one is not 0. Collective.
  CircleAttention(std::vector<double> weights, double beta, double value, MPI_Comm comm,
                  Weights normalisation = Weights::softmax);

  /// Tokens, and their weight, on all ranks together.
  Index tokens() const { return tokens_; }
  double weight() const { return weight_; }
  /// The weights of this rank's tokens.
  const std::vector<double>& weights() const { return weights_; }

  /// rate := d theta / dt of this rank's tokens. Collective.
  void velocity(std::span<const double> angles, std::span<double> rate) const;
  /// The same on all ranks. Of the velocities without noise. Collective.
  SoftNumbers sums(std::span<const double> angles) const;
  /// M_1 .. M_count. Collective.
  std::vector<std::complex<double>> moments(std::span<const double> angles, int count) const;

 private:
  /// Z of a token.
  double denominator(double z) const { return normalisation_ == Weights::softmax ? z : weight_; }
  /// z and z' / beta of this rank's tokens. Collective.
  void densities(std::span<const double> angles, std::span<double> z, std::span<double> slope) const;
  void by_moments(std::span<const double> angles, std::span<double> z, std::span<double> slope) const;
  void by_pairs(std::span<const double> angles, std::span<double> z, std::span<double> slope) const;
  /// W M_1 .. W M_count
  std::vector<std::complex<double>> sums_of_powers(std::span<const double> angles, int count) const;

  std::vector<double> weights_;
  double value_;
  Weights normalisation_;
  MPI_Comm comm_;
  CircleKernel kernel_;
  Index tokens_ = 0, before_ = 0;  // on all ranks, and on the ranks before this one
  double weight_ = 0;
};

/// A cluster of tokens on the circle: a connected component of tokens at most `delta` apart.
struct CircleCluster {
  double weight = 0;    ///< of its tokens
  double angle = 0;     ///< of their mean, in radians
  double diameter = 0;  ///< in radians; infinite: it closes the circle
};
/// All clusters of tokens on the circle.
struct CircleClusters {
  std::vector<CircleCluster> each = {};  ///< the heaviest first
  double compact_share = 0;              ///< share of the weight in components of a diameter up to 3 delta
  double diameter = 0;                   ///< the largest
  long number() const { return static_cast<long>(each.size()); }
};
/// The clusters of this and all other ranks' tokens, exactly: tokens are put into bins not wider than delta, within which they belong
/// together. 0 < delta < pi. Collective; the same on all ranks, counts whatever their number.
CircleClusters clusters_on_circle(std::span<const double> angles, std::span<const double> weights,
                                  double delta, MPI_Comm comm);

/// The angle below which the share `share`, in (0, 1), of the density (1 + amplitude cos(waves theta)) / 2 pi lies. Amplitude below 1. Not
/// collective.
double wave_quantile(double share, int waves, double amplitude);

}  // namespace fluxformer::clusters
