#pragma once

// Failures that every rank agrees on, and the bridge from PETSc's and MPI's return codes to them.

#include <mpi.h>
#include <petscsystypes.h>

#include <exception>
#include <source_location>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

namespace fluxformer {

/// How the process ends; the numbers are part of the command line's contract.
enum class ExitCode : int { done = 0, failure = 1, bad_input = 2, numerical = 3, stopped = 4 };

/// A failure with the exit code it leads to. Thrown by every rank of a communicator or by none:
/// a failure that only one rank can see goes through `agree` or `collectively`.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& what) : std::runtime_error(what), code_(code) {}
  ExitCode code() const noexcept { return code_; }

 private:
  ExitCode code_;
};

/// The user can mend it: the message names the key or file, the value, and what is allowed.
class BadInput : public Error {
 public:
  explicit BadInput(const std::string& what) : Error(ExitCode::bad_input, what) {}
};

/// Non-finite state, growth past the limit, no convergence.
class NumericalFailure : public Error {
 public:
  explicit NumericalFailure(const std::string& what) : Error(ExitCode::numerical, what) {}
};

/// Collective over `comm`: returns if `ok` on every rank, else every rank throws the same `Error`, with the
/// message and code of the lowest rank that was not ok.
void agree(MPI_Comm comm, bool ok, const std::string& why = {}, ExitCode code = ExitCode::bad_input);

/// Collective over `comm`: runs `work` (which must not communicate over `comm`) on this rank; if it threw on
/// any rank, every rank throws what the lowest one threw.
template <class Work>
auto collectively(MPI_Comm comm, Work&& work) {
  bool ok = true;
  std::string why;
  ExitCode code = ExitCode::failure;
  const auto attempt = [&](auto&& body) {
    try {
      body();
    } catch (const Error& e) {
      ok = false, why = e.what(), code = e.code();
    } catch (const std::exception& e) {
      ok = false, why = e.what();
    }
  };
  if constexpr (std::is_void_v<decltype(work())>) {
    attempt([&] { work(); });
    agree(comm, ok, why, code);
  } else {
    decltype(work()) result{};
    attempt([&] { result = work(); });
    agree(comm, ok, why, code);
    return result;
  }
}

/// From now on PETSc keeps the text of an error for `check` instead of printing it. Called by `Session`.
void return_petsc_errors();

/// Throws `Error` with PETSc's text and the place of the call if `code` is not 0 (a `NumericalFailure` where
/// PETSc says that a solver did not converge or met a non-finite number). If a guarded callback
/// (below) threw inside the call, that exception is thrown instead. Not collective: PETSc reports most
/// errors on every rank; those it does not are a reason to abort, not to go on.
void check(PetscErrorCode code, std::source_location where = std::source_location::current());

/// The same for MPI calls (our communicators return errors rather than abort).
void check_mpi(int code, std::source_location where = std::source_location::current());

/// Keeps the exception a callback threw until `check` rethrows it; returns the code for PETSc.
PetscErrorCode keep_for_check(std::exception_ptr thrown) noexcept;

/// The one line of every PETSc callback: exceptions never cross C.
template <class Body>
PetscErrorCode guarded(Body&& body) noexcept {
  try {
    body();
    return 0;
  } catch (...) {
    return keep_for_check(std::current_exception());
  }
}

}  // namespace fluxformer
