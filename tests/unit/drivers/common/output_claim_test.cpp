// The start of a run as its files see it: what another run has left stays unless it may be replaced.

#include "drivers/common/earlier_runs.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>

#include "base/error.hpp"
#include "drivers/common/run_options.hpp"
#include "io/archive_reader.hpp"
#include "io/archive_writer.hpp"
#include "io/layout.hpp"
#include "io/output_file.hpp"
#include "tests/unit/io/temporary_folder.hpp"

namespace fluxformer::test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const std::string overwrite = "output.overwrite=true", automatic = "checkpoint.restart=auto";

/// Limits the size of files of this process for as long as it lives.
class SizeLimit {
 public:
  explicit SizeLimit(rlim_t bytes) {
    EXPECT_EQ(::getrlimit(RLIMIT_FSIZE, &before_), 0);
    rlimit limit = before_;
    limit.rlim_cur = bytes;
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  }
  SizeLimit(const SizeLimit&) = delete;
  SizeLimit& operator=(const SizeLimit&) = delete;
  ~SizeLimit() { ::setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

class OutputClaims : public InAFolder {
 protected:
  Settings settings(std::vector<std::string> given, bool restarts = true) const {
    const auto declare = [&](Options& options) {
      options.declare(output_option("out.h5"));
      options.declare(overwrite_option());
      if (restarts) options.declare(restart_option());
    };
    given.insert(given.begin(), "output.file=" + file("out.h5"));
    return {std::make_shared<const Options>(declare), "", given};
  }
  std::unique_ptr<io::PartFile> claim(const std::vector<std::string>& given = {},
                                      const OutputClaim& what = {}) const {
    return claim_output(MPI_COMM_SELF, settings(given), what);
  }
  /// The message of BadInput; "" if the output can be claimed, which is given up again.
  std::string refusal(const std::vector<std::string>& given = {}, const OutputClaim& what = {}) const {
    return complaint<BadInput>([&] { claim(given, what); });
  }

  void put(const std::string& name, const std::string& text) const { std::ofstream(folder_ / name) << text; }
  std::string content(const std::string& name) const {
    std::ifstream in(folder_ / name);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void result(const std::string& name, const std::string& status) const {
    std::filesystem::remove(folder_ / name);
    io::ArchiveWriter writer(MPI_COMM_SELF, file(name), false);
    writer.finish(status);
  }
  /// Says that the file was written so many hours after the test began.
  void date(const std::string& name, int hours) const {
    std::filesystem::last_write_time(folder_ / name, begun_ + std::chrono::hours(hours));
  }
  std::vector<std::string> names_in_folder() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_))
      names.push_back(entry.path().filename().string());
    std::ranges::sort(names);
    return names;
  }

  std::filesystem::file_time_type begun_ = std::filesystem::file_time_type::clock::now();
};

TEST_F(OutputClaims, refuse_an_existing_output_and_leave_it_untouched) {
  put("out.h5", "an earlier result");
  EXPECT_THAT(refusal(), AllOf(HasSubstr("output.file: " + file("out.h5")), HasSubstr("output.overwrite")));
  EXPECT_EQ(content("out.h5"), "an earlier result");
  EXPECT_THAT(names_in_folder(), ElementsAre("out.h5"));
}

TEST_F(OutputClaims, with_overwrite_leave_an_existing_output_until_the_new_one_is_complete) {
  put("out.h5", "an earlier result");
  auto given_up = claim({overwrite});
  EXPECT_THAT(names_in_folder(), ElementsAre("out.h5", "out.h5.part"));
  given_up.reset();
  EXPECT_EQ(content("out.h5"), "an earlier result");
  EXPECT_THAT(names_in_folder(), ElementsAre("out.h5"));
  io::ArchiveWriter writer(claim({overwrite}));
  EXPECT_EQ(content("out.h5"), "an earlier result");
  writer.finish(names::done);
  EXPECT_EQ(io::ArchiveReader(MPI_COMM_SELF, file("out.h5")).text(names::status), names::done);
  EXPECT_THAT(names_in_folder(), ElementsAre("out.h5"));
}

TEST_F(OutputClaims, given_up_leave_nothing_behind) {
  claim({}, {.bytes = 1 << 20, .datasets = 100});  // space that is reserved counts as nothing, too
  EXPECT_THAT(names_in_folder(), IsEmpty());
  put("out.h5.part", "what a dead run has left");
  claim();
  EXPECT_THAT(names_in_folder(), IsEmpty());
}

TEST_F(OutputClaims, refuse_a_folder_that_is_not_there_and_do_not_make_it) {
  const auto nowhere = "output.file=" + file("nowhere/out.h5");
  EXPECT_THAT(refusal({nowhere}), AllOf(HasSubstr("output.file"), HasSubstr("folder " + file("nowhere"))));
  EXPECT_THAT(names_in_folder(), IsEmpty());
}

TEST_F(OutputClaims, refuse_a_folder_in_place_of_the_file_even_with_overwrite) {
  std::filesystem::create_directory(folder_ / "out.h5");
  EXPECT_THAT(refusal({overwrite}), HasSubstr("not a regular file"));
  EXPECT_TRUE(std::filesystem::is_directory(folder_ / "out.h5"));
}

TEST_F(OutputClaims, of_one_file_exclude_each_other_until_one_is_given_up) {
  auto first = claim();
  for (const auto& given : {std::vector<std::string>{}, {overwrite}, {automatic}})
    EXPECT_THAT(refusal(given), HasSubstr(file("out.h5.part") + " is being written by another run"));
  io::ArchiveWriter(std::move(first)).finish(names::done);  // the part file is still that of the first
  std::filesystem::remove(folder_ / "out.h5");
  EXPECT_EQ(refusal(), "");
}

TEST_F(OutputClaims, protect_files_beside_the_output) {
  const OutputClaim what{.side_files = {file("out.xdmf"), file("out.history.h5")}};
  EXPECT_EQ(refusal({}, what), "");
  put("out.history.h5", "an earlier history");
  EXPECT_THAT(refusal({}, what), AllOf(HasSubstr(file("out.history.h5")), HasSubstr("output.overwrite")));
  EXPECT_EQ(refusal({overwrite}, what), "");
  EXPECT_EQ(refusal({automatic}, what), "");  // its own
  EXPECT_EQ(content("out.history.h5"), "an earlier history");
  EXPECT_THAT(names_in_folder(), ElementsAre("out.history.h5"));
  // Of an output and what is beside it the output is named.
  put("out.h5", "an earlier result");
  EXPECT_THAT(refusal({}, what), HasSubstr(file("out.h5") + " exists"));
}

TEST_F(OutputClaims, let_a_continuing_run_replace_only_the_output_that_it_continues) {
  put("out.h5", "an interrupted result");
  EXPECT_THAT(refusal({automatic}), HasSubstr(file("out.h5") + " exists"));
  EXPECT_EQ(refusal({automatic}, {.continues_output = true}), "");
  EXPECT_EQ(content("out.h5"), "an interrupted result");
}

TEST_F(OutputClaims, protect_the_checkpoint_of_an_unfinished_run_from_all_but_its_continuation) {
  put("other.checkpoint.h5", "the state of a run elsewhere");
  for (const char* name : {"out.checkpoint.h5", "out.checkpoint.previous.h5"}) {
    put(name, "a state");
    for (const auto& given : {std::vector<std::string>{}, {overwrite}})
      EXPECT_THAT(refusal(given), AllOf(HasSubstr("checkpoint.restart = no"), HasSubstr(file(name)),
                                        HasSubstr("checkpoint.restart=auto")));
    EXPECT_THAT(refusal({"checkpoint.restart=" + file("other.checkpoint.h5")}), HasSubstr(file(name)));
    EXPECT_EQ(refusal({automatic}), "");
    EXPECT_EQ(refusal({"checkpoint.restart=" + file(name)}), "");
    EXPECT_EQ(content(name), "a state");
    std::filesystem::remove(folder_ / name);
  }
  EXPECT_THAT(names_in_folder(), ElementsAre("other.checkpoint.h5"));
}

TEST_F(OutputClaims, take_a_checkpoint_for_finished_if_a_result_is_as_young) {
  put("out.checkpoint.h5", "a state");
  date("out.checkpoint.h5", 0);
  for (const char* status : {names::done, names::failed}) {
    result("out.h5", status);
    for (const int hours : {0, 1}) {
      date("out.h5", hours);
      EXPECT_EQ(refusal({overwrite}), "") << status;
    }
    date("out.h5", -1);
    EXPECT_THAT(refusal({overwrite}), HasSubstr("has not finished")) << status;
  }
  // A run that was stopped has not finished, however young its result; nor has one whose file cannot be read.
  result("out.h5", names::interrupted);
  date("out.h5", 1);
  EXPECT_THAT(refusal({overwrite}), HasSubstr("has not finished"));
  put("out.h5", "of another program");
  date("out.h5", 1);
  EXPECT_THAT(refusal({overwrite}), HasSubstr("has not finished"));
  // One that failed may have its result beside an earlier one.
  result("out.failed.h5", names::failed);
  date("out.failed.h5", 1);
  EXPECT_EQ(refusal({overwrite}), "");
}

TEST_F(OutputClaims, of_experiments_that_cannot_be_continued_know_no_checkpoint) {
  put("out.checkpoint.h5", "of another experiment");
  EXPECT_NO_THROW(claim_output(MPI_COMM_SELF, settings({}, false), {}));
}

TEST_F(OutputClaims, need_room_for_all_that_is_announced) {
  const OutputClaim what{.bytes = 3 << 20, .datasets = 1000};
  const auto room = io::room_for(what.bytes, what.datasets);
  ASSERT_GT(room, what.bytes);
  const auto failure_below = [&](rlim_t most) -> std::string {
    const SizeLimit limit(most);
    try {
      claim({}, what);
    } catch (const Error& e) {
      return e.code() == ExitCode::failure ? e.what() : "another exit code";
    }
    return "";
  };
  EXPECT_EQ(failure_below(room), "");
  EXPECT_THAT(failure_below(room - 1), AllOf(HasSubstr(file("out.h5")), HasSubstr("ulimit -f")));
  EXPECT_THAT(names_in_folder(), IsEmpty());
}

TEST_F(OutputClaims, are_followed_by_the_removal_of_what_was_continued_and_of_nothing_else) {
  const auto given = settings({});
  EXPECT_NO_THROW(remove_interrupted(MPI_COMM_SELF, given));  // there is nothing
  for (const char* name :
       {"out.h5", "out.xdmf", "out.failed.h5", "out.interrupted.h5", "out.interrupted.xdmf"})
    put(name, "text");
  remove_interrupted(MPI_COMM_SELF, given);
  EXPECT_THAT(names_in_folder(), ElementsAre("out.failed.h5", "out.h5", "out.xdmf"));
}

}  // namespace
}  // namespace fluxformer::test
