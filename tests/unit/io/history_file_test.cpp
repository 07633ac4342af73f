// A training history can be read while it is written, and survives failures of its writer.

#include "io/history_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <thread>

#include "base/error.hpp"
#include "io/archive_reader.hpp"
#include "io/layout.hpp"
#include "tests/unit/io/temporary_folder.hpp"

namespace fluxformer::io {
namespace {

using test::complaint;
using testing::HasSubstr;

class HistoryFileTest : public test::InAFolder {
 protected:
  HistoryFile history() const {
    return {file("a.history.h5"),
            {{{names::experiment, "train"}, {names::seed, 7L}}, "/training", {{"samples", 100L}}},
            {io::index("step", "step of a training"),
             {{"loss", {"step"}, "", "mean loss"}, {"learning_rate", {"step"}, "", "learning rate"}}},
            {io::index("epoch", "epoch"), {{"test_accuracy", {"epoch"}, "", "accuracy"}}}};
  }
  // loss = 10 + step, learning rate = 20 + step.
  static void add_steps(HistoryFile& history, int first, int last) {
    for (int step = first; step < last; ++step) history.add_step(step, std::vector{10.0 + step, 20.0 + step});
  }
  std::vector<double> read(const char* name) const {
    return ArchiveReader(MPI_COMM_SELF, file("a.history.h5")).array(name).values;
  }
  // The reader of tests/support; its output.
  std::FILE* stranger(int rows) const {
    // Debian's Python has Debian's modules; another one may come first on PATH.
    const std::string python = std::filesystem::exists("/usr/bin/python3") ? "/usr/bin/python3" : "python3";
    const std::string script = FLUXFORMER_SOURCE_DIR "/tests/support/watch_history.py";
    return ::popen(
        (python + " '" + script + "' '" + file("a.history.h5") + "' " + std::to_string(rows)).c_str(), "r");
  }
};

TEST_F(HistoryFileTest, holds_all_rows_once_closed) {
  {
    HistoryFile history = this->history();
    add_steps(history, 0, 3);
    history.flush();
    history.flush();
    add_steps(history, 3, 5003);  // more than is buffered, and several chunks
    history.add_epoch(1, std::vector{0.5});
    history.close(names::done);
  }
  const auto steps = read("/step"), losses = read("/training/loss"), rates = read("/training/learning_rate");
  ASSERT_EQ(steps.size(), 5003U);
  ASSERT_EQ(losses.size(), 5003U);
  ASSERT_EQ(rates.size(), 5003U);
  for (std::size_t k = 0; k < steps.size(); ++k) {
    const auto step = static_cast<double>(k);
    ASSERT_EQ(std::make_tuple(steps[k], losses[k], rates[k]), std::make_tuple(step, 10 + step, 20 + step));
  }
  EXPECT_EQ(read("/epoch"), std::vector{1.0});
  EXPECT_EQ(read("/training/test_accuracy"), std::vector{0.5});
  const ArchiveReader reader(MPI_COMM_SELF, file("a.history.h5"));
  EXPECT_EQ(reader.text(names::status), names::done);
  EXPECT_EQ(reader.text(names::experiment), "train");
  EXPECT_EQ(reader.integer("samples", "/training"), 100);
  EXPECT_EQ(reader.text(names::long_name, "/training/loss"), "mean loss");
}

TEST_F(HistoryFileTest, can_be_watched_while_it_is_written) {
  HistoryFile history = this->history();
  add_steps(history, 0, 10);
  history.flush();
  std::FILE* reader = stranger(3000);
  ASSERT_NE(reader, nullptr);
  char line[64] = "";
  // The reader prints what it saw first; the rest is written while it watches.
  const bool ready = std::fgets(line, sizeof line, reader) != nullptr;
  EXPECT_TRUE(!ready || std::string(line) == "10\n") << line;
  for (int step = 10; ready && step < 3000; step += 10) {
    add_steps(history, step, step + 10);
    history.flush();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const int status = ::pclose(reader);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) GTEST_SKIP() << "h5py is missing";
  EXPECT_EQ(status, 0);
}

TEST_F(HistoryFileTest, replaces_an_earlier_one_and_leaves_its_readers_alone) {
  std::ofstream(folder_ / "a.history.h5") << "an earlier history";
  std::ifstream earlier(folder_ / "a.history.h5");
  {
    HistoryFile history = this->history();
    history.close(names::failed);
  }
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(earlier), {}), "an earlier history");
  EXPECT_TRUE(read("/step").empty());
}

TEST_F(HistoryFileTest, refuses_rows_of_another_length) {
  HistoryFile history = this->history();
  EXPECT_THROW(history.add_step(0, std::vector{1.0}), std::logic_error);
}

TEST_F(HistoryFileTest, names_the_file_that_cannot_be_made) {
  const auto make = [&] { HistoryFile(file("missing/a.h5"), {{}, "/training", {}}, {}, {}); };
  EXPECT_THAT(complaint<Error>(make), AllOf(HasSubstr("missing/a.h5"), HasSubstr("No such file")));
}

// A file size limit simulates a failing disk: space was reserved, but the write fails.
TEST_F(HistoryFileTest, of_a_failing_disk_is_one_error_and_stays_readable) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto ignored = std::signal(SIGXFSZ, SIG_IGN);
  std::string message;
  {
    HistoryFile history = this->history();
    add_steps(history, 0, 100);
    history.flush();
    const rlimit limit{std::filesystem::file_size(file("a.history.h5")) + 20000, before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
    message = complaint<Error>([&] {
      for (int step = 100; step < 100000; step += 100) {
        add_steps(history, step, step + 100);
        history.flush();
      }
    });
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  }  // closing must not crash the program
  std::signal(SIGXFSZ, ignored);
  EXPECT_THAT(message, HasSubstr("a.history.h5: writing /"));
  std::FILE* reader = stranger(100);
  ASSERT_NE(reader, nullptr);
  while (std::fgetc(reader) != EOF) continue;
  const int status = ::pclose(reader);
  EXPECT_TRUE(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 77)) << status;
}

TEST_F(HistoryFileTest, beyond_the_limit_on_file_sizes_is_told_like_a_full_disk) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit limit{rlim_t{4} << 20, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  const std::string message = complaint<Error>([&] {
    HistoryFile history = this->history();
    for (int step = 0; step < 1000000; step += 1000) {
      add_steps(history, step, step + 1000);
      history.flush();
    }
  });
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_THAT(message, AllOf(HasSubstr("a.history.h5: cannot grow"), HasSubstr("ulimit -f")));
  EXPECT_GT(std::filesystem::file_size(file("a.history.h5")), 100000);
}

}  // namespace
}  // namespace fluxformer::io
