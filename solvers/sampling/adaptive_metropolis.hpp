#pragma once

// A random walk through a density of some ten dimensions, whose steps learn the covariance of the target
// while it warms up. Source: Haario, Saksman, Tamminen, Bernoulli 7 (2001) 223; Roberts, Gelman, Gilks, Ann.
// Appl. Probab. 7 (1997) 110 for the size of the steps. Not collective: a chain belongs to one rank.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace fluxformer::sampling {

/// The logarithm of a density, up to a constant; -infinity where it is 0.
using LogDensity = std::function<double(std::span<const double> x)>;
/// Called with the state of each step after the warm-up.
using Visitor = std::function<void(std::span<const double> x)>;

/// The length of a random walk.
struct WalkPlan {
  long warm_up = 10000;     ///< steps in which the proposal adapts; they are not visited
  long steps = 100000;      ///< number of steps after the warm-up, with a fixed proposal
  double first_step = 0.1;  ///< standard deviation of the first proposals in every direction
  std::uint64_t seed = 1;   ///< seed of the chain; each gives another chain
};

/// The result of a random walk.
struct Walk {
  std::vector<double> last;  ///< state after the last step
  double accepted = 0;       ///< accepted share of the steps after the warm-up
};

/// Walks from `start`, where the density must not be 0 (throws BadInput). The same seed gives the same
/// numbers.
Walk random_walk(const LogDensity& log_density, std::vector<double> start, const WalkPlan& plan,
                 const Visitor& visit);

}  // namespace fluxformer::sampling
