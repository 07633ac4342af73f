#pragma once

// A sweep over points that do not depend on each other: seeds, sizes, temperatures. A checkpoint holds what is finished.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/settings.hpp"
#include "drivers/common/experiment.hpp"
#include "drivers/common/run_frame.hpp"
#include "io/checkpoint.hpp"

namespace fluxformer {

/// What is computed. A point is computed by one rank alone, so that its numbers do not depend on the ranks, unless it is too large for one.
class SweepPoints {
 public:
  virtual ~SweepPoints() = default;
  /// How many points there are.
  virtual std::size_t count() const = 0;
  /// How many numbers a point has.
  virtual std::size_t numbers(std::size_t point) const = 0;
  /// These. Not collective. With R ranks (or groups of them), points k, k + R, k + 2 R, ... come to the same rank unless a run is continued.
  virtual std::vector<double> measure(std::size_t point) = 0;
  /// How many ranks compute a point together, a divisor of the number of ranks: 0 .. n - 1 are the first such group, and so on.
  /// `measure` is collective over a group, and the numbers of its first rank count; it throws on all of the group or on none.
  virtual int ranks_of_point() const { return 1; }
  /// A file whose numbers the points depend on: its key and name for messages, and a digest of what was read, the same on all ranks.
  struct Source {
    std::string called = {};
    std::uint64_t digest = 0;
  };
  /// By default there is none. A checkpoint of another digest is refused.
  virtual Source source() const { return {}; }
};

/// Needs the settings output.file, checkpoint.every and checkpoint.restart. All arguments are borrowed.
class PointSweep {
 public:
  /// Nothing is done yet.
  PointSweep(const Settings& settings, const RunContext& context, RunFrame& frame, SweepPoints& points);

  /// Takes over the finished points of the checkpoint that checkpoint.restart asks for, if any, and says so once
  /// `announce` is called. Collective; throws BadInput (agreed).
  void restart();
  void announce_restart() const;
  /// Computes what is left, a point on each group of ranks at a time. False if the run was asked to stop; a checkpoint is then written, as it is
  /// when a point throws. Collective; throws (agreed) what a point throws.
  bool run();
  /// Writes a checkpoint. Collective.
  void checkpoint();

  /// The numbers of each finished point, the same on all ranks.
  const std::vector<std::vector<double>>& found() const { return found_; }
  /// Wall time that each of them took.
  const std::vector<double>& seconds() const { return seconds_; }
  /// "after 3 of 8 points"
  std::string place() const;

 private:
  /// The next point on each group of ranks.
  void advance();

  const Settings& settings_;
  const RunContext& context_;
  RunFrame& frame_;
  SweepPoints& points_;
  std::string continued_;  // path of the checkpoint, empty if there was none
  std::vector<std::vector<double>> found_;
  std::vector<double> seconds_;
  Cadence checkpoints_;
};

}  // namespace fluxformer
