#pragma once

// Numbers of clusters without a threshold, and the energy of tokens, from the sums z_i = sum_j w_j k(x_i, x_j), the denominators of soft-max
// attention, k(x, y) = e^{beta (<x, y> - 1)}.

#include <mpi.h>

#include <span>

namespace fluxformer::clusters {

/// Numbers of all tokens of weights w_i, W of them together, or of a density.
struct SoftNumbers {
  double number_2 = 0;     ///< N_2 = W^2 / sum_ij w_i w_j k_ij
  double number_1 = 0;     ///< N_1 = exp(-mean log(z_i / W))
  double energy = 0;       ///< E = sum_ij w_i w_j k_ij / (2 beta W^2) = 1 / (2 beta N_2)
  double dissipation = 0;  ///< dE/dt = sum_i w_i Z_i |dx_i/dt|^2 / (v W^2) by attention, per unit of time
};
/// A rank's tokens and their attention, [token].
struct AttendedTokens {
  std::span<const double> weights, z;  ///< w, z
  std::span<const double> gain;        ///< Z |dx/dt|^2, Z = z of soft-max attention, W of unnormalised
};
/// The numbers of tokens of weight W on all ranks, beta > 0. Collective, the same on all ranks. Source of E: Geshkovski, Letrouit,
/// Polyanskiy, Rigollet, arXiv 2312.10794 (times e^{-beta}); N_2 and N_1 are Hill numbers of it (own).
SoftNumbers soft_numbers(const AttendedTokens& tokens, double weight, double beta, double value,
                         MPI_Comm comm);

}  // namespace fluxformer::clusters
