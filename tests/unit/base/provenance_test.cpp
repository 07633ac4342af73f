#include "base/provenance.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <ctime>
#include <map>

namespace fluxformer {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;

std::map<std::string, std::string> facts() {
  std::map<std::string, std::string> found;
  for (const auto& [name, value] : provenance()) EXPECT_TRUE(found.emplace(name, value).second) << name;
  return found;
}

TEST(Provenance, tells_revision_compiler_versions_time_and_host) {
  const auto found = facts();
  EXPECT_THAT(found.at("git_revision"), MatchesRegex("unknown|[0-9a-f]{40}([0-9a-f]{24})?"));
  EXPECT_THAT(found.at("git_dirty"), MatchesRegex("true|false|unknown"));
  EXPECT_THAT(found.at("compiler"), MatchesRegex("(g\\+\\+|clang) [0-9]+\\..*"));
  EXPECT_THAT(found.at("petsc"), MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+"));
  EXPECT_THAT(found.at("slepc"), MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+"));
  EXPECT_THAT(found.at("mpi"), HasSubstr("MPI"));
  EXPECT_FALSE(found.at("host").empty());
}

TEST(Provenance, gives_the_time_the_session_began_in_utc) {
  std::tm utc = {};
  const std::string created = facts().at("created");
  const char* rest = strptime(created.c_str(), "%Y-%m-%dT%H:%M:%SZ", &utc);
  ASSERT_NE(rest, nullptr) << created;
  EXPECT_STREQ(rest, "");
  const double age = std::difftime(std::time(nullptr), timegm(&utc));
  EXPECT_GE(age, 0);
  EXPECT_LT(age, 600);
}

TEST(Provenance, does_not_depend_on_the_time_zone) {
  const char* zone = std::getenv("TZ");
  const std::string before = zone == nullptr ? "" : zone;
  setenv("TZ", "AWAY+7", 1);
  tzset();
  note_run_facts(MPI_COMM_WORLD);
  std::tm utc = {};
  strptime(facts().at("created").c_str(), "%Y-%m-%dT%H:%M:%SZ", &utc);
  EXPECT_LT(std::abs(std::difftime(std::time(nullptr), timegm(&utc))), 600);
  if (zone == nullptr)
    unsetenv("TZ");
  else
    setenv("TZ", before.c_str(), 1);
  tzset();
}

TEST(Provenance, tells_of_petsc_options_that_came_past_the_deck) {
  setenv("PETSC_OPTIONS", "-log_view", 1);
  EXPECT_EQ(facts().at("petsc_options"), "-log_view");
  unsetenv("PETSC_OPTIONS");
  EXPECT_EQ(facts().count("petsc_options"), 0U);
}

}  // namespace
}  // namespace fluxformer
