#pragma once

// Errors that all ranks throw together, and PETSc's and MPI's return codes as such errors.

#include <mpi.h>
#include <petscsystypes.h>

#include <exception>
#include <source_location>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

namespace fluxformer {

/// Exit codes of the program; the numbers are part of its interface.
enum class ExitCode : int { done = 0, failure = 1, bad_input = 2, numerical = 3, stopped = 4 };

/// Error with the exit code that it leads to. Thrown by every rank of a communicator or by none: an error
/// that only one rank can see goes through `agree` or `collectively`.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& what) : std::runtime_error(what), code_(code) {}
  ExitCode code() const noexcept { return code_; }
  /// True if `agree` has thrown it on all ranks of `comm`.
  bool agreed_over(MPI_Comm comm) const noexcept { return agreed_over_ == comm; }

 private:
  friend void agree(MPI_Comm comm, bool ok, const std::string& why, ExitCode code);
  ExitCode code_;
  MPI_Comm agreed_over_ = MPI_COMM_NULL;
};

/// User error: names the key or file, its value and what is allowed.
class BadInput : public Error {
 public:
  explicit BadInput(const std::string& what) : Error(ExitCode::bad_input, what) {}
};

/// Non-finite state, growth beyond the limit, or no convergence.
class NumericalFailure : public Error {
 public:
  explicit NumericalFailure(const std::string& what) : Error(ExitCode::numerical, what) {}
};

/// Thrown by `check` where PETSc cannot do what it was asked for, and neither the numbers nor the system
/// (memory, files) are the reason: a fault of this program, or of PETSc options that the user chose.
class PetscFailure : public Error {
 public:
  explicit PetscFailure(const std::string& what) : Error(ExitCode::failure, what) {}
};

/// Message for lack of memory. std::bad_alloc ends the program on the rank that throws it, and so the job: it is
/// never agreed on. What it would unwind may be half changed (Eigen 3.4 frees a matrix twice whose resizing
/// fails), and the other ranks may wait for this one anywhere, in MPI-IO, too.
inline constexpr const char* out_of_memory = "out of memory; take smaller sizes or more machines";

/// Collective over `comm`: returns if `ok` on every rank; otherwise every rank throws the same `Error`, with
/// the message and code of the lowest rank that was not ok.
void agree(MPI_Comm comm, bool ok, const std::string& why = {}, ExitCode code = ExitCode::bad_input);

/// The first failure of this rank in a work that others take part in. The rank keeps it, goes on with the
/// messages that the others wait for, and all ranks throw at the end.
class RankFailure {
 public:
  /// Runs `work`, which must not communicate with the ranks of `share`, and keeps what it throws, but for
  /// std::bad_alloc; nothing is run once something has failed. Returns true if nothing has failed. Not
  /// collective.
  template <class Work>
  bool attempt(Work&& work) {
    return ok_ && attempt_anyway(work);
  }
  /// Runs `work` as `attempt` does, but after a failure, too: others may wait for what it sends.
  template <class Work>
  bool attempt_anyway(Work&& work) {
    try {
      work();
    } catch (const Error& e) {
      keep(e.what(), e.code());
    } catch (const std::runtime_error& e) {
      keep(e.what(), ExitCode::failure);
    } catch (const std::logic_error& e) {
      keep(e.what(), ExitCode::failure);
    }
    return ok_;
  }
  bool failed() const { return !ok_; }
  /// Keeps a failure, if it is the first. Not collective.
  void keep(const std::string& why, ExitCode code) {
    if (std::exchange(ok_, false)) why_ = why, code_ = code;
  }
  /// Collective over `comm`: returns if nothing has failed on any rank; otherwise every rank throws what the
  /// lowest of them kept.
  void share(MPI_Comm comm) const { agree(comm, ok_, why_, code_); }
  /// Throws what was kept on this rank alone, whose caller shares it. Not collective.
  void rethrow() const {
    if (!ok_) share(MPI_COMM_SELF);
  }

 private:
  bool ok_ = true;
  std::string why_;
  ExitCode code_ = ExitCode::failure;
};

/// Collective over `comm`: runs `work` (which must not communicate over `comm`) on every rank; if it throws
/// on any, every rank throws what the lowest of them threw.
template <class Work>
auto collectively(MPI_Comm comm, Work&& work) {
  RankFailure failure;
  if constexpr (std::is_void_v<decltype(work())>) {
    failure.attempt(work);
    failure.share(comm);
  } else {
    decltype(work()) result{};
    failure.attempt([&] { result = work(); });
    failure.share(comm);
    return result;
  }
}

/// Collective over `comm`: runs `work`, which communicates over `comm` in steps that each begin with `agree` or
/// `collectively`. A rank that throws by itself between two steps takes part in the agreement that the others
/// come to next, so that they throw, too: all ranks throw or none.
template <class Work>
void all_or_none(MPI_Comm comm, Work&& work) {
  RankFailure failure;
  std::exception_ptr agreed;
  failure.attempt([&] {
    try {
      work();
    } catch (const Error& e) {
      if (!e.agreed_over(comm)) throw;
      agreed = std::current_exception();
    }
  });
  if (agreed) std::rethrow_exception(agreed);
  failure.share(comm);
}

/// Makes PETSc keep the text of an error for `check` instead of printing it. Called by `Session`.
void return_petsc_errors();

/// Throws `Error` with PETSc's text and the place of the call if `code` is not 0: a `NumericalFailure` if a
/// solver did not converge or met a non-finite number, or the exception that a guarded callback (below) threw
/// inside the call; std::bad_alloc if memory is missing. Not collective: PETSc reports most errors on every
/// rank; after one on some ranks only, the run has to end.
void check(PetscErrorCode code, std::source_location where = std::source_location::current());

/// Throws `Error` with MPI's text and the place of the call if `code` is an error of MPI (whose communicators
/// return their errors here).
void check_mpi(int code, std::source_location where = std::source_location::current());

/// Stores the exception of a callback until `check` rethrows it; returns the code for PETSc.
PetscErrorCode keep_for_check(std::exception_ptr thrown) noexcept;

/// Runs the body of a PETSc callback and keeps what it throws for `check`, but for std::bad_alloc. That ends the
/// program where it is thrown (`out_of_memory`), as long as nothing above catches it: neither a handler nor a
/// function that is noexcept, to which it would be unwound.
template <class Body>
PetscErrorCode guarded(Body&& body) {
  try {
    body();
    return 0;
  } catch (const std::runtime_error&) {
    return keep_for_check(std::current_exception());
  } catch (const std::logic_error&) {
    return keep_for_check(std::current_exception());
  }
}

}  // namespace fluxformer
