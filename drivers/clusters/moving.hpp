#pragma once

// Tokens, or a density of them, on their way: a flow that is followed in short runs of steps, so that a request to stop is heard and a
// checkpoint written between them, and that goes on exactly.

#include <mpi.h>

#include <memory>
#include <vector>

#include "base/index.hpp"
#include "io/checkpoint.hpp"
#include "io/parts.hpp"
#include "solvers/flow/flow.hpp"

namespace fluxformer {

/// Numbers that a velocity moves.
class Moving {
 public:
  /// This rank's numbers, and what else a flow needs to go on exactly.
  struct State {
    std::vector<double> numbers = {};
    Flow::Clock clock = {};
    long evaluations = 0;  ///< of the velocity since the start
    double seconds = 0;    ///< of wall time in them
  };
  virtual ~Moving() = default;
  Moving(const Moving&) = delete;
  Moving& operator=(const Moving&) = delete;

  /// Goes on for some steps towards a later time. True once it is there, exactly. How far that is does not depend on where it began: the
  /// numbers at a time are the same in every digit if one that began with the state between two calls goes on in its place. Collective;
  /// throws NumericalFailure (agreed).
  virtual bool advance(double time);
  /// True where it cannot go on. The same on all ranks.
  virtual bool over() const { return false; }

  double time() const { return flow_->clock().time; }
  std::vector<double> numbers() const { return flow_->state(); }
  /// Evaluations of the velocity since the start, and this rank's wall time of one of them.
  long evaluations() const { return earlier_ + flow_->evaluations(); }
  double evaluation_seconds() const { return seconds_ / static_cast<double>(evaluations()); }

  /// Keeps the state. Collective.
  virtual void save(io::CheckpointWriter& file) const;
  /// The state that `save` kept; `part`: this rank's part of all numbers. Collective; throws BadInput.
  static State load(const io::CheckpointReader& file, const io::FlatPart& part);

 protected:
  /// `tolerance`: error of a step (Flow).
  Moving(MPI_Comm comm, double tolerance) : comm_(comm), tolerance_(tolerance) {}
  /// Begins, or begins anew, from a state, of which this rank has `part`. Collective.
  void begin(const State& at, io::FlatPart part, Flow::Rate rate);
  /// Towards a later time by a run of steps, or less if `go_on` ends it. True once it is there. Collective.
  bool run(double time, const Flow::GoOn& go_on = {});
  Flow& flow() { return *flow_; }
  State state() const { return {flow_->state(), flow_->clock(), evaluations(), seconds_}; }
  const io::FlatPart& part() const { return part_; }
  MPI_Comm comm() const { return comm_; }

 private:
  MPI_Comm comm_;
  double tolerance_;
  io::FlatPart part_;
  std::unique_ptr<Flow> flow_;
  long earlier_ = 0;  // evaluations of earlier flows
  double seconds_ = 0;
};

/// The part of a list of `size` numbers that consists of `count` from `first` on. Not collective.
io::FlatPart part_of(Index size, Index first, Index count);

}  // namespace fluxformer
