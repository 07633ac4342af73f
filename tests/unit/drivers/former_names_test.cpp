// Runs under the names that experiments had before.

#include "drivers/former_names.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "tests/unit/io/temporary_folder.hpp"

namespace fluxformer::test {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

using Words = std::vector<std::string>;

Request request(const std::string& name, const std::string& deck, const Words& settings = {}) {
  return in_names_of_today(name, {deck}, settings, "deck.ini");
}
Request repeated(const std::string& name, const std::string& writer, const std::string& stored,
                 const Words& settings = {}) {
  return in_names_of_today(name, {stored, Origin::stored, writer}, settings, "out.h5");
}
std::string refusal(const std::string& name, const std::string& deck, const Words& settings = {}) {
  return complaint<BadInput>([&] { request(name, deck, settings); });
}

TEST(FormerNames, stand_for_all_experiments_that_had_them) {
  const auto experiments = experiments_called("hessian");
  ASSERT_EQ(experiments.size(), 3U);
  EXPECT_EQ(experiments.front()->name, "hessian_spectrum");
  EXPECT_EQ(experiments_called("hessian_blocks").size(), 1U);
  EXPECT_THAT(names_in_files("paths_train"), AllOf(Contains("paths_train"), Contains("paths")));
  EXPECT_THAT(names_in_files("paths"), AllOf(Contains("paths_theory"), Contains("paths_prune")));
  EXPECT_THAT(complaint<BadInput>([] { experiments_called("hessian_block"); }),
              AllOf(HasSubstr("no such experiment"), HasSubstr("did you mean hessian_blocks?")));
}

TEST(FormerNames, leave_other_experiments_as_they_are) {
  const auto found = request("evolve", "[evolve]\ntime = 3 # late\n", {"mesh.layers=2"});
  EXPECT_EQ(found.experiment->name, "evolve");
  EXPECT_EQ(found.deck, "[evolve]\ntime = 3 # late\n");
  EXPECT_THAT(found.settings, ElementsAre("mesh.layers=2"));
}

TEST(FormerNames, choose_the_study_by_command_line_deck_or_default) {
  const std::string deck = "[hessian]\nstudy = blocks\nwidth = 4\n";
  EXPECT_EQ(request("hessian", "").experiment->name, "hessian_spectrum");
  EXPECT_EQ(request("paths", "").experiment->name, "paths_theory");
  EXPECT_EQ(request("hessian", deck).experiment->name, "hessian_blocks");
  EXPECT_EQ(request("hessian", deck).deck, "hessian.width = 4\n");
  const auto found = request("hessian", deck, {"hessian.study=scaling", "hessian.depth=2"});
  EXPECT_EQ(found.experiment->name, "hessian_scaling");
  EXPECT_THAT(found.settings, ElementsAre("hessian.depth=2"));
  EXPECT_THAT(refusal("hessian", "", {"hessian.study=block"}), HasSubstr("hessian.study = block"));
}

TEST(FormerNames, without_a_study_are_the_first_experiment_that_has_all_keys) {
  EXPECT_EQ(request("hessian", "[hessian]\nlayers = linear\n").experiment->name, "hessian_blocks");
  EXPECT_EQ(request("hessian", "", {"hessian.seeds=1", "hessian.sigmas=2"}).experiment->name,
            "hessian_scaling");
  EXPECT_EQ(request("paths", "[paths]\nrandom_orders = 20\n[petsc]\nksp_rtol = 1\n").experiment->name,
            "paths_prune");
  EXPECT_EQ(request("paths", "[paths]\nwidht = 20\n").experiment->name, "paths_theory");
  EXPECT_EQ(request("hessian", "[hessian]\nepochs = \nheat_map = false\n").deck, "hessian.epochs = \n");
}

TEST(FormerNames, take_keys_of_other_studies_where_they_say_nothing) {
  const std::string deck = "[hessian]\nstudy = blocks\ndepth = 1\nwidth = 4\n";
  EXPECT_EQ(request("hessian", deck).deck, "hessian.width = 4\n");
  EXPECT_THAT(
      refusal("hessian", deck, {"hessian.depth=2"}),
      HasSubstr("hessian.depth = 2 (command line): is a key of hessian_scaling, not of hessian_blocks"));
  EXPECT_THAT(refusal("hessian_blocks", "hessian.depth = 1\n"),
              HasSubstr("hessian.depth = 1 (deck.ini): is a key of hessian_scaling, not of hessian_blocks"));
  EXPECT_THAT(refusal("hessian_blocks", deck), HasSubstr("hessian.study (deck.ini): hessian_blocks is"));
  EXPECT_THAT(refusal("hessian_blocks", "", {"hessian.study=blocks"}),
              HasSubstr("hessian.study (command line): hessian_blocks is"));
  // What is unknown everywhere is left to the settings.
  EXPECT_EQ(request("hessian_blocks", "hessian.widht = 4\n").deck, "hessian.widht = 4\n");
}

TEST(FormerNames, repeat_files_of_then_and_now_under_both_names) {
  const std::string old = "[hessian]\ndepth = 5\nstudy = blocks\nwidth = 4\n",
                    today = "[hessian]\nwidth = 4\n";
  for (const char* name : {"hessian", "hessian_blocks"})
    for (const auto& found : {repeated(name, "hessian", old), repeated(name, "hessian_blocks", today)}) {
      EXPECT_EQ(found.experiment->name, "hessian_blocks");
      EXPECT_EQ(found.deck, "hessian.width = 4\n");
    }
  EXPECT_EQ(repeated("hessian", "hessian", old, {"hessian.study=scaling"}).experiment->name,
            "hessian_scaling");
  const auto refused = [](const auto&... run) { return complaint<BadInput>([&] { repeated(run...); }); };
  const std::string reason = "out.h5: is the output of hessian_blocks, whose settings are not those of";
  EXPECT_THAT(refused("hessian_scaling", "hessian", old), HasSubstr(reason + " hessian_scaling"));
  EXPECT_THAT(refused("hessian", "hessian_blocks", today, Words{"hessian.study=scaling"}),
              HasSubstr(reason + " hessian_scaling"));
}

}  // namespace
}  // namespace fluxformer::test
