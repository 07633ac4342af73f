#pragma once

// The parameters of the stages of a depth: which arrays stages hold together, and which stage each array
// belongs to.

#include <mpi.h>

#include <functional>
#include <span>
#include <vector>

#include "base/handle.hpp"
#include "io/parts.hpp"
#include "model/parameters.hpp"
#include "training/training_ranks.hpp"

namespace fluxformer {

/// The arrays that each stage holds, and sums over the stages that share some. Arrays that several stages
/// hold (knots that cells on both sides of a border use, a word table that embeds and guesses, alpha and rho)
/// belong to the first of them.
class StageParameters {
 public:
  /// Collective over all ranks. `parameters` is this stage's share.
  StageParameters(const TrainingRanks& ranks, const Parameters& parameters);

  int stages() const { return layouts_.size(); }

  /// Arrays of `gradient` that several stages hold become their sum over these stages. `gradient` has the
  /// layout of this stage's share and is already summed over the ranks of the stage. Collective over the
  /// depth.
  void sum(std::span<double> gradient) const;
  /// The places in the model of the numbers that this rank holds, and of those that it writes: each number is
  /// written once.
  const io::FlatPart& held() const { return held_; }
  const io::FlatPart& written() const { return written_; }
  /// The entries of the flat vector that belong to this stage.
  const std::vector<io::FlatPart::Piece>& owned() const { return owned_; }
  /// The sum over the stages of one number of each, the same on all ranks. Collective over the depth.
  double total(double of_stage) const;
  /// The first knot k for which this stage adds the term of knots k and k + 1 (smoothness penalty).
  int first_pair() const;

  /// Calls visit(views, values) for the arrays that belong to each stage, in order: on rank 0 of all ranks
  /// with the values of that stage's share (views' offsets), on the others with null. Collective over all
  /// ranks.
  using Visit = std::function<void(const std::vector<ParameterView>& views, const double* values)>;
  void for_each_stage(const Parameters& mine, const Visit& visit) const;
  /// The whole vector on rank 0 of all ranks, empty elsewhere. Collective.
  std::vector<double> gathered(std::span<const double> mine) const;

 private:
  /// Arrays that the same stages hold, if these are more than one.
  struct Shared {
    Communicator holders;
    io::FlatPart part;
  };
  const ParameterLayout& layout_of(int stage) const { return layouts_[stage]; }
  /// The vector of a stage on rank 0 of all ranks (`mine`, or what it receives), null elsewhere.
  const double* of_stage(int stage, std::span<const double> mine) const;

  TrainingRanks ranks_;
  int stage_ = 0;
  std::vector<ParameterLayout> layouts_;  // the layout of each stage
  std::vector<int> owner_;                // the stage that each array of the model belongs to
  std::vector<Shared> shared_;
  io::FlatPart held_, written_;
  std::vector<io::FlatPart::Piece> owned_;
  mutable std::vector<double> buffer_, received_;  // room for the largest share, on rank 0 of all ranks
};

}  // namespace fluxformer
