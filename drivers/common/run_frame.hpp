#pragma once

// The frame of every run, once: its clock, requests to stop, progress, the claim on the output file, what its
// parts took, the cadence of outputs and checkpoints, and the closing line.

#include <chrono>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/progress.hpp"
#include "base/settings.hpp"
#include "drivers/common/experiment.hpp"
#include "io/part_file.hpp"

namespace fluxformer {

/// Seconds since it was made.
class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

class RunFrame {
 public:
  /// The clock starts: make it before what has to be set up. Both are borrowed. The settings have
  /// output.file, output.overwrite and run.time_limit.
  RunFrame(const Settings& settings, const RunContext& context);

  /// Since the clock started.
  double seconds() const { return clock_.seconds(); }
  bool root() const { return root_; }
  /// The run begins: from now on signals ask for a polite stop. What went before counts as "set_up".
  void begin();
  /// Claims output.file: what cannot be written is found before the work, and no other run can take it until
  /// the writer is made from the claim. Collective; throws BadInput (agreed).
  std::unique_ptr<io::PartFile> claim(bool overwrite) const;
  std::unique_ptr<io::PartFile> claim() const { return claim(settings_.flag("output.overwrite")); }
  /// Rank 0 says on standard error what is about to run (unless it is to be quiet), and what slows this
  /// machine down in any case.
  void announce(const Experiment& experiment) const;
  /// Of `total` units of work, from `begun` on; prints on rank 0, unless it is to be quiet.
  Progress progress(double total, const std::string& unit, double begun = 0) const;
  /// Whether a signal or run.time_limit asks for an end; the same answer on all ranks. Collective.
  bool asked_to_stop();

  /// What a part of the run took, added up over its calls; parts keep the order in which they first came.
  void add_seconds(const std::string& part, double seconds);
  template <class Work>
  auto timed(const std::string& part, Work&& work);
  const std::vector<std::pair<std::string, double>>& parts() const { return parts_; }

  // How a run ends: one line, printed by rank 0. `how` says it in a few words.
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
  struct Charge {  // also when `work` throws
    RunFrame& frame;
    const std::string& part;
    Stopwatch watch = {};
    ~Charge() { frame.add_seconds(part, watch.seconds()); }
  };
  const Charge charge{*this, part};
  return work();
}

/// Something to be done whenever another interval (of time, or of steps) is over.
class Cadence {
 public:
  /// 0: never.
  explicit Cadence(double every) : every_(every) {}
  /// Whether an interval has ended at `now`, up to `slack`; counts it, and those that were missed.
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

}  // namespace fluxformer
