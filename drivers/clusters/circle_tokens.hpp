#pragma once

// Tokens on the circle that attention moves, as `clusters_circle` follows them. Tokens that have become equal stay so: where all clusters are
// points, one token goes on for each of them, with their weight.

#include <mpi.h>

#include <memory>
#include <span>
#include <vector>

#include "analysis/clusters/circle.hpp"
#include "base/index.hpp"
#include "drivers/clusters/moving.hpp"

namespace fluxformer {

/// This rank's piece of a list with a number for each of so many tokens, which the ranks share evenly (data::balanced_shard). Not
/// collective.
io::FlatPart evenly_shared(Index tokens, MPI_Comm comm);

/// The tokens of a start on their way, which the ranks share evenly; their numbers are angles.
class CircleTokens final : public Moving {
 public:
  /// How they move: inverse temperature, error of a step, angle up to which two belong together; whether clusters that are points become
  /// one token each; and the normalisation of attention.
  struct Law {
    double beta, tolerance, delta;
    bool reduce;
    clusters::Weights normalisation = clusters::Weights::softmax;
  };
  /// This rank's share (data::balanced_shard) of all tokens, of weights >= 0. Collective over `comm`.
  CircleTokens(const Law& law, const State& start, std::vector<double> weights, MPI_Comm comm);
  /// The tokens that `save` kept, at most `tokens` of them, on any number of ranks. Collective; throws BadInput.
  static std::unique_ptr<CircleTokens> load(const Law& law, const io::CheckpointReader& file, Index tokens,
                                            MPI_Comm comm);

  /// Moves the tokens, and reduces them where the law says so as soon as all clusters have diameters up to 1e-9.
  bool advance(double time) override;
  void save(io::CheckpointWriter& file) const override;

  const clusters::CircleAttention& attention() const { return *attention_; }
  /// Collective.
  clusters::CircleClusters components() const { return components_of(numbers()); }

 private:
  void begin_with(const State& at, std::vector<double> weights);
  clusters::CircleClusters components_of(std::span<const double> angles) const {
    return clusters::clusters_on_circle(angles, attention_->weights(), law_.delta, comm());
  }
  /// True where clusters are points of several tokens each.
  bool reducible(const clusters::CircleClusters& found) const;
  /// Goes on with a token for each cluster.
  void reduce(const clusters::CircleClusters& found);

  Law law_;
  std::unique_ptr<clusters::CircleAttention> attention_;
};

}  // namespace fluxformer
