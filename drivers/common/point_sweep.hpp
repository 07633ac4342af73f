#pragma once

// A sweep over points that do not depend on each other: seeds, sizes, temperatures. A checkpoint holds the
// finished points.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/settings.hpp"
#include "drivers/common/experiment.hpp"
#include "drivers/common/run_frame.hpp"
#include "io/checkpoint.hpp"

namespace fluxformer {

/// The points of a sweep. A point is computed by one rank alone, so that its numbers do not depend on the
/// number of ranks, unless it is too large for one.
class SweepPoints {
 public:
  virtual ~SweepPoints() = default;
  /// Number of points.
  virtual std::size_t count() const = 0;
  /// Number of results of a point.
  virtual std::size_t numbers(std::size_t point) const = 0;
  /// Computes the results of a point. Not collective. With R ranks (or groups of them), points k, k + R, k +
  /// 2 R, ... come to the same rank unless a run is continued.
  virtual std::vector<double> measure(std::size_t point) = 0;
  /// Number of ranks that compute a point together, a divisor of the number of ranks: ranks 0 .. n - 1 are
  /// the first such group, and so on. `measure` is collective over a group, and the results of its first rank
  /// count; it throws on all of the group or on none.
  virtual int ranks_of_point() const { return 1; }
  /// A file that the results depend on: key and name for messages, and a digest of what was read, the same on
  /// all ranks.
  struct Source {
    std::string called = {};
    std::uint64_t digest = 0;
  };
  /// The file that the points depend on; by default none. A checkpoint with another digest is refused.
  virtual Source source() const { return {}; }
};

/// A run over points with checkpoints. Needs the settings output.file, checkpoint.every and
/// checkpoint.restart. All arguments are borrowed.
class PointSweep {
 public:
  /// Prepares the sweep; no point is computed yet.
  PointSweep(const Settings& settings, const RunContext& context, RunFrame& frame, SweepPoints& points);

  /// Takes over the finished points of the checkpoint that checkpoint.restart asks for, if any;
  /// `announce_restart` then says so. Collective; throws BadInput (agreed).
  void restart();
  void announce_restart() const;
  /// Computes the remaining points, one on each group of ranks at a time. Returns false if the run was asked
  /// to stop; a checkpoint is then written, as it is when a point throws. Collective; throws (agreed) what a
  /// point throws.
  bool run();
  /// Writes a checkpoint. Collective.
  void checkpoint();

  /// Results of each finished point, the same on all ranks.
  const std::vector<std::vector<double>>& found() const { return found_; }
  /// Wall time of each finished point, s.
  const std::vector<double>& seconds() const { return seconds_; }
  /// Progress in words: "after 3 of 8 points".
  std::string place() const;

 private:
  /// Computes the next point on each group of ranks.
  void advance();

  const Settings& settings_;
  const RunContext& context_;
  RunFrame& frame_;
  SweepPoints& points_;
  std::string continued_;  // path of the checkpoint; empty if there was none
  std::vector<std::vector<double>> found_;
  std::vector<double> seconds_;
  Cadence checkpoints_;
};

}  // namespace fluxformer
