#include "base/progress.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "base/index.hpp"

namespace fluxformer {

namespace {

using namespace std::chrono_literals;
constexpr int bar_width = 30;

/// Between lines in a log file: 5 s, or the seconds in FLUXFORMER_PROGRESS.
Progress::Clock::duration between_lines() {
  const char* const given = std::getenv("FLUXFORMER_PROGRESS");
  const double seconds = given != nullptr ? std::atof(given) : 0;  // 0 also for what is no number
  constexpr double longest = 1e6;
  if (!(seconds > 0 && seconds < longest)) return 5s;
  return std::chrono::duration_cast<Progress::Clock::duration>(std::chrono::duration<double>(seconds));
}

std::string formatted(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

// 0:07, 12:34, 3:25:07.
std::string clock_text(double seconds) {
  constexpr double longest = 359'999;  // 99:59:59
  const long whole = std::lround(std::clamp(seconds, 0.0, longest));
  char text[64];
  if (whole >= 3600)
    std::snprintf(text, sizeof text, "%ld:%02ld:%02ld", whole / 3600, whole / 60 % 60, whole % 60);
  else
    std::snprintf(text, sizeof text, "%ld:%02ld", whole / 60, whole % 60);
  return text;
}

std::size_t terminal_width() {
  winsize size = {};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : 80;
}

std::string bar(double fraction) {
  const Index filled = std::lround(std::clamp(fraction, 0.0, 1.0) * bar_width);
  return "[" + std::string(filled, '#') + std::string(bar_width - filled, '.') + "] ";
}

}  // namespace

Progress::Progress(std::string what, double total, std::string unit, bool speak, double begun,
                   Clock::time_point (*now)())
    : what_(std::move(what)),
      unit_(std::move(unit)),
      total_(total),
      begun_(begun),
      done_(begun),
      speak_(speak),
      terminal_(isatty(STDERR_FILENO) == 1),
      between_(terminal_ ? Clock::duration(200ms) : between_lines()),
      now_(now),
      start_(now()),
      printed_(start_) {}

void Progress::update(double done, const std::string& note) {
  if (!speak_) return;
  done_ = done;
  const auto now = now_();
  if (now - printed_ < between_) return;
  printed_ = now;
  print(note, false);
}

void Progress::finish(const std::string& note) {
  if (!speak_) return;
  print(note, true);
  speak_ = false;
}

Progress::~Progress() {
  // After an exception: ends the open line.
  if (open_) std::fputc('\n', stderr);
}

void Progress::print(const std::string& note, bool last) {
  const double seconds = std::chrono::duration<double>(now_() - start_).count();
  const double rate = seconds > 0 ? (done_ - begun_) / seconds : 0;
  std::string line = what_ + " ";
  if (terminal_ && total_ > 0) line += bar(done_ / total_);
  line += formatted("%.6g", done_);
  if (total_ > 0) line += formatted(" of %.6g", total_);
  line += " " + unit_ + formatted(", %.3g a second", rate);
  if (last)
    line += ", took " + clock_text(seconds);
  else if (total_ > 0 && rate > 0)
    line += ", " + clock_text((total_ - done_) / rate) + " left";
  if (!note.empty()) line += ", " + note;

  // On a terminal each line overwrites the one before, so it must not wrap.
  if (terminal_) line.resize(std::min(line.size(), terminal_width() - 1));
  const bool stays = last || !terminal_;
  const std::string out = (terminal_ ? "\r" + line + "\x1b[K" : line) + (stays ? "\n" : "");
  std::fputs(out.c_str(), stderr);
  std::fflush(stderr);
  open_ = !stays;
}

}  // namespace fluxformer
