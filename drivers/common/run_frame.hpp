#pragma once

// The common part of all runs: clock, stop requests, progress, the claim on the output file, its attributes,
// timing of the parts, intervals of outputs and checkpoints, and the closing line.

#include <chrono>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/progress.hpp"
#include "base/settings.hpp"
#include "drivers/common/earlier_runs.hpp"
#include "drivers/common/experiment.hpp"
#include "io/hdf5/hdf5_objects.hpp"

namespace fluxformer {

/// Attributes of the root of a file.
using RunAttributes = std::vector<std::pair<std::string, io::AttributeValue>>;
/// The attributes that describe a run in every file it writes: experiment, command line, deck, settings, seed
/// (if there is a run.seed), ranks, versions, cites. The same on all ranks; not collective.
RunAttributes run_attributes(const Settings& settings, const RunContext& context);

/// A clock that starts when it is constructed.
class Stopwatch {
 public:
  /// Wall time since construction, s.
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// A trigger once per interval (of time or steps).
class Cadence {
 public:
  /// Starts with a first interval of length `every`; with 0 the cadence is never due.
  explicit Cadence(double every) : every_(every) {}
  /// True if an interval has ended at `now`, up to `slack`; advances past it and any missed ones.
  bool due(double now, double slack = 0) {
    if (every_ == 0 || now < static_cast<double>(count_ + 1) * every_ - slack) return false;
    count_ = static_cast<long>(std::floor((now + slack) / every_));
    return true;
  }
  long count() const { return count_; }
  void restore(long count) { count_ = count; }

 private:
  double every_;
  long count_ = 0;
};

/// The frame of one run; experiments differ in what they do between `begin` and the closing line.
class RunFrame {
 public:
  /// Starts the clock: construct the frame before setting up anything else. Both arguments are borrowed. The
  /// settings must have output.file, output.overwrite and run.time_limit. Throws BadInput for a bad
  /// output.file.
  RunFrame(const Settings& settings, const RunContext& context);

  /// Seconds since the clock started.
  double seconds() const { return clock_.seconds(); }
  bool root() const { return root_; }
  /// Begins the run; time before this counts as "set_up". Collective; throws (agreed) Error with exit code 4
  /// if a signal arrived before, and BadInput if another run is writing output.file: from here on files may
  /// be moved.
  void begin();
  /// Claims output.file and the files beside it (see claim_output). Whatever forbids to write is thus found
  /// before the work starts, and no other run can take the file until the writer is created from the claim.
  std::unique_ptr<io::PartFile> claim(const OutputClaim& claim = {}) const {
    return claim_output(context_.comm, settings_, claim);
  }
  /// Rank 0 prints what is about to run (unless quiet) and, always, warnings about slow configurations, on
  /// standard error.
  void announce(const Experiment& experiment) const;
  /// A progress line over `total` units of work, starting at `begun`; printed by rank 0 unless quiet.
  Progress progress(double total, const std::string& unit, double begun = 0) const;
  /// True if a signal or run.time_limit requests a stop; the same on all ranks. Collective.
  bool asked_to_stop();
  /// True if a cadence of wall time is due, by rank 0's clock. Collective.
  bool due(Cadence& cadence) const;

  /// Accumulates the time of a part of the run; parts are kept in order of first appearance.
  void add_seconds(const std::string& part, double seconds);
  /// Runs `work`, charges its time to the part (also if it throws) and returns its result.
  template <class Work>
  auto timed(const std::string& part, Work&& work);
  const std::vector<std::pair<std::string, double>>& parts() const { return parts_; }

  /// The closing line of a run, printed by rank 0. `how`: the result in a few words; `advice`: how to
  /// continue. A run that is done has written output.file.
  Report done(const std::string& how) const;
  Report stopped(const std::string& after, const std::string& advice) const;

 private:
  Stopwatch clock_;
  const Settings& settings_;
  const RunContext& context_;
  std::string stop_reason_;  // "signal 15", "run.time_limit"
  bool root_;
  std::vector<std::pair<std::string, double>> parts_;
};

template <class Work>
auto RunFrame::timed(const std::string& part, Work&& work) {
  struct Charge {  // a destructor, so that time is charged also when `work` throws
    RunFrame& frame;
    const std::string& part;
    Stopwatch watch = {};
    ~Charge() { frame.add_seconds(part, watch.seconds()); }
  };
  const Charge charge{*this, part};
  return work();
}

}  // namespace fluxformer
