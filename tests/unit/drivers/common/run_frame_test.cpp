// What all runs have in common: intervals, names of files, stop requests, time of the parts.

#include "drivers/common/run_frame.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <climits>
#include <memory>

#include "base/error.hpp"
#include "drivers/common/run_options.hpp"
#include "tests/unit/io/temporary_folder.hpp"

namespace fluxformer::test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

// All numbers here are exact in binary.

TEST(Cadence, of_zero_is_never_due) {
  Cadence never(0);
  for (const double now : {0.0, 1.0, 1e300}) {
    EXPECT_FALSE(never.due(now));
    EXPECT_FALSE(never.due(now, 1));
  }
  EXPECT_EQ(never.count(), 0);
}

TEST(Cadence, is_due_once_at_the_end_of_each_interval) {
  Cadence every(2);
  EXPECT_FALSE(every.due(0));
  EXPECT_FALSE(every.due(1.75));
  EXPECT_TRUE(every.due(2));
  EXPECT_FALSE(every.due(2));
  EXPECT_FALSE(every.due(3.75));
  EXPECT_TRUE(every.due(4.5));
  EXPECT_FALSE(every.due(5.75));  // intervals are counted from 0, not from the last time
  EXPECT_TRUE(every.due(6));
  EXPECT_EQ(every.count(), 3);
}

TEST(Cadence, is_due_once_for_all_intervals_that_were_missed) {
  Cadence every(2);
  EXPECT_TRUE(every.due(9));
  EXPECT_EQ(every.count(), 4);
  EXPECT_FALSE(every.due(9.75));
  EXPECT_TRUE(every.due(10));
}

TEST(Cadence, is_due_up_to_the_slack_before_the_end_of_an_interval) {
  Cadence every(1);
  EXPECT_FALSE(every.due(0.5, 0.25));
  EXPECT_TRUE(every.due(0.75, 0.25));
  EXPECT_EQ(every.count(), 1);
  EXPECT_FALSE(every.due(1.5, 0.25));
  EXPECT_TRUE(every.due(3.75, 0.25));  // the interval that ends at 4 has ended, too
  EXPECT_EQ(every.count(), 4);
  EXPECT_FALSE(every.due(4.5, 0.25));
}

TEST(Cadence, is_due_at_each_of_many_steps_whose_times_are_rounded_sums) {
  // A sum of 1000 steps of 0.1 is off by less than 1000 * 100 * 2^-53 = 1e-11, far less than half a step.
  constexpr double step = 0.1;
  Cadence every(step);
  double now = 0;
  for (int k = 1; k <= 1000; ++k) {
    now += step;
    EXPECT_TRUE(every.due(now, step / 2)) << k;
    EXPECT_EQ(every.count(), k);
  }
}

TEST(Cadence, goes_on_from_a_restored_count) {
  Cadence every(2);
  every.restore(3);
  EXPECT_FALSE(every.due(7.75));
  EXPECT_TRUE(every.due(8));
  EXPECT_EQ(every.count(), 4);
}

class RunFrames : public InAFolder {
 protected:
  static Settings settings(const std::string& output, const std::string& limit = "0") {
    const auto declare = [](Options& options) {
      options.declare(output_option("run.h5"));
      options.declare(overwrite_option());
      options.declare(time_limit_option());
    };
    return {
        std::make_shared<const Options>(declare), "", {"output.file=" + output, "run.time_limit=" + limit}};
  }
  static RunContext context() {
    RunContext of_rank;
    of_rank.comm = MPI_COMM_SELF;
    of_rank.experiment = "evolve";
    of_rank.quiet = true;
    return of_rank;
  }
  static std::string refusal(const std::string& output) {
    const auto given = settings(output);
    const auto here = context();
    return complaint<BadInput>([&] { RunFrame(given, here); });
  }
};

TEST_F(RunFrames, refuse_a_name_that_has_no_room_for_the_longest_beside_it) {
  const std::string longest = ".checkpoint.previous.h5";
  const std::string name(NAME_MAX - longest.size(), 'n');
  EXPECT_EQ(refusal(name + ".h5"), "");
  EXPECT_THAT(refusal("n" + name + ".h5"),
              AllOf(HasSubstr("output.file"), HasSubstr("too long"), HasSubstr(longest)));
  std::string path;  // of short folders
  while (path.size() + longest.size() + 3 < PATH_MAX) path += "f/";
  path.append(PATH_MAX - 1 - longest.size() - path.size(), 'n');
  EXPECT_EQ(refusal(path + ".h5"), "");
  EXPECT_THAT(refusal(path + "n.h5"), HasSubstr("too long"));
  EXPECT_THAT(refusal(""), AllOf(HasSubstr("output.file"), HasSubstr("empty")));
}

TEST_F(RunFrames, stop_at_the_time_limit_if_there_is_one) {
  const auto here = context();
  for (const char* limit : {"0", "1e9"}) {
    const auto given = settings(file("run.h5"), limit);
    EXPECT_FALSE(RunFrame(given, here).asked_to_stop()) << limit;
  }
  const auto given = settings(file("run.h5"), "1e-9");  // the shortest time that the clock can tell
  RunFrame frame(given, here);
  ASSERT_TRUE(frame.asked_to_stop());
  const auto report = frame.stopped("after 2 of 5 points", "start it again");
  EXPECT_EQ(report.code, ExitCode::stopped);
  EXPECT_THAT(report.summary,
              AllOf(HasSubstr("stopped by run.time_limit after 2 of 5 points"), HasSubstr("start it again")));
}

TEST_F(RunFrames, name_the_file_that_a_complete_run_has_written) {
  const auto given = settings(file("run.h5"));
  const auto here = context();
  const auto report = RunFrame(given, here).done("5 points");
  EXPECT_EQ(report.code, ExitCode::done);
  EXPECT_EQ(report.summary, "5 points; written to " + file("run.h5"));
}

TEST_F(RunFrames, add_up_the_time_of_a_part_in_the_order_of_first_appearance) {
  const auto given = settings(file("run.h5"));
  const auto here = context();
  RunFrame frame(given, here);
  frame.add_seconds("solve", 2);
  frame.add_seconds("output", 1);
  frame.add_seconds("solve", 0.5);
  EXPECT_THAT(frame.parts(), ElementsAre(Pair("solve", 2.5), Pair("output", 1.0)));
}

TEST_F(RunFrames, charge_work_to_its_part_also_if_it_throws) {
  const auto given = settings(file("run.h5"));
  const auto here = context();
  RunFrame frame(given, here);
  EXPECT_THROW(frame.timed("reading", [] { throw BadInput("damaged"); }), BadInput);
  EXPECT_EQ(frame.timed("solving", [] { return 7; }), 7);
  EXPECT_THAT(frame.parts(), ElementsAre(Pair("reading", testing::Ge(0)), Pair("solving", testing::Ge(0))));
}

TEST_F(RunFrames, do_not_begin_while_another_run_holds_the_output) {
  const auto given = settings(file("run.h5"));
  const auto here = context();
  RunFrame first(given, here), second(given, here);
  first.begin();
  EXPECT_THAT(first.parts(), ElementsAre(Pair("set_up", testing::Ge(0))));
  auto claim = first.claim();
  EXPECT_THAT(complaint<BadInput>([&] { second.begin(); }), HasSubstr(file("run.h5.part")));
  claim.reset();
  EXPECT_NO_THROW(second.begin());
}

}  // namespace
}  // namespace fluxformer::test
