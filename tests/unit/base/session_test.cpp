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

TEST(Session, listens_to_the_first_interruption_only) {
  struct sigaction action = {};
  sigaction(SIGINT, nullptr, &action);
  if (action.sa_handler == SIG_IGN) GTEST_SKIP() << "SIGINT was ignored when this test began";
  EXPECT_NE(action.sa_flags & SA_RESETHAND, 0);
  EXPECT_NE(action.sa_handler, SIG_DFL);
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
