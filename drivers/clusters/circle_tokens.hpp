#pragma once

// Tokens on the circle that attention moves, as `clusters_circle` follows them. Tokens that have become equal stay so: where all clusters are
// points, one token goes on for each of them, with their weight.

#include <mpi.h>

#include <memory>
#include <span>
#include <vector>

#include "analysis/clusters/circle.hpp"
#include "base/index.hpp"
#include "io/checkpoint.hpp"
#include "io/parts.hpp"
#include "solvers/flow/flow.hpp"

namespace fluxformer {

/// The tokens of a start on their way, which the ranks share evenly.
class CircleTokens {
 public:
  /// How they move: inverse temperature, error of a step, angle up to which two belong together; whether clusters that are points become
  /// one token each.
  struct Law {
    double beta, tolerance, delta;
    bool reduce;
  };
  /// This rank's share (data::balanced_shard) of all tokens.
  struct State {
    std::vector<double> angles = {}, weights = {};
    Flow::Clock clock = {};
    long evaluations = 0;
    double seconds = 0;
  };
  /// Collective over `comm`.
  CircleTokens(const Law& law, const State& start, MPI_Comm comm);
  CircleTokens(const CircleTokens&) = delete;
  CircleTokens& operator=(const CircleTokens&) = delete;

  /// Moves the tokens to a later time, and reduces them where the law says so as soon as all clusters have diameters up to 1e-9.
  /// Collective; throws NumericalFailure (agreed).
  void advance(double time);
  std::vector<double> angles() const { return flow_->state(); }
  double time() const { return flow_->clock().time; }
  const clusters::CircleAttention& attention() const { return *attention_; }
  /// Collective.
  clusters::CircleClusters components() const { return components_of(flow_->state()); }
  /// Evaluations of all velocities since the start, and this rank's wall time of them.
  long evaluations() const { return evaluations_ + flow_->evaluations(); }
  double seconds() const { return seconds_; }

  /// Keeps all that a run needs to go on exactly. Collective.
  void save(io::CheckpointWriter& file) const;
  /// The state that `save` kept, of at most `tokens` tokens, on any number of ranks. Collective; throws BadInput.
  static State load(const io::CheckpointReader& file, Index tokens, MPI_Comm comm);

 private:
  void begin(const State& at);
  clusters::CircleClusters components_of(std::span<const double> angles) const {
    return clusters::clusters_on_circle(angles, attention_->weights(), law_.delta, comm_);
  }
  /// True where clusters are points of several tokens each.
  bool reducible(const clusters::CircleClusters& found) const;
  /// Goes on with a token for each cluster.
  void reduce(const clusters::CircleClusters& found);

  Law law_;
  MPI_Comm comm_;
  std::unique_ptr<clusters::CircleAttention> attention_;
  std::unique_ptr<Flow> flow_;
  long evaluations_;  // of earlier flows
  double seconds_;
};

}  // namespace fluxformer
