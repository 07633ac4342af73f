#pragma once

// Tokens on the circle: attention by moments, in O(n K) instead of O(n^2), and their clusters.
//
//   k(theta) = e^{beta (cos theta - 1)} = c_0 + 2 sum_k c_k cos(k theta),    c_k = e^{-beta} I_k(beta)
//   z_i = sum_j k(theta_i - theta_j) = c_0 n + 2 sum_k c_k Re(n M_k e^{-i k theta_i}),    n M_k = sum_j e^{i k theta_j}
//   d theta_i / dt = (v / beta) z'(theta_i) / z(theta_i)

#include <mpi.h>

#include <complex>
#include <span>
#include <vector>

#include "base/index.hpp"

namespace fluxformer::clusters {

/// Soft-max attention between tokens on the circle, whose angles the ranks share.
class CircleAttention {
 public:
  /// `tokens`: n on all ranks together. Moments are taken up to the first with c_K < 1e-18 c_0.
  CircleAttention(Index tokens, double beta, double value, MPI_Comm comm);

  /// K
  int order() const { return static_cast<int>(of_kernel_.size()) - 1; }
  /// rate := d theta / dt of this rank's tokens. Collective.
  void velocity(std::span<const double> angles, std::span<double> rate) const;

  /// Numbers of all tokens, the same on all ranks.
  struct Sums {
    double number_2 = 0;     ///< N_2 = n^2 / sum_ij k_ij
    double number_1 = 0;     ///< N_1 = exp(-mean log(z_i / n))
    double energy = 0;       ///< E = sum_ij k_ij / (2 beta n^2)
    double dissipation = 0;  ///< dE/dt = v sum_i z_i (d theta_i / dt)^2 / n^2 / v^2
  };
  /// Collective.
  Sums sums(std::span<const double> angles) const;
  /// M_1 .. M_count = mean e^{i k theta}. Collective.
  std::vector<std::complex<double>> moments(std::span<const double> angles, int count) const;

 private:
  /// z and z' / beta of this rank's tokens, from n M_1 .. n M_K.
  void densities(std::span<const double> angles, std::span<const std::complex<double>> sums,
                 std::span<double> z, std::span<double> slope) const;
  std::vector<std::complex<double>> sums_of_powers(std::span<const double> angles, int count) const;

  Index tokens_;
  double beta_, value_;
  MPI_Comm comm_;
  std::vector<double> of_kernel_, over_beta_;  // c_k, and k c_k / beta
};

/// Clusters of tokens on the circle: connected components of tokens at most `delta` apart.
struct CircleClusters {
  long number = 0;
  double compact_share = 0;         ///< share of tokens in components of a diameter up to 3 delta
  std::vector<double> masses = {};  ///< share of the tokens of each, the largest first
};
/// The clusters of this and all other ranks' tokens, exactly: tokens are put into bins not wider than delta, within which they belong
/// together. 0 < delta < pi. Collective; the same on all ranks, whatever their number.
CircleClusters clusters_on_circle(std::span<const double> angles, double delta, MPI_Comm comm);

}  // namespace fluxformer::clusters
