// Conditions and roles in settings, and settings derived from others.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "base/error.hpp"
#include "base/settings.hpp"

namespace fluxformer {
namespace {

using testing::HasSubstr;

// Options with conditions, and one of every role.
std::shared_ptr<const Options> conditional() {
  return std::make_shared<const Options>([](Options& o) {
    o.declare({.name = "a.theta",
               .fallback = 0.5,
               .doc = "",
               .when = When{"a.gradient", "adjoint"} && When{"a.method", "theta"}});
    o.declare({.name = "a.gradient", .fallback = "backprop", .doc = "", .choices = {"backprop", "adjoint"}});
    o.declare({.name = "a.method", .fallback = "euler", .doc = "", .choices = {"euler", "cn", "theta"}});
    o.declare({.name = "a.length", .fallback = 256L, .doc = "", .when = When{"b.set", {"news", "topics"}}});
    o.declare({.name = "b.set", .fallback = "digits", .doc = "", .role = Role::data});
    o.declare({.name = "b.kind", .fallback = "pre", .doc = "", .role = Role::model});
    o.declare({.name = "b.halves",
               .fallback = "shared",
               .doc = "",
               .when = When{"b.kind", "post"},
               .role = Role::model});
    o.declare({.name = "c.file", .fallback = "", .doc = "", .role = Role::output});
    o.declare({.name = "c.limit", .fallback = 0.0, .doc = "", .minimum = 0, .role = Role::free});
    o.declare({.name = "c.allowed", .fallback = false, .doc = "", .role = Role::permission});
  });
}

std::string idle(const Settings& settings) {
  try {
    settings.refuse_idle_keys();
  } catch (const BadInput& e) {
    return e.what();
  }
  return "";
}

TEST(Settings, refuse_a_value_that_does_not_count_and_say_what_it_needs) {
  const auto said = [](const std::string& deck) { return idle(Settings(conditional(), deck, {})); };
  EXPECT_EQ(said("a.theta = 0.7"), "a.theta: needs a.gradient = adjoint");
  EXPECT_EQ(said("a.theta = 0.7\na.gradient = adjoint"), "a.theta: needs a.method = theta");
  EXPECT_EQ(said("a.theta = 0.7\na.gradient = adjoint\na.method = theta"), "");
  EXPECT_EQ(said("a.length = 30"), "a.length: needs b.set = news or topics");
  EXPECT_EQ(said("a.length = 30\nb.set = topics"), "");
  // Resolved settings contain all keys, so defaults are accepted.
  EXPECT_EQ(said("a.theta = 0.5\na.length = 256"), "");
  EXPECT_EQ(said(Settings(conditional(), "", {}).resolved()), "");
}

TEST(Settings, know_which_keys_count) {
  const Settings settings(conditional(), "b.set = news", {});
  EXPECT_TRUE(settings.counts("a.length"));
  EXPECT_TRUE(settings.counts("b.set"));
  EXPECT_FALSE(settings.counts("a.theta"));
  EXPECT_THROW(settings.counts("a.none"), std::logic_error);
}

TEST(Settings, leave_to_a_file_what_it_decides_unless_the_deck_gives_it) {
  Settings settings(conditional(), "b.halves = own", {});
  EXPECT_EQ(idle(settings), "b.halves: needs b.kind = post");
  for (const char* name : {"b.kind", "b.halves"}) settings.leave_to_file(name);
  EXPECT_EQ(idle(settings), "");  // the file may have post
  EXPECT_THAT(settings.resolved(), HasSubstr("[b]\nhalves = own\nset = digits\n"));
  Settings given(conditional(), "b.halves = own\nb.kind = none", {});
  given.leave_to_file("b.kind");
  EXPECT_EQ(idle(given), "b.halves: needs b.kind = post");
  EXPECT_THAT(given.resolved(), HasSubstr("kind = none\n"));
  EXPECT_THROW(given.leave_to_file("b.none"), std::logic_error);
}

TEST(Settings, are_changed_by_typed_values) {
  const Settings settings(conditional(), "a.length = 30\nc.limit = 2", {"petsc.ts_monitor"});
  const Settings changed =
      settings.with({{"a.theta", 0.25}, {"a.length", 40L}, {"b.set", std::string("news")}});
  EXPECT_EQ(changed.real("a.theta"), 0.25);
  EXPECT_EQ(changed.integer("a.length"), 40);
  EXPECT_EQ(changed.word("b.set"), "news");
  EXPECT_EQ(changed.real("c.limit"), 2);
  EXPECT_TRUE(changed.given("a.theta"));
  EXPECT_EQ(changed.petsc(), settings.petsc());
  EXPECT_FALSE(settings.given("a.theta"));  // as it was
  EXPECT_EQ(settings.integer("a.length"), 30);
  EXPECT_EQ(settings.options(), changed.options());
}

TEST(Settings, are_not_changed_to_what_an_option_does_not_allow) {
  const Settings settings(conditional(), "", {});
  EXPECT_THROW(settings.with({{"a.none", 1L}}), std::logic_error);
  EXPECT_THROW(settings.with({{"a.theta", 1L}}), std::logic_error);
  EXPECT_THROW(settings.with({{"a.length", 1.0}}), std::logic_error);
  try {
    settings.with({{"c.limit", -1.0}});
    ADD_FAILURE() << "accepted";
  } catch (const BadInput& e) {
    EXPECT_STREQ(e.what(), "c.limit = -1: must be >= 0");
  }
}

TEST(Settings, go_back_to_defaults) {
  const Settings settings(conditional(), "a.length = 30\na.theta = 0.25", {});
  const Settings changed = settings.without({"a.length"});
  EXPECT_EQ(changed.integer("a.length"), 256);
  EXPECT_FALSE(changed.given("a.length"));
  EXPECT_TRUE(changed.given("a.theta"));
  EXPECT_TRUE(settings.given("a.length"));
  EXPECT_THROW(settings.without({"a.none"}), std::logic_error);
}

// The roles decide what a continued run may change.
TEST(Settings, differ_in_what_a_continued_run_may_not_change) {
  const Settings then(conditional(), "a.theta = 0.1\nc.limit = 3", {}, "the checkpoint x.h5");
  const auto difference = [&](const std::string& deck) {
    return Settings(conditional(), deck, {}).difference(then);
  };
  EXPECT_EQ(difference("a.theta = 0.1"), "");
  EXPECT_EQ(difference("a.theta = 0.1\nc.limit = 7\nc.file = out.h5"), "");
  EXPECT_EQ(difference("a.theta = 0.2"), "a.theta = 0.2: the checkpoint x.h5 was made with 0.1");
  EXPECT_EQ(difference("a.theta = 0.1\nb.set = news"),
            "b.set = news: the checkpoint x.h5 was made with digits");
  EXPECT_EQ(difference("a.theta = 0.1\nb.kind = post"),
            "b.kind = post: the checkpoint x.h5 was made with pre");
  EXPECT_EQ(difference("a.theta = 0.1\npetsc.ts_type = rk"),
            "[petsc]: the checkpoint x.h5 was made with other options");
  const Settings watched(conditional(), "a.theta = 0.1", {"petsc.ts_monitor=:file"});  // changes no result
  EXPECT_EQ(watched.difference(then), "");
}

TEST(Settings, that_were_stored_leave_out_what_opens_files_and_what_the_user_allows) {
  const std::string text = "c.allowed = true\na.theta = 0.1\npetsc.ts_type = rk\npetsc.log_view = :file";
  const Settings stored(conditional(), text, {}, "x.h5", Origin::stored);
  EXPECT_EQ(stored.real("a.theta"), 0.1);
  EXPECT_FALSE(stored.flag("c.allowed"));
  EXPECT_EQ(stored.petsc(), (SolverOptions{{"ts_type", "rk"}}));
  EXPECT_EQ(stored.left_out(), std::vector<std::string>{"petsc.log_view"});
  EXPECT_THROW(Settings(conditional(), text, {}), BadInput);
  const Settings given(conditional(), "", {"c.allowed=true", "petsc.log_view=:file"}, "x.h5", Origin::stored);
  EXPECT_TRUE(given.flag("c.allowed"));
  EXPECT_EQ(given.petsc(), (SolverOptions{{"log_view", ":file"}}));
}

}  // namespace
}  // namespace fluxformer
