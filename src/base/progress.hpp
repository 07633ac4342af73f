#pragma once

// Progress on standard error: a bar on a terminal, a plain line every five seconds in a log file, or as often as the
// environment variable FLUXFORMER_PROGRESS says (in seconds).

#include <chrono>
#include <string>

namespace fluxformer {

/// Progress of a run, printed where `speak` is true (rank 0, unless --quiet). Not collective.
class Progress {
 public:
  /// Clock of the rates and of the time left.
  using Clock = std::chrono::steady_clock;
  /// Starts the clock of a run named `what` that goes from `begun` (not 0 after a restart) to `total` (0 if
  /// it is not known), both in units of `unit` ("steps", "epochs", "time units"). Tests set `now`.
  Progress(std::string what, double total, std::string unit, bool speak, double begun = 0,
           Clock::time_point (*now)() = Clock::now);
  /// Notes that `done` of `total` is reached; `note` is appended (a loss, say). Cheap: prints at most five
  /// times a second.
  void update(double done, const std::string& note = {});
  /// Prints the state of the last `update` and the time taken, and ends the line.
  void finish(const std::string& note = {});
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

 private:
  void print(const std::string& note, bool last);
  std::string what_, unit_;
  double total_, begun_, done_;
  bool speak_, terminal_, open_ = false;
  Clock::duration between_;
  Clock::time_point (*now_)();
  Clock::time_point start_, printed_;
};

}  // namespace fluxformer
