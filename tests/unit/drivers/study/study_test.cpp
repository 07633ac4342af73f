// A study keeps the results of finished places by name, and goes on from them as if it had never been stopped.

#include "drivers/study/study.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <memory>

#include "base/error.hpp"
#include "drivers/common/run_options.hpp"
#include "io/archive_reader.hpp"
#include "io/axes.hpp"
#include "io/file_names.hpp"
#include "tests/unit/io/temporary_folder.hpp"

namespace fluxformer::test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

const io::Variable width = io::coordinate("width", "", "width"), head = io::index("head", "head"),
                   number{"number", {"width"}, "", "one number of each place"},
                   row{"row", {"head", "width"}, "", "a number for each head, the width last"},
                   odd{"odd", {}, "", "given at the second width only"},
                   secret{"secret", {"width", "extent_2"}, "", "kept, and not written"},
                   sum{"sum", {}, "", "sum of a secret over the widths"};

/// A record of what the studies of a test were asked for, and how they are to behave.
struct Script {
  std::vector<std::string> asked = {};
  std::string fails_at = {};
  std::uint64_t digest = 7;
  std::vector<double> widths = {10, 20, 30};
  bool goes_on = true;  ///< false: asked to stop after the last place
};

/// Two seeds x widths in the group "softmax"; results need all of their bits.
class SomeStudy final : public Study {
 public:
  explicit SomeStudy(Script& script) : script_(script) {}
  std::string describe() const override { return "some places"; }
  std::vector<Place> places() const override {
    std::vector<Place> all;
    for (std::size_t s = 0; s < 2; ++s)
      for (std::size_t w = 0; w < script_.widths.size(); ++w)
        all.push_back({.group = "softmax",
                       .name = "seed " + std::to_string(s) + ", width " + std::to_string(w),
                       .index = {{"seed", s}, {"width", w}}});
    return all;
  }
  std::vector<Source> sources() const override {
    return {{.called = "paths.attention = net.h5", .digest = script_.digest}};
  }
  std::vector<io::Variable> kept() const override { return {secret}; }
  void begin(StudyRecord& record) override {
    record.seeds({4, 5});
    record.axis(width, script_.widths);
    record.axis(head, 0, 1);
  }
  void measure(const Place& place, Results& to) override {
    script_.asked.push_back(place.name);
    if (place.name == script_.fails_at) throw NumericalFailure("no convergence");
    to.put(number, {value(place)});
    to.put(row, {std::numeric_limits<double>::quiet_NaN(), -std::numeric_limits<double>::infinity()});
    to.put(secret, {value(place), 1});
    if (place.along(width) == 1) to.put(odd, {value(place)});
    to.say(place.name);
  }
  bool conclude(const Findings& found, RunFrame& frame, StudyRecord& record) override {
    for (std::size_t s = 0; s < 2; ++s) {
      double all = 0;
      for (std::size_t k = 0; k < found.count(); ++k)
        if (found.places()[k].along(axes::seed) == s) all += found.at(k, secret).front();
      record.add({.group = "softmax", .index = {{"seed", s}}}, sum, {all});
    }
    return Study::conclude(found, frame, record) && script_.goes_on;
  }
  static double value(const Place& place) {
    return std::sin(1.0 + 10.0 * static_cast<double>(place.along(axes::seed)) +
                    static_cast<double>(place.along(width)));
  }

 private:
  Script& script_;
};

/// Two places of three steps each: a sum that is carried from step to step.
class LongStudy final : public Study {
 public:
  explicit LongStudy(std::vector<double>& taken) : taken_(taken) {}
  std::string describe() const override { return "places that take long"; }
  std::vector<Place> places() const override {
    return {{.group = "softmax", .name = "seed 4", .index = {{"seed", 0}}},
            {.group = "softmax", .name = "seed 5", .index = {{"seed", 1}}}};
  }
  int ranks_of_place() const override { return all_ranks; }
  void begin(StudyRecord& record) override { record.seeds({4, 5}); }
  void measure(const Place& place, Results& to) override {
    while (steps_ < 3) {
      ++steps_;
      taken_.push_back(10 * static_cast<double>(place.along(axes::seed)) + static_cast<double>(steps_));
      sum_ += std::sin(taken_.back());
      if (steps_ < 3 && !to.go_on(static_cast<double>(steps_) / 3, "a step")) return;
    }
    to.put(sum, {sum_});
    steps_ = 0;
    sum_ = 0;
  }
  bool half_way() const override { return steps_ > 0; }
  void save(io::CheckpointWriter& to) const override {
    to.put(io::WholeItem{"steps"}, steps_);
    to.put(io::RealItem{"sum"}, sum_);
  }
  void load(const Place&, const io::CheckpointReader& from) override {
    steps_ = from.integer(io::WholeItem{"steps"});
    sum_ = from.real(io::RealItem{"sum"});
  }

 private:
  std::vector<double>& taken_;
  long steps_ = 0;
  double sum_ = 0;
};

/// Bits of a dataset: NaN is equal to itself.
std::vector<std::uint64_t> bits(const std::string& file, const std::string& name) {
  std::vector<std::uint64_t> all;
  for (const double one :
       io::ArchiveReader(MPI_COMM_SELF, file).array("/analysis/paths/softmax/" + name).values)
    all.push_back(std::bit_cast<std::uint64_t>(one));
  return all;
}

class Studies : public InAFolder {
 protected:
  Settings settings(std::vector<std::string> given = {}) const {
    const auto declare = [](Options& options) {
      options.declare({.name = "paths.width", .fallback = 3L, .doc = "part of the problem"});
      options.declare(seed_option("seed"));
      declare_study_run(options, "study.h5");
    };
    given.insert(given.begin(), {"output.file=" + file("study.h5"), "checkpoint.every=0"});
    return {std::make_shared<const Options>(declare), "", given};
  }
  /// One start of the program.
  Report start(const std::vector<std::string>& given) {
    return start(given, [&](const Settings&, MPI_Comm) { return std::make_unique<SomeStudy>(script); });
  }
  Report start(const std::vector<std::string>& given, const MakeStudy& make) const {
    RunContext context;
    context.comm = MPI_COMM_SELF;
    context.experiment = "paths";
    context.quiet = true;
    return make_study(settings(given), context, {.measures = {number, row, odd, sum}}, make)->run();
  }
  /// A run whose time is up after the next place.
  Report hurried() { return start({"checkpoint.restart=auto", "run.time_limit=1e-9"}); }
  Report continued(const std::vector<std::string>& more = {}) {
    auto given = more;
    given.insert(given.begin(), "checkpoint.restart=auto");
    return start(given);
  }
  void assert_bits_of_an_undisturbed_run() {
    script = {};
    EXPECT_EQ(start({"output.file=" + file("whole.h5")}).code, ExitCode::done);
    for (const char* name : {"number", "row", "odd", "sum"})
      EXPECT_EQ(bits(file("study.h5"), name), bits(file("whole.h5"), name)) << name;
  }

  Script script;
};

TEST_F(Studies, measure_each_place_once_in_order_and_need_no_checkpoint) {
  const auto report = start({});
  EXPECT_EQ(report.code, ExitCode::done);
  EXPECT_THAT(report.summary,
              AllOf(HasSubstr("done: 6 points, "), HasSubstr("; seed 0, width 0; seed 0, width 1"),
                    HasSubstr("seed 1, width 2; written to ")));
  EXPECT_THAT(script.asked, ElementsAre("seed 0, width 0", "seed 0, width 1", "seed 0, width 2",
                                        "seed 1, width 0", "seed 1, width 1", "seed 1, width 2"));
  EXPECT_FALSE(exists("study.checkpoint.h5"));
}

TEST_F(Studies, write_results_where_the_axes_say_and_nan_where_there_are_none) {
  start({});
  const io::ArchiveReader reader(MPI_COMM_SELF, file("study.h5"));
  const auto values = [&](const std::string& name) {
    return reader.array("/analysis/paths/softmax/" + name);
  };
  EXPECT_THAT(values("number").shape, ElementsAre(2, 3));
  EXPECT_EQ(values("number").values[4], std::sin(12.0));
  EXPECT_THAT(values("row").shape, ElementsAre(2, 2, 3));
  for (const std::size_t k : {0U, 1U, 2U}) {
    EXPECT_TRUE(std::isnan(values("row").values[k]));
    EXPECT_EQ(values("row").values[3 + k], -std::numeric_limits<double>::infinity());
  }
  EXPECT_THAT(values("odd").values, ElementsAre(std::sin(2.0), std::sin(12.0)));
  EXPECT_EQ(values("sum").values[0], std::sin(1.0) + std::sin(2.0) + std::sin(3.0));
  EXPECT_THAT(values("seconds").shape, ElementsAre(2));
  EXPECT_FALSE(reader.has("/analysis/paths/softmax/secret"));
}

TEST_F(Studies, stopped_after_every_place_find_the_same_bits) {
  for (int done = 1; done < 6; ++done) {
    const auto report = hurried();
    EXPECT_EQ(report.code, ExitCode::stopped);
    EXPECT_THAT(report.summary,
                AllOf(HasSubstr("run.time_limit after " + std::to_string(done) + " of 6 points"),
                      HasSubstr("--checkpoint.restart=auto")));
    EXPECT_FALSE(exists("study.h5"));
  }
  const auto last = hurried();  // nothing is left to be stopped
  EXPECT_EQ(last.code, ExitCode::done);
  EXPECT_THAT(last.summary, HasSubstr("; seed 0, width 0; seed 0, width 1"));
  EXPECT_THAT(script.asked, SizeIs(6));
  assert_bits_of_an_undisturbed_run();
}

TEST_F(Studies, keep_what_was_found_before_a_place_fails) {
  script.fails_at = "seed 1, width 0";
  EXPECT_THAT(complaint<NumericalFailure>([&] { start({}); }), HasSubstr("no convergence"));
  script = {};
  EXPECT_EQ(continued().code, ExitCode::done);
  EXPECT_THAT(script.asked, ElementsAre("seed 1, width 0", "seed 1, width 1", "seed 1, width 2"));
  assert_bits_of_an_undisturbed_run();
}

TEST_F(Studies, whose_first_place_fails_leave_no_checkpoint_behind) {
  script.fails_at = "seed 0, width 0";
  EXPECT_THROW(start({}), NumericalFailure);
  EXPECT_FALSE(exists("study.checkpoint.h5"));
}

TEST_F(Studies, stopped_at_the_end_keep_all_places) {
  script.goes_on = false;
  const auto report = start({});
  EXPECT_EQ(report.code, ExitCode::stopped);
  EXPECT_THAT(report.summary, HasSubstr("after all points"));
  script = {};
  EXPECT_EQ(continued().code, ExitCode::done);
  EXPECT_THAT(script.asked, testing::IsEmpty());
  assert_bits_of_an_undisturbed_run();
}

TEST_F(Studies, stopped_without_anything_new_leave_the_checkpoint_as_it_is) {
  script.goes_on = false;
  for (int time = 0; time < 2; ++time) EXPECT_EQ(continued().code, ExitCode::stopped);
  EXPECT_TRUE(exists("study.checkpoint.h5"));
  EXPECT_FALSE(exists("study.checkpoint.previous.h5"));  // it was not written again
  std::filesystem::rename(folder_ / "study.checkpoint.h5", folder_ / "kept.h5");
  EXPECT_EQ(start({"checkpoint.restart=" + file("kept.h5")}).code, ExitCode::stopped);
  EXPECT_TRUE(exists("study.checkpoint.h5"));  // with which the run is to be continued
}

TEST_F(Studies, of_places_that_take_long_go_on_within_them) {
  std::vector<double> taken;
  const MakeStudy make = [&](const Settings&, MPI_Comm) { return std::make_unique<LongStudy>(taken); };
  const auto next = [&] { return start({"checkpoint.restart=auto", "run.time_limit=1e-9"}, make); };
  for (const char* place : {"after 0 of 2 points, within the next", "after 0 of 2 points, within the next",
                            "after 1 of 2 points;", "after 1 of 2 points, within the next",
                            "after 1 of 2 points, within the next"}) {
    const auto report = next();
    EXPECT_EQ(report.code, ExitCode::stopped);
    EXPECT_THAT(report.summary, HasSubstr(place));
  }
  const double before = io::CheckpointReader(MPI_COMM_SELF, io::checkpoint_path(file("study.h5")))
                            .real(io::RealItem{"half_way_seconds"});
  EXPECT_GT(before, 0);
  EXPECT_EQ(next().code, ExitCode::done);
  const auto seconds =
      io::ArchiveReader(MPI_COMM_SELF, file("study.h5")).array("/analysis/paths/softmax/seconds");
  EXPECT_GT(seconds.values[1], before);                  // of all three runs that measured it
  EXPECT_THAT(taken, ElementsAre(1, 2, 3, 11, 12, 13));  // no step was taken twice
  EXPECT_EQ(start({"output.file=" + file("whole.h5")}, make).code, ExitCode::done);
  EXPECT_EQ(bits(file("study.h5"), "sum"), bits(file("whole.h5"), "sum"));
}

TEST_F(Studies, write_a_checkpoint_whenever_one_is_due) {
  EXPECT_EQ(start({"checkpoint.every=1e-9"}).code, ExitCode::done);  // after each place
  constexpr io::WholeItem done{"points"};
  const auto done_in = [&](const std::string& path) {
    return io::CheckpointReader(MPI_COMM_SELF, path).integer(done);
  };
  EXPECT_EQ(done_in(io::checkpoint_path(file("study.h5"))), 6);
  EXPECT_EQ(done_in(io::previous_checkpoint_path(file("study.h5"))), 5);
}

TEST_F(Studies, go_on_from_the_checkpoint_that_is_named) {
  EXPECT_EQ(hurried().code, ExitCode::stopped);
  std::filesystem::rename(folder_ / "study.checkpoint.h5", folder_ / "kept.h5");
  script.asked.clear();
  EXPECT_EQ(start({"checkpoint.restart=" + file("kept.h5")}).code, ExitCode::done);
  EXPECT_THAT(script.asked, SizeIs(5));
}

TEST_F(Studies, refuse_the_places_of_another_problem) {
  for (int k = 0; k < 4; ++k) EXPECT_EQ(hurried().code, ExitCode::stopped);
  const auto refusal = [&](const std::vector<std::string>& more) {
    return complaint<BadInput>([&] { continued(more); });
  };
  EXPECT_THAT(refusal({"paths.width=4"}), AllOf(HasSubstr("paths.width = 4"), HasSubstr("made with 3")));
  script.digest = 8;
  EXPECT_THAT(refusal({}), AllOf(HasSubstr("paths.attention = net.h5"), HasSubstr("is no longer what")));
  script = {.widths = {10}};
  EXPECT_THAT(refusal({}), HasSubstr("its 4 points are more than the 2"));
}

class HandMadeCheckpoints : public Studies {
 protected:
  /// A checkpoint of the study with these contents.
  struct Contents {
    long points = 0;
    std::string results = {};
    std::vector<double> numbers = {};
    long half_way = 0;
    std::string experiment = "paths";
  };
  void make(const Contents& contents) {
    io::CheckpointWriter made(MPI_COMM_SELF, file("study.h5"));
    made.put("settings", settings().resolved());
    made.put("experiment", contents.experiment);
    made.put("git_revision", "0123abc");
    made.put("sources", "7\n");
    made.put(io::WholeItem{"points"}, contents.points);
    made.put("results", contents.results);
    made.put("words", "");
    made.put(io::NumbersItem{"numbers"}, contents.numbers);
    made.put(io::NumbersItem{"seconds"}, std::vector<double>(static_cast<std::size_t>(contents.points)));
    made.put(io::WholeItem{"half_way"}, contents.half_way);
    made.commit();
  }
  std::string refusal(const Contents& contents) {
    make(contents);
    return complaint<BadInput>([&] { continued(); });
  }
};

TEST_F(HandMadeCheckpoints, are_refused_for_results_that_their_places_do_not_have) {
  EXPECT_THAT(refusal({1, "0 number 2\n", {1, 2}}),
              HasSubstr("number of seed 0, width 0: its results are not"));
  EXPECT_THAT(refusal({1, "0 numbers 1\n", {1}}), HasSubstr("numbers: its results are not"));
  EXPECT_THAT(refusal({1, "1 number 1\n", {1}}), HasSubstr("number: its results are not"));
  EXPECT_THAT(refusal({.points = 6, .half_way = 1}), HasSubstr("half way beyond its last place"));
  EXPECT_THAT(refusal({.experiment = "pruning"}), HasSubstr("is a checkpoint of pruning, not of paths"));
  EXPECT_THAT(script.asked, testing::IsEmpty());
}

TEST_F(HandMadeCheckpoints, of_another_revision_are_continued_which_is_said) {
  make({});
  testing::internal::CaptureStderr();
  EXPECT_EQ(continued().code, ExitCode::done);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("after 0 points, computed by revision 0123abc"));
  assert_bits_of_an_undisturbed_run();
}

TEST(ResultsOfAPlace, are_refused_when_they_are_put_in_and_not_at_the_end) {
  const Settings none(std::make_shared<const Options>([](Options&) {}), "", {});
  const RunContext context;
  StudyRecord record(none, context);
  record.seeds({1});
  record.axis(head, 0, 1);
  record.axis(width, {10, 20});
  const Place place{.group = "softmax", .name = "here", .index = {{"seed", 0}, {"width", 1}}};
  const io::Variable elsewhere{"elsewhere", {"depth"}, "", "over an axis that is missing"};
  const Findings found(record, {place}, {number, row, elsewhere});
  Results to(found, place);
  const auto refusal = [&](const io::Variable& variable, std::vector<double> values) {
    return complaint<std::logic_error>([&] { to.put(variable, std::move(values)); });
  };
  EXPECT_EQ(refusal(row, {1, 2}), "");
  EXPECT_THAT(refusal(row, {1, 2}), HasSubstr("row: put twice at here"));
  EXPECT_THAT(refusal(number, {1, 2}), HasSubstr("number: 2 numbers for 1"));
  EXPECT_THAT(refusal(odd, {1}), HasSubstr("odd: is not declared"));
  EXPECT_THAT(refusal(elsewhere, {1}), HasSubstr("no axis depth"));
  EXPECT_THAT(refusal({"number", {}, "", ""}, {1}), HasSubstr("other axes"));
  EXPECT_THAT(complaint<std::logic_error>([&] { to.say("two\nlines"); }), HasSubstr("more than a line"));
}

TEST(ResultsOfAPlace, are_written_once) {
  const Settings none(std::make_shared<const Options>([](Options&) {}), "", {});
  const RunContext context;
  StudyRecord record(none, context);
  record.seeds({1, 2});
  const Place place{.group = "softmax", .index = {{"seed", 1}}};
  record.add(place, odd, {1});
  EXPECT_THAT(complaint<std::logic_error>([&] { record.add(place, odd, {1}); }), HasSubstr("given twice"));
}

}  // namespace
}  // namespace fluxformer::test
