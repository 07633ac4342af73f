#pragma once

// Tokens on the unit sphere that attention gathers and noise spreads:
//
//   dx = V dt + sqrt(2 kappa_s) P_x o dW,    V of analysis/clusters/growth_rates.hpp, v = 1
//
// taken in steps x -> (x + h V + sqrt(2 kappa_s h) P xi) / |.|, xi standard normal, of weak order 1 in h. On the circle a step turns a token
// by atan(h V + sqrt(2 kappa_s h) xi). M_1 = |mean x| is the order parameter. Not collective.

#include <cstdint>
#include <span>

#include "analysis/clusters/circle.hpp"
#include "analysis/clusters/growth_rates.hpp"
#include "base/random.hpp"

namespace fluxformer::clusters {

/// The beta up to which unnormalised attention gathers tokens continuously as noise falls below critical_noise: lambda_2 / lambda_1 = 1 / d.
/// Beyond it M_1 jumps. Source: Balasubramanian, Banerjee, Rigollet, arXiv 2510.20094. With soft-max attention no M_1 jumps (own).
double beta_of_jump(int dimension);

/// Steps of length h with a noise kappa_s.
struct NoisySteps {
  double step, noise;
};
/// E <x+, x> of a step without attention, E (1 + 2 kappa_s h chi^2_{d-1})^{-1/2} (own); to round-off for kappa_s h up to 0.4.
double mean_cosine(int dimension, const NoisySteps& steps);
/// The noise at which an even cloud on the circle ceases to gather when it takes steps of length h, if it does so at `critical` in continuous
/// time (own): 1 - E (1 + 2 kappa h chi^2_1)^{-1/2} = critical h E (1 + 2 kappa h chi^2_1)^{-3/2}, critical (1 + 3/2 critical h) for small h.
double critical_noise_of_steps(double critical, double step);
/// Moves tokens on the circle, of these angles [token] in radians and velocities d theta / dt, by a step. `random`: of this step; xi of token j
/// is its normal number `first` + j.
void take_noisy_step(std::span<double> angles, std::span<const double> velocity, const NoisySteps& steps,
                     const RandomStream& random, std::uint64_t first);

/// One cluster on the circle, stationary in time:
///
///   rho ~ h^{1/(kappa_s beta)} (soft-max),  e^{h/(kappa_s beta)} (unnormalised attention),    h = k * rho
///
/// The noise is a function of M_1, on stable and unstable branches alike; M_1 may have several values at one noise. By quadrature that
/// converges exponentially, for beta up to some 100.
class NoisyCluster {
 public:
  /// beta > 0. Finds the largest noise.
  NoisyCluster(double beta, Weights weights);

  /// A stationary cluster.
  struct State {
    double noise;  ///< kappa_s
    /// kappa_s int rho log(2 pi rho) - int rho h / (2 beta), less that of an even cloud: of unnormalised attention, whose flow lowers it.
    double free_energy;
  };
  /// The cluster of this M_1, in [1e-4, 1).
  State at(double order) const;
  /// The noise at which an even cloud begins to gather.
  double critical() const { return critical_; }
  /// The noise up to which there is a cluster: the largest on the branch. Equal to `critical` unless M_1 jumps.
  double survival() const { return survival_; }
  /// M_1 of the stable cluster at a noise above 0; 0: there is none.
  double order(double noise) const;
  /// The noise at which the stable cluster and an even cloud have the same free energy; `critical` unless M_1 jumps.
  double equal_free_energy() const;

 private:
  double beta_;
  Weights weights_;
  CircleKernel kernel_;
  double critical_, survival_;
  double order_at_survival_;  // 0: the onset is continuous
};

}  // namespace fluxformer::clusters
