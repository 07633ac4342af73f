#include "base/session.hpp"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <petscsys.h>

#include <csignal>
#include <stdexcept>

#include "base/error.hpp"

namespace fluxformer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

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
  leave_if_asked_to_stop();
  EXPECT_EQ(stop_signal(MPI_COMM_SELF), 0);
  std::raise(SIGUSR1);
  EXPECT_EQ(stop_signal(MPI_COMM_SELF), SIGUSR1);
  std::raise(SIGTERM);
  EXPECT_EQ(stop_signal(MPI_COMM_SELF), SIGTERM);
  try {
    leave_if_asked_to_stop();
    ADD_FAILURE() << "it goes on";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::stopped);
    EXPECT_THAT(e.what(), HasSubstr("stopped by signal 15 before the first step"));
  }
}

}  // namespace
}  // namespace fluxformer
