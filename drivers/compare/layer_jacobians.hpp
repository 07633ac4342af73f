#pragma once

// The derivatives of a model's layers at the states of some samples: how much they stretch and shrink.

#include <cstdint>
#include <vector>

#include "drivers/compare/compare_problem.hpp"
#include "model/precision.hpp"

namespace fluxformer {

struct JacobianPlan {
  std::size_t samples = 1;  ///< the first of CompareProblem::members
  int batch = 1;            ///< that a rank holds at a time, at most
  int steps = 1;            ///< of the Lanczos process for singular values
  int exponents = 1;        ///< Lyapunov exponents
  int sweeps = 0;           ///< of their directions, back and forth, before growth is counted
  Precision precision = Precision::dbl;
  std::uint64_t seed = 0;  ///< of the directions to begin with
};

/// Of the map over a whole layer, so that models on different depth cells compare; and of all layers.
struct LayerJacobians {
  std::vector<double> largest, smallest;              ///< singular value by layer, mean over samples
  std::vector<double> largest_error, smallest_error;  ///< of any sample, at most (SingularRange)
  std::vector<double> lyapunov;                       ///< exponents per layer, mean over samples
};

/// The same on all ranks, up to round-off whatever their number. Collective. Cost, in forward passes of the
/// samples: about 5 steps + exponents (2 + 5 sweeps). Memory: 2 steps states of a batch, 2 exponents, and one
/// for each depth.
LayerJacobians layer_jacobians(const CompareProblem& problem, const Parameters& parameters,
                               const JacobianPlan& plan);

}  // namespace fluxformer
