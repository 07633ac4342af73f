#include "base/progress.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <stdexcept>

namespace fluxformer {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::StartsWith;

// Makes standard error a terminal of the given width for the lifetime of this object.
class Terminal {
 public:
  explicit Terminal(unsigned short columns) {
    winsize size = {};
    size.ws_row = 24;
    size.ws_col = columns;
    int terminal = -1;
    if (openpty(&screen_, &terminal, nullptr, nullptr, &size) != 0) throw std::runtime_error("no pty");
    termios raw = {};  // no translation of line ends
    tcgetattr(terminal, &raw);
    cfmakeraw(&raw);
    tcsetattr(terminal, TCSANOW, &raw);
    std::fflush(stderr);
    saved_ = dup(STDERR_FILENO);
    dup2(terminal, STDERR_FILENO);
    close(terminal);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;
  ~Terminal() {
    restore();
    close(screen_);
  }

  // What was printed; restores standard error.
  std::string shown() {
    restore();
    std::string text;
    char part[256];
    // With the other end closed, reading fails once everything has been read.
    for (ssize_t length = 0; (length = read(screen_, part, sizeof part)) > 0;)
      text.append(part, static_cast<std::size_t>(length));
    return text;
  }

 private:
  void restore() {
    if (saved_ < 0) return;
    std::fflush(stderr);
    dup2(saved_, STDERR_FILENO);
    close(saved_);
    saved_ = -1;
  }
  int screen_ = -1;
  int saved_ = -1;
};

// The time that a Progress is told.
Progress::Clock::time_point time_now;
Progress::Clock::time_point told_time() {
  return time_now;
}

TEST(Progress, in_a_log_file_ends_with_one_plain_line) {
  testing::internal::CaptureStderr();
  {
    Progress progress("evolve", 100, "steps", true, 0, told_time);
    for (int step = 1; step <= 100; ++step) progress.update(step);
    time_now += 4s;
    progress.finish("front at layer 12");
    progress.finish("said once");
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "evolve 100 of 100 steps, 25 a second, took 0:04, front at layer 12\n");
}

TEST(Progress, in_a_log_file_has_a_line_as_often_as_the_environment_says) {
  // seconds after which there is a line, and just before which there is none
  for (const auto& [given, after] :
       {std::pair{"0.5", 500ms}, {"20", 20000ms}, {"often", 5000ms}, {"-1", 5000ms}}) {
    setenv("FLUXFORMER_PROGRESS", given, 1);
    testing::internal::CaptureStderr();
    Progress progress("evolve", 100, "steps", true, 0, told_time);
    unsetenv("FLUXFORMER_PROGRESS");
    time_now += after - 1ms;
    progress.update(1);
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "") << given;
    testing::internal::CaptureStderr();
    time_now += 1ms;
    progress.update(2);
    EXPECT_THAT(testing::internal::GetCapturedStderr(), StartsWith("evolve 2 of 100 steps, ")) << given;
  }
}

TEST(Progress, reports_what_was_done_not_what_was_hoped_for) {
  testing::internal::CaptureStderr();
  Progress progress("evolve", 100, "steps", true);
  progress.update(40);
  progress.finish("steady");
  EXPECT_THAT(testing::internal::GetCapturedStderr(), StartsWith("evolve 40 of 100 steps, "));
}

TEST(Progress, is_silent_on_the_ranks_that_do_not_speak) {
  testing::internal::CaptureStderr();
  {
    Progress progress("evolve", 1, "steps", false);
    progress.update(1);
    progress.finish();
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(Progress, on_a_terminal_draws_over_one_line_with_bar_rate_and_time_left) {
  std::string text;
  {
    Terminal terminal(120);
    Progress progress("evolve", 100, "steps", true, 0, told_time);
    time_now += 4s;
    progress.update(50, "norm 2");
    progress.update(51);
    progress.finish();
    text = terminal.shown();
  }
  const auto second = text.find('\r', 1);
  ASSERT_NE(second, std::string::npos) << text;
  const std::string first_line = text.substr(0, second);
  EXPECT_EQ(
      first_line,
      "\revolve [###############...............] 50 of 100 steps, 12.5 a second, 0:04 left, norm 2\x1b[K");
  EXPECT_THAT(text.substr(second), HasSubstr("51 of 100 steps"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
  EXPECT_EQ(text.back(), '\n');
}

TEST(Progress, is_cheap_however_often_it_is_updated) {
  std::string text;
  {
    Terminal terminal(120);
    Progress progress("evolve", 10'000, "steps", true, 0, told_time);
    for (int step = 1; step <= 10'000; ++step) {
      time_now += 100us;
      progress.update(step);
    }
    progress.finish();
    text = terminal.shown();
  }
  EXPECT_EQ(std::count(text.begin(), text.end(), '\r'), 5 + 1);  // in a second, and at the end
}

TEST(Progress, of_a_restarted_run_does_not_count_what_the_first_run_did) {
  std::string text;
  {
    Terminal terminal(120);
    Progress progress("evolve", 2000, "steps", true, 1000, told_time);
    time_now += 250ms;
    progress.update(1001);
    progress.finish();
    text = terminal.shown();
  }
  // One step in a quarter of a second; 999 to go.
  EXPECT_THAT(text, HasSubstr("1001 of 2000 steps, 4 a second, 4:10 left"));
}

TEST(Progress, never_wraps_on_a_narrow_terminal) {
  std::string text;
  {
    Terminal terminal(20);
    Progress progress("evolve", 100, "steps", true, 0, told_time);
    time_now += 250ms;
    progress.update(50);
    text = terminal.shown();
  }
  EXPECT_EQ(text, "\revolve [###########\x1b[K");
}

TEST(Progress, leaves_the_line_to_an_error_message) {
  std::string text;
  {
    Terminal terminal(120);
    try {
      Progress progress("evolve", 0, "steps", true, 0, told_time);
      time_now += 250ms;
      progress.update(3);
      throw std::runtime_error("stop");
    } catch (const std::runtime_error&) {
    }
    text = terminal.shown();
  }
  EXPECT_THAT(text, StartsWith("\revolve 3 steps, "));  // unknown total: no bar, no time left
  EXPECT_EQ(text.find("left"), std::string::npos);
  EXPECT_EQ(text.back(), '\n');
}

}  // namespace
}  // namespace fluxformer
