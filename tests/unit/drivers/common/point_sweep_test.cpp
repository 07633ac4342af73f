// A sweep keeps the points that are finished, and goes on from them as if it had never been stopped.

#include "drivers/common/point_sweep.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <memory>

#include "base/error.hpp"
#include "drivers/common/run_options.hpp"
#include "io/file_names.hpp"
#include "tests/unit/io/temporary_folder.hpp"

namespace fluxformer::test {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::Ge;
using testing::HasSubstr;
using testing::SizeIs;

/// 1, 2, 3, 1, 2, ... numbers for each point, which need all of their bits. Keeps what it was asked for.
class SomePoints final : public SweepPoints {
 public:
  explicit SomePoints(std::vector<std::size_t>& asked, std::size_t points = 5)
      : asked_(asked), count_(points) {}
  std::size_t count() const override { return count_; }
  std::size_t numbers(std::size_t point) const override { return point % 3 + 1; }
  std::vector<double> measure(std::size_t point) override {
    asked_.push_back(point);
    if (point == fails_at) throw NumericalFailure("no convergence");
    std::vector<double> list;
    for (std::size_t k = 0; k < numbers(point); ++k) list.push_back(std::sin(1.0 + 10.0 * point + k));
    if (point == 1)
      list = {std::numeric_limits<double>::quiet_NaN(), -std::numeric_limits<double>::infinity()};
    return list;
  }
  Source source() const override { return {.called = "paths.attention = net.h5", .digest = digest}; }

  std::size_t fails_at = 99;
  std::uint64_t digest = 7;

 private:
  std::vector<std::size_t>& asked_;
  std::size_t count_;
};

/// The bits of all numbers: NaN is equal to itself.
std::vector<std::vector<std::uint64_t>> bits(const std::vector<std::vector<double>>& found) {
  std::vector<std::vector<std::uint64_t>> all;
  for (const auto& numbers : found) {
    all.emplace_back();
    for (const double number : numbers) all.back().push_back(std::bit_cast<std::uint64_t>(number));
  }
  return all;
}

/// One start of the program.
struct SweepRun {
  SweepRun(Settings given, SweepPoints& points)
      : settings(std::move(given)), frame(settings, context), sweep(settings, context, frame, points) {}
  SweepRun(const SweepRun&) = delete;
  SweepRun& operator=(const SweepRun&) = delete;
  /// True if the sweep is complete.
  bool go() {
    sweep.restart();
    return sweep.run();
  }
  static RunContext quiet_context() {
    RunContext of_rank;
    of_rank.comm = MPI_COMM_SELF;
    of_rank.experiment = "paths";
    of_rank.quiet = true;
    return of_rank;
  }

  const Settings settings;
  const RunContext context = quiet_context();
  RunFrame frame;
  PointSweep sweep;
};

class Sweeps : public InAFolder {
 protected:
  Settings settings(std::vector<std::string> given = {}) const {
    const auto declare = [](Options& options) {
      options.declare({.name = "paths.width", .fallback = 3L, .doc = "part of the problem"});
      options.declare({.name = "checkpoint.every",
                       .fallback = 0.0,
                       .doc = "time between checkpoints",
                       .role = Role::output});
      options.declare(restart_option());
      options.declare(output_option("sweep.h5"));
      options.declare(overwrite_option());
      options.declare(time_limit_option());
    };
    given.insert(given.begin(), "output.file=" + file("sweep.h5"));
    return {std::make_shared<const Options>(declare), "", given};
  }
  /// Settings of a run whose time is up after the first point.
  Settings hurried(std::vector<std::string> given = {"checkpoint.restart=auto"}) const {
    given.emplace_back("run.time_limit=1e-9");
    return settings(std::move(given));
  }
  Settings continued(std::vector<std::string> given = {}) const {
    given.emplace_back("checkpoint.restart=auto");
    return settings(std::move(given));
  }
  std::vector<std::vector<std::uint64_t>> uninterrupted() const {
    std::vector<std::size_t> asked_here;
    SomePoints points(asked_here);
    SweepRun run(settings(), points);
    EXPECT_TRUE(run.go());
    return bits(run.sweep.found());
  }

  std::vector<std::size_t> asked;
};

TEST_F(Sweeps, compute_each_point_once_in_order_and_need_no_checkpoint) {
  SomePoints points(asked);
  SweepRun run(settings(), points);
  EXPECT_TRUE(run.go());
  EXPECT_THAT(asked, ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(run.sweep.found(), ElementsAre(SizeIs(1), SizeIs(2), SizeIs(3), SizeIs(1), SizeIs(2)));
  EXPECT_EQ(run.sweep.found()[3], std::vector<double>{std::sin(31.0)});
  EXPECT_THAT(run.sweep.seconds(), AllOf(SizeIs(5), Each(Ge(0))));
  EXPECT_FALSE(exists("sweep.checkpoint.h5"));
}

TEST_F(Sweeps, stopped_after_every_point_find_the_same_bits_in_the_same_order) {
  SomePoints points(asked);
  for (const char* place :
       {"after 1 of 5 points", "after 2 of 5 points", "after 3 of 5 points", "after 4 of 5 points"}) {
    SweepRun run(hurried(), points);
    EXPECT_FALSE(run.go());
    EXPECT_EQ(run.sweep.place(), place);
    EXPECT_TRUE(exists("sweep.checkpoint.h5"));
  }
  SweepRun last(hurried(), points);
  EXPECT_TRUE(last.go());  // nothing is left to be stopped
  EXPECT_THAT(asked, ElementsAre(0, 1, 2, 3, 4));
  EXPECT_EQ(bits(last.sweep.found()), uninterrupted());
  EXPECT_THAT(last.sweep.seconds(), SizeIs(5));
}

TEST_F(Sweeps, keep_the_time_that_points_took_before_a_stop) {
  SomePoints points(asked);
  SweepRun first(hurried(), points);
  EXPECT_FALSE(first.go());
  SweepRun second(continued(), points);
  second.sweep.restart();
  EXPECT_EQ(second.sweep.seconds(), first.sweep.seconds());
}

TEST_F(Sweeps, keep_what_was_found_before_a_point_fails) {
  SomePoints points(asked);
  points.fails_at = 3;
  SweepRun failing(settings(), points);
  EXPECT_THAT(complaint<NumericalFailure>([&] { failing.go(); }), HasSubstr("no convergence"));
  points.fails_at = 99;
  asked.clear();
  SweepRun mended(continued(), points);
  EXPECT_TRUE(mended.go());
  EXPECT_THAT(asked, ElementsAre(3, 4));
  EXPECT_EQ(bits(mended.sweep.found()), uninterrupted());
}

TEST_F(Sweeps, whose_first_point_fails_leave_nothing_behind) {
  SomePoints points(asked);
  points.fails_at = 0;
  SweepRun failing(settings(), points);
  EXPECT_THROW(failing.go(), NumericalFailure);
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(Sweeps, write_a_checkpoint_whenever_one_is_due) {
  SomePoints points(asked);
  SweepRun run(settings({"checkpoint.every=1e-9"}), points);  // after each point
  EXPECT_TRUE(run.go());
  constexpr io::WholeItem done{"points"};
  const auto done_in = [&](const std::string& path) {
    return io::CheckpointReader(MPI_COMM_SELF, path).integer(done);
  };
  EXPECT_EQ(done_in(io::checkpoint_path(file("sweep.h5"))), 5);
  EXPECT_EQ(done_in(io::previous_checkpoint_path(file("sweep.h5"))), 4);
  EXPECT_THAT(run.frame.parts(), ElementsAre(testing::Pair("output", Ge(0))));
  // A complete sweep has nothing left to compute.
  asked.clear();
  SweepRun again(continued(), points);
  EXPECT_TRUE(again.go());
  EXPECT_THAT(asked, testing::IsEmpty());
  EXPECT_EQ(bits(again.sweep.found()), bits(run.sweep.found()));
}

TEST_F(Sweeps, begin_anew_unless_they_are_to_continue) {
  SomePoints points(asked);
  EXPECT_FALSE(SweepRun(hurried(), points).go());
  asked.clear();
  EXPECT_TRUE(SweepRun(settings(), points).go());
  EXPECT_THAT(asked, ElementsAre(0, 1, 2, 3, 4));
}

TEST_F(Sweeps, go_on_from_the_checkpoint_that_is_named) {
  SomePoints points(asked);
  EXPECT_FALSE(SweepRun(hurried(), points).go());
  std::filesystem::rename(folder_ / "sweep.checkpoint.h5", folder_ / "kept.h5");
  asked.clear();
  EXPECT_TRUE(SweepRun(settings({"checkpoint.restart=" + file("kept.h5")}), points).go());
  EXPECT_THAT(asked, ElementsAre(1, 2, 3, 4));
}

TEST_F(Sweeps, refuse_the_points_of_another_problem) {
  SomePoints points(asked);
  for (int start = 0; start < 3; ++start) EXPECT_FALSE(SweepRun(hurried(), points).go());
  const auto refusal = [&](const Settings& given, SweepPoints& of) {
    SweepRun run(given, of);
    return complaint<BadInput>([&] { run.sweep.restart(); });
  };
  EXPECT_THAT(refusal(continued({"paths.width=4"}), points),
              AllOf(HasSubstr("paths.width = 4"), HasSubstr("made with 3")));
  SomePoints fewer(asked, 2), as_many(asked, 3);
  EXPECT_THAT(refusal(continued(), fewer), HasSubstr("its 3 points are more than the 2"));
  EXPECT_EQ(refusal(continued(), as_many), "");
  points.digest = 8;
  EXPECT_THAT(refusal(continued(), points),
              AllOf(HasSubstr("paths.attention = net.h5"), HasSubstr("no longer")));
}

}  // namespace
}  // namespace fluxformer::test
