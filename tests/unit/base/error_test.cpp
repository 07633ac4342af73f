#include "base/error.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <petscsnes.h>
#include <petscsys.h>

#include <functional>
#include <new>

#include "base/handle.hpp"
#include "base/mpi.hpp"

namespace fluxformer {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// What `work` throws as an Error: its text; its code goes to `code`.
std::string thrown_by(const std::function<void()>& work, ExitCode& code) {
  try {
    work();
  } catch (const Error& e) {
    code = e.code();
    return e.what();
  }
  return "(nothing)";
}

void make_vector_of_two_minds() {
  VecHandle v;
  check(VecCreate(PETSC_COMM_SELF, v.out()));
  check(VecSetSizes(v, 3, 2));
}

TEST(Check, shows_what_petsc_said_and_where_it_was_called_and_prints_nothing) {
  ExitCode code = ExitCode::done;
  testing::internal::CaptureStderr();
  testing::internal::CaptureStdout();
  const std::string what = thrown_by(make_vector_of_two_minds, code);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(code, ExitCode::failure);
  EXPECT_THAT(what, AllOf(HasSubstr("cannot be larger than global size"), HasSubstr("VecSetSizes"),
                          HasSubstr("called at error_test.cpp:"), Not(HasSubstr("/"))));
}

// The functions up the call stack report the error too, without a text of their own.
TEST(Check, shows_the_innermost_text_of_a_nested_error) {
  check(PetscOptionsSetValue(nullptr, "-vec_type", "nonsense"));
  VecHandle v;
  check(VecCreate(PETSC_COMM_SELF, v.out()));
  ExitCode code = ExitCode::done;
  EXPECT_THAT(thrown_by([&] { check(VecSetFromOptions(v)); }, code),
              AllOf(HasSubstr("nonsense"), HasSubstr("(in VecSetType)")));
  check(PetscOptionsClearValue(nullptr, "-vec_type"));
}

TEST(Check, does_not_lend_the_text_of_one_error_to_another) {
  ExitCode code = ExitCode::done;
  thrown_by(make_vector_of_two_minds, code);
  EXPECT_THAT(thrown_by([] { check(PETSC_ERR_ARG_INCOMP); }, code), Not(HasSubstr("VecSetSizes")));
  VecHandle v;
  check(VecCreate(PETSC_COMM_SELF, v.out()));
  EXPECT_NE(VecSetSizes(v, 3, 2), 0);  // never checked
  EXPECT_THAT(thrown_by([] { check(PETSC_ERR_SYS); }, code), Not(HasSubstr("VecSetSizes")));
}

TEST(Check, knows_numerical_failures_from_others) {
  ExitCode code = ExitCode::done;
  EXPECT_NE(thrown_by([] { check(PETSC_ERR_NOT_CONVERGED); }, code), "(nothing)");
  EXPECT_EQ(code, ExitCode::numerical);
  EXPECT_NE(thrown_by([] { check(PETSC_ERR_FP); }, code), "(nothing)");
  EXPECT_EQ(code, ExitCode::numerical);
  EXPECT_NE(thrown_by([] { check(PETSC_ERR_SYS); }, code), "(nothing)");
  EXPECT_EQ(code, ExitCode::failure);
  EXPECT_THROW(check(PETSC_ERR_CONV_FAILED), NumericalFailure);
}

TEST(Check, missing_memory_is_that_of_this_rank_alone) {
  EXPECT_THROW(check(PETSC_ERR_MEM), std::bad_alloc);
}

TEST(Check, lets_success_pass) {
  EXPECT_NO_THROW(check(0));
}

struct Nonlinear {
  SNESHandle solver;
  VecHandle unknown;

  explicit Nonlinear(PetscErrorCode (*residual)(SNES, Vec, Vec, void*)) {
    check(VecCreateSeq(PETSC_COMM_SELF, 1, unknown.out()));
    check(SNESCreate(PETSC_COMM_SELF, solver.out()));
    check(SNESSetType(solver, SNESNRICHARDSON));
    check(SNESSetFunction(solver, nullptr, residual, nullptr));
  }
  void solve() { check(SNESSolve(solver, nullptr, unknown)); }
};

PetscErrorCode throwing_residual(SNES, Vec, Vec, void*) {
  return guarded([] { throw NumericalFailure("the state is not finite at t = 3"); });
}

// A solver inside a callback of another: the innermost exception is thrown.
PetscErrorCode nested_residual(SNES, Vec, Vec, void*) {
  return guarded([] { Nonlinear(throwing_residual).solve(); });
}

TEST(Guarded, the_exception_of_a_callback_crosses_petsc_unchanged) {
  ExitCode code = ExitCode::done;
  EXPECT_EQ(thrown_by([] { Nonlinear(throwing_residual).solve(); }, code),
            "the state is not finite at t = 3");
  EXPECT_EQ(code, ExitCode::numerical);
  EXPECT_EQ(thrown_by([] { Nonlinear(nested_residual).solve(); }, code), "the state is not finite at t = 3");
  EXPECT_THROW(check(PETSC_ERR_SYS), Error);  // the next error is independent
}

TEST(Guarded, an_exception_that_petsc_coped_with_is_not_blamed_on_a_later_error) {
  EXPECT_NE(guarded([] { throw NumericalFailure("old"); }), 0);
  check(0);
  ExitCode code = ExitCode::done;
  EXPECT_THAT(thrown_by([] { check(PETSC_ERR_SYS); }, code), Not(HasSubstr("old")));
}

TEST(Guarded, keeps_errors_of_the_standard_library) {
  EXPECT_NE(guarded([] { throw std::out_of_range("index"); }), 0);
  EXPECT_THROW(check(PETSC_ERR_USER), std::out_of_range);
  EXPECT_NE(guarded([] { throw std::runtime_error("library"); }), 0);
  EXPECT_THROW(check(PETSC_ERR_USER), std::runtime_error);
}

// It is neither kept nor unwound to a function that is noexcept: a destructor on the way could wait for other ranks.
TEST(Guarded, lets_missing_memory_pass) {
  EXPECT_THROW(guarded([] { throw std::bad_alloc(); }), std::bad_alloc);
  ExitCode code = ExitCode::done;
  EXPECT_THAT(thrown_by([] { check(PETSC_ERR_SYS); }, code), Not(HasSubstr("bad_alloc")));
}

TEST(Guarded, says_nothing_is_wrong_when_nothing_is) {
  bool ran = false;
  EXPECT_EQ(guarded([&] { ran = true; }), 0);
  EXPECT_TRUE(ran);
}

TEST(CheckMpi, errors_of_the_world_and_of_our_communicators_come_back_as_exceptions) {
  ExitCode code = ExitCode::done;
  int value = 0;
  const auto send_to_nobody = [&](MPI_Comm comm) {
    return thrown_by([&] { check_mpi(MPI_Send(&value, 1, MPI_INT, 1'000'000, 0, comm)); }, code);
  };
  EXPECT_THAT(send_to_nobody(MPI_COMM_WORLD),
              AllOf(HasSubstr("rank"), HasSubstr("called at error_test.cpp:")));
  EXPECT_EQ(code, ExitCode::failure);
  MPI_Comm copy = MPI_COMM_NULL;
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
  check_mpi(MPI_Comm_set_errhandler(copy, MPI_ERRORS_ARE_FATAL));
  const Communicator ours(copy);
  EXPECT_THAT(send_to_nobody(ours), HasSubstr("rank"));
}

int destroyed = 0;
PetscErrorCode count_and_destroy(int** object) {
  ++destroyed;
  *object = nullptr;
  return 0;
}
using Counted = Handle<int*, count_and_destroy>;

TEST(Handle, destroys_once_what_it_owns) {
  int object = 0;
  destroyed = 0;
  {
    Counted first(&object);
    Counted second(std::move(first));
    EXPECT_EQ(first.get(), nullptr);  // NOLINT(bugprone-use-after-move): emptied by contract
    EXPECT_EQ(second.get(), &object);
    first = std::move(second);
    EXPECT_EQ(first.get(), &object);
    EXPECT_EQ(destroyed, 0);
  }
  EXPECT_EQ(destroyed, 1);
}

TEST(Handle, destroys_the_old_object_before_it_takes_a_new_one) {
  int object = 0;
  int other = 0;
  destroyed = 0;
  Counted handle(&object);
  *handle.out() = &other;
  EXPECT_EQ(destroyed, 1);
  EXPECT_EQ(handle.get(), &other);
}

int freed = 0;
int count_free(MPI_Comm, int, void*, void*) {
  ++freed;
  return MPI_SUCCESS;
}

// MPI calls the delete function of an attribute when the communicator is freed.
TEST(Communicator, is_freed_once_by_its_last_owner) {
  int key = MPI_KEYVAL_INVALID;
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, count_free, &key, nullptr);
  MPI_Comm copy = MPI_COMM_NULL;
  check_mpi(MPI_Comm_dup(MPI_COMM_SELF, &copy));
  check_mpi(MPI_Comm_set_attr(copy, key, nullptr));
  freed = 0;
  {
    Communicator first(copy);
    Communicator second(std::move(first));
    first = std::move(second);
    EXPECT_EQ(mpi::size(first), 1);
    EXPECT_EQ(mpi::rank(first), 0);
    EXPECT_EQ(freed, 0);
  }
  EXPECT_EQ(freed, 1);
  MPI_Comm_free_keyval(&key);
}

}  // namespace
}  // namespace fluxformer
