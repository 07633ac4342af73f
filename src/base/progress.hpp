#pragma once

// Progress of long work on standard error: a bar on a terminal, a plain line every few seconds in a log file.

#include <chrono>
#include <string>

namespace fluxformer {

/// Only the rank that was told to speaks (rank 0); the others are silent. Not collective.
class Progress {
 public:
  /// `total` in units of `unit` ("steps", "epochs", time units, ...), 0 if nobody knows; `begun` is what an
  /// earlier run has done of it.
  Progress(std::string what, double total, std::string unit, bool speak, double begun = 0);
  /// `done` of `total`; `note` is shown behind (a residual, say). Cheap: prints at most a few times a second.
  void update(double done, const std::string& note = {});
  /// Prints what the last `update` told and the time it took, and ends the line.
  void finish(const std::string& note = {});
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

 private:
  void print(const std::string& note, bool last);
  using Clock = std::chrono::steady_clock;
  std::string what_, unit_;
  double total_, begun_, done_;
  bool speak_, terminal_, open_ = false;
  Clock::time_point start_, printed_;
};

}  // namespace fluxformer
