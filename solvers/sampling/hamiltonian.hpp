#pragma once

// Hamiltonian Monte Carlo with trajectories of a fixed number of leapfrog steps, whose size adapts while the
// chain warms up. Source: Neal, Handbook of Markov Chain Monte Carlo (2011), chapter 5; dual averaging:
// Hoffman and Gelman, J. Mach. Learn. Res. 15 (2014) 1593, section 3.2. Not collective: a chain belongs to
// one rank.
//
// The mass is 1 in every direction: coordinates should be scaled so that their prior has variance 1.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace fluxformer::sampling {

/// The potential -ln(density) up to a constant, and its gradient (as long as q). Infinite or NaN where the
/// density is 0.
using Potential = std::function<double(std::span<const double> q, std::span<double> gradient)>;

/// A point (q, p) of the phase space, with the potential there and its gradient.
struct PhasePoint {
  std::vector<double> q, p;
  std::vector<double> gradient;
  double potential = 0;

  /// The sum of potential and kinetic energy.
  double energy() const;
};

/// Takes `steps` leapfrog steps of size `epsilon`. Ends early, and returns false, if the energy is not finite
/// or has risen by more than 1000 above that of the start: the trajectory diverges.
bool leapfrog(const Potential& potential, PhasePoint& at, double epsilon, int steps);

/// The length of a chain.
struct HamiltonianPlan {
  int warm_up = 200;        ///< draws in which the step size adapts; they are not visited
  int draws = 1000;         ///< number of draws after the warm-up
  int steps = 300;          ///< number of leapfrog steps for each draw
  double acceptance = 0.8;  ///< acceptance that the step size aims at
  std::uint64_t seed = 1;   ///< seed of the chain; each gives another chain
};

/// The result of a chain.
struct HamiltonianChain {
  std::vector<double> last;  ///< state after the last draw
  double acceptance = 0;     ///< mean probability of acceptance after the warm-up
  double step = 0;     ///< step size after the warm-up; that of a trajectory is up to 10 % larger or smaller
  long divergent = 0;  ///< number of trajectories after the warm-up that diverged
};

/// Runs a chain from `start`, where the density must not be 0 (throws BadInput). The same seed gives the same
/// numbers.
HamiltonianChain hamiltonian_chain(const Potential& potential, std::vector<double> start,
                                   const HamiltonianPlan& plan,
                                   const std::function<void(std::span<const double> q)>& visit);

}  // namespace fluxformer::sampling
