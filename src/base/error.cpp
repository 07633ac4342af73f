#include "base/error.hpp"

#include <petscsys.h>

#include <string_view>
#include <utility>

#include "base/phases.hpp"

namespace fluxformer {

namespace {

// PETSc's last message and the exception of a callback, until `check` reports them. PETSc is called from one
// thread only.
struct Pending {
  PetscErrorCode code = 0;
  std::string text;
  std::exception_ptr thrown;
};

Pending& pending() {
  static Pending instance;
  return instance;
}

std::string place(const std::source_location& where) {
  const std::string_view file = where.file_name();
  const auto slash = file.rfind('/');
  return std::string(slash == std::string_view::npos ? file : file.substr(slash + 1)) + ":" +
         std::to_string(where.line());
}

[[noreturn]] void throw_of_petsc(PetscErrorCode code, const std::string& what) {
  switch (code) {
    case PETSC_ERR_FP:
    case PETSC_ERR_CONV_FAILED:
    case PETSC_ERR_NOT_CONVERGED:
    case PETSC_ERR_MAT_LU_ZRPVT:
    case PETSC_ERR_MAT_CH_ZRPVT:
      throw NumericalFailure(what);
    case PETSC_ERR_ARG_UNKNOWN_TYPE:  // only the user names types that we do not know
      throw BadInput(what);
    case PETSC_ERR_MEM:  // as for our own memory: it may be missing on this rank alone
      throw std::bad_alloc();
    case PETSC_ERR_SYS:
    case PETSC_ERR_FILE_OPEN:
    case PETSC_ERR_FILE_READ:
    case PETSC_ERR_FILE_WRITE:
    case PETSC_ERR_MPI:
      throw Error(ExitCode::failure, what);
    default:
      throw PetscFailure(what);
  }
}

// Only the first report has the message; the others are PETSc's call stack on the way out.
PetscErrorCode keep_text(MPI_Comm, int, const char* function, const char*, PetscErrorCode code,
                         PetscErrorType type, const char* message, void*) {
  if (type == PETSC_ERROR_INITIAL) {
    pending().code = code;
    pending().text = message == nullptr ? "" : message;
    if (function != nullptr) pending().text += std::string(" (in ") + function + ")";
  }
  return code;
}

}  // namespace

void agree(MPI_Comm comm, bool ok, const std::string& why, ExitCode code) {
  int rank = 0, ranks = 1;
  check_mpi(MPI_Comm_rank(comm, &rank));
  check_mpi(MPI_Comm_size(comm, &ranks));
  const InPhase phase(Phase::reduction);
  int speaker = ok ? ranks : rank;
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &speaker, 1, MPI_INT, MPI_MIN, comm));
  if (ranks > 1) count_message(sizeof speaker);
  if (speaker == ranks) return;

  int head[2] = {static_cast<int>(code), static_cast<int>(why.size())};
  check_mpi(MPI_Bcast(head, 2, MPI_INT, speaker, comm));
  std::string text = rank == speaker ? why : std::string(head[1], ' ');
  check_mpi(MPI_Bcast(text.data(), head[1], MPI_CHAR, speaker, comm));
  const auto agreed = [&](auto error) {
    error.agreed_over_ = comm;
    return error;
  };
  switch (const auto known = static_cast<ExitCode>(head[0]); known) {
    case ExitCode::bad_input:
      throw agreed(BadInput(text));
    case ExitCode::numerical:
      throw agreed(NumericalFailure(text));
    default:
      throw agreed(Error(known, text));
  }
}

void check(PetscErrorCode code, std::source_location where) {
  Pending& kept = pending();
  if (code == 0) {
    // PETSc handled the error of a callback, as a rejected step: it is no longer ours.
    kept.thrown = nullptr;
    return;
  }
  if (kept.thrown) std::rethrow_exception(std::exchange(kept.thrown, nullptr));

  const char* meaning = nullptr;
  PetscErrorMessage(code, &meaning, nullptr);
  std::string what = "PETSc: ";
  what += meaning == nullptr ? "error " + std::to_string(code) : meaning;
  if (kept.code == code && !kept.text.empty()) what += ": " + kept.text;
  what += ", called at " + place(where);
  kept.code = 0;
  kept.text.clear();
  throw_of_petsc(code, what);
}

void check_mpi(int code, std::source_location where) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw Error(ExitCode::failure, "MPI: " + std::string(text, length) + ", called at " + place(where));
}

PetscErrorCode keep_for_check(std::exception_ptr thrown) noexcept {
  pending().thrown = std::move(thrown);
  return PETSC_ERR_USER;
}

void return_petsc_errors() {
  check(PetscPushErrorHandler(keep_text, nullptr));
}

}  // namespace fluxformer
