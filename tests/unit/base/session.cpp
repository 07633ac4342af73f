#include "base/session.hpp"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <petscsys.h>

#include <cmath>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <map>
#include <stdexcept>

#include "base/error.hpp"
#include "base/run_facts.hpp"

namespace fluxformer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::StartsWith;

std::map<std::string, std::string> facts() {
  std::map<std::string, std::string> found;
  for (const auto& [name, value] : provenance()) EXPECT_TRUE(found.emplace(name, value).second) << name;
  return found;
}

TEST(Session, is_one_per_process) {
  int argc = 0;
  char** argv = nullptr;
  EXPECT_THROW(Session(argc, argv), std::logic_error);
}

TEST(Session, leaves_termination_and_crashes_to_us) {
  for (const int number : {SIGTERM, SIGSEGV, SIGFPE}) {
    struct sigaction action = {};
    sigaction(number, nullptr, &action);
    // Open MPI may watch for crashes; PETSc's handler lives in libpetsc.
    Dl_info owner = {};
    const bool found = dladdr(reinterpret_cast<void*>(action.sa_handler), &owner) != 0;
    EXPECT_THAT(found ? owner.dli_fname : "", testing::Not(HasSubstr("petsc"))) << number;
  }
}

TEST(Provenance, tells_revision_compiler_versions_time_and_host) {
  const auto found = facts();
  EXPECT_THAT(found.at("git_revision"), MatchesRegex("unknown|[0-9a-f]{40}([0-9a-f]{24})?"));
  EXPECT_THAT(found.at("git_dirty"), MatchesRegex("true|false|unknown"));
  EXPECT_THAT(found.at("compiler"), MatchesRegex("(g\\+\\+|clang) [0-9]+\\..*"));
  EXPECT_THAT(found.at("petsc"), MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+"));
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

TEST(PetscOptions, reach_petsc_and_the_unused_ones_are_known) {
  const std::vector<std::pair<std::string, std::string>> options = {
      {"fluxformer_number", "7"}, {"fluxformer_flag", ""}, {"fluxformer_ignored", "1"}};
  set_petsc_options(options);
  PetscInt number = 0;
  PetscBool flag = PETSC_FALSE;
  check(PetscOptionsGetInt(nullptr, nullptr, "-fluxformer_number", &number, nullptr));
  check(PetscOptionsGetBool(nullptr, nullptr, "-fluxformer_flag", &flag, nullptr));
  EXPECT_EQ(number, 7);
  EXPECT_EQ(flag, PETSC_TRUE);
  EXPECT_THAT(unused_petsc_options(options), ElementsAre("fluxformer_ignored"));
  for (const auto& [name, value] : options) check(PetscOptionsClearValue(nullptr, ("-" + name).c_str()));
}

TEST(PetscOptions, with_a_dash_or_a_blank_are_refused_and_none_is_set) {
  for (const std::string name : {"-ts_type", " ts_type", "ts type", ""}) {
    EXPECT_THROW(set_petsc_options({{"fluxformer_first", "1"}, {name, "1"}}), BadInput) << name;
    PetscBool set = PETSC_TRUE;
    check(PetscOptionsHasName(nullptr, nullptr, "-fluxformer_first", &set));
    EXPECT_EQ(set, PETSC_FALSE);
  }
}

TEST(StopSignals, are_remembered_and_kill_nobody) {
  catch_stop_signals();
  EXPECT_EQ(stop_signal(MPI_COMM_SELF), 0);
  std::raise(SIGUSR1);
  EXPECT_EQ(stop_signal(MPI_COMM_SELF), SIGUSR1);
  std::raise(SIGTERM);
  EXPECT_EQ(stop_signal(MPI_COMM_SELF), SIGTERM);
}

}  // namespace
}  // namespace fluxformer
