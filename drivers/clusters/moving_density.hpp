#pragma once

// A density of tokens on the circle on its way, as `clusters_circle` follows it: few numbers, which rank 0 has.

#include <mpi.h>

#include <span>
#include <vector>

#include "analysis/clusters/circle_density.hpp"
#include "drivers/clusters/moving.hpp"

namespace fluxformer {

/// The density from 1 + amplitude cos(waves theta) on. It is over once it is not resolved.
class MovingDensity final : public Moving {
 public:
  /// Coefficients N, inverse temperature and normalisation of attention, and the start.
  struct Plan {
    int coefficients;
    double beta;
    clusters::Weights normalisation;
    int waves;
    double amplitude;
  };
  /// The density at t = 0 with a first step of this length, and the one that `save` kept. Collective; the latter throws BadInput.
  MovingDensity(const Plan& plan, double first_step, MPI_Comm comm);
  MovingDensity(const Plan& plan, const io::CheckpointReader& file, MPI_Comm comm);

  bool advance(double time) override;
  bool over() const override { return over_; }

  /// The density at its present time.
  struct Look {
    clusters::SoftNumbers sums = {};      ///< numbers of clusters, energy and dissipation
    std::vector<double> moments, shares;  ///< |M_1| .. |M_modes|, and shares of the tokens in so many bins
  };
  /// Collective, the same on all ranks.
  Look look(int modes, int bins);

 private:
  MovingDensity(const Plan& plan, MPI_Comm comm);
  void begin_with(const State& at);
  /// Collective.
  bool resolved(std::span<const double> state) const;

  int waves_;
  clusters::CircleDensity density_;
  bool over_ = false;
};

}  // namespace fluxformer
