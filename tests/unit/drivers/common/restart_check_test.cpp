// The checkpoint that a run continues from, and the deck that is a file.

#include "drivers/common/earlier_runs.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <memory>

#include "base/error.hpp"
#include "drivers/common/deck_file.hpp"
#include "drivers/common/run_options.hpp"
#include "io/archive_writer.hpp"
#include "io/layout.hpp"
#include "tests/unit/io/temporary_folder.hpp"

namespace fluxformer::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class RestartChecks : public InAFolder {
 protected:
  Settings settings(std::vector<std::string> given = {}) const {
    const auto declare = [](Options& options) {
      options.declare({.name = "solve.width", .fallback = 3L, .doc = "part of the problem"});
      options.declare(
          {.name = "output.every", .fallback = 1L, .doc = "steps between outputs", .role = Role::output});
      options.declare(restart_option());
      options.declare(output_option("run.h5"));
      options.declare(overwrite_option());
      options.declare(time_limit_option());
    };
    given.insert(given.begin(), "output.file=" + file("run.h5"));
    return {std::make_shared<const Options>(declare), "", given};
  }
  void save(long number, const std::vector<std::string>& given = {}) const {
    io::CheckpointWriter writer(MPI_COMM_SELF, file("run.h5"));
    writer.put("settings", settings(given).resolved());
    writer.put(steps, number);
    writer.commit();
  }
  /// The steps of the checkpoint that is found; -1 if none is.
  long found(const std::string& restart, std::vector<std::string> given = {}) const {
    given.push_back("checkpoint.restart=" + restart);
    const auto checkpoint = find_checkpoint(MPI_COMM_SELF, settings(given));
    return checkpoint ? checkpoint->integer(steps) : -1;
  }
  static constexpr io::WholeItem steps{"step"};
};

TEST_F(RestartChecks, find_a_checkpoint_only_if_one_is_asked_for) {
  EXPECT_EQ(found("auto"), -1);  // a first start
  save(1);
  EXPECT_EQ(found("auto"), 1);
  EXPECT_EQ(found("no"), -1);
}

TEST_F(RestartChecks, find_the_newest_generation_or_the_one_that_is_named) {
  save(1);
  save(2);
  EXPECT_EQ(found("auto"), 2);
  EXPECT_EQ(found(file("run.checkpoint.previous.h5")), 1);
  std::filesystem::remove(folder_ / "run.checkpoint.h5");  // died between two renames
  EXPECT_EQ(found("auto"), 1);
}

TEST_F(RestartChecks, refuse_a_name_without_a_file) {
  save(1);
  EXPECT_THAT(complaint<BadInput>([&] { found(file("other.h5")); }),
              AllOf(HasSubstr("checkpoint.restart = " + file("other.h5")), HasSubstr("no such file")));
}

TEST_F(RestartChecks, refuse_another_problem_but_not_another_output) {
  save(1, {"solve.width=5"});
  EXPECT_THAT(complaint<BadInput>([&] { found("auto"); }),
              AllOf(HasSubstr("solve.width = 3"), HasSubstr("run.checkpoint.h5"), HasSubstr("made with 5")));
  EXPECT_EQ(found("no"), -1);
  const std::vector<std::string> changed{"solve.width=5", "output.every=7", "run.time_limit=60",
                                         "output.overwrite=true"};
  EXPECT_EQ(found("auto", changed), 1);
}

TEST_F(RestartChecks, tell_whether_stored_settings_are_of_the_same_problem) {
  const auto stored = settings({"solve.width=5", "output.every=7"}).resolved();
  EXPECT_TRUE(continues(settings({"solve.width=5"}), stored, "run.h5"));
  EXPECT_FALSE(continues(settings(), stored, "run.h5"));
}

class DeckFiles : public InAFolder {
 protected:
  void put(const std::string& name, const std::string& text) const { std::ofstream(folder_ / name) << text; }
  std::string refusal(const std::string& name) const {
    return complaint<BadInput>([&] { read_deck_file(MPI_COMM_SELF, file(name), {"evolve"}); });
  }
};

TEST_F(DeckFiles, of_text_are_read_to_the_letter) {
  const std::string text = "# a comment\r\n[mesh]\nlayers = 3   \n\n";
  put("deck.ini", text);
  const auto deck = read_deck_file(MPI_COMM_SELF, file("deck.ini"), {"evolve"});
  EXPECT_EQ(deck.text, text);
  EXPECT_EQ(deck.origin, Origin::deck);
}

TEST_F(DeckFiles, that_are_outputs_hold_the_settings_of_their_run) {
  const std::string resolved = "[mesh]\nlayers = 3\n";
  {
    io::ArchiveWriter writer(MPI_COMM_SELF, file("out.h5"), false);
    writer.attribute(names::experiment, "evolve");
    writer.attribute(names::settings, resolved);
    writer.attribute(names::deck, "layers = ${N}");  // what was written by hand is not what was run
    writer.finish(names::done);
  }
  const auto deck = read_deck_file(MPI_COMM_SELF, file("out.h5"), {"train", "evolve"});
  EXPECT_EQ(deck.text, resolved);
  EXPECT_EQ(deck.origin, Origin::stored);
  EXPECT_THAT(complaint<BadInput>([&] { read_deck_file(MPI_COMM_SELF, file("out.h5"), {"train"}); }),
              AllOf(HasSubstr(file("out.h5")), HasSubstr("output of evolve"), HasSubstr("train")));
  io::ArchiveWriter(MPI_COMM_SELF, file("weights.h5"), false).finish(names::done);
  EXPECT_THAT(refusal("weights.h5"), AllOf(HasSubstr(file("weights.h5")), HasSubstr("holds no settings")));
}

TEST_F(DeckFiles, are_regular_files_of_at_most_a_mebibyte) {
  put("longest.ini", std::string(1 << 20, '\n'));
  EXPECT_EQ(refusal("longest.ini"), "");
  put("longer.ini", std::string((1 << 20) + 1, '\n'));
  EXPECT_THAT(refusal("longer.ini"),
              AllOf(HasSubstr(file("longer.ini")), HasSubstr("is longer than 1048576 bytes")));
  EXPECT_THAT(refusal("none.ini"), HasSubstr(file("none.ini") + ": no such file"));
  std::filesystem::create_directory(folder_ / "folder.ini");
  EXPECT_THAT(refusal("folder.ini"), HasSubstr("cannot be read as a file"));
}

}  // namespace
}  // namespace fluxformer::test
