#pragma once

// Progress of long work on standard error: a bar on a terminal, a plain line every few seconds in a log file.

#include <chrono>
#include <string>

namespace fluxformer {

/// Only the rank that was told to speaks (rank 0); the others are silent. Not collective.
class Progress {
 public:
  /// `total` in units of `unit` ("steps", "epochs", time units, ...).
  Progress(std::string what, double total, std::string unit, bool speak);
  /// `done` of `total`; `note` is shown behind (a residual, say). Cheap: prints at most a few times a second.
  void update(double done, const std::string& note = {});
  /// Ends the line.
  void finish(const std::string& note = {});
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

 private:
  void print(double done, const std::string& note, bool last);
  using Clock = std::chrono::steady_clock;
  std::string what_, unit_;
  double total_;
  bool speak_, terminal_, open_ = false;
  Clock::time_point start_, printed_;
};

}  // namespace fluxformer
