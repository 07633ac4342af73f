#include "base/provenance.hpp"

#include <slepcsys.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>

#include "base/error.hpp"
#include "git_revision.hpp"

namespace fluxformer {

namespace {

struct RunFacts {
  char created[32] = "";
  char host[256] = "";
};

RunFacts run_facts;

std::string compiler() {
#if defined(__clang__)
  return "clang " __clang_version__;
#else
  return "g++ " __VERSION__;
#endif
}

/// Version of a library whose numbers a function like PetscGetVersionNumber tells.
std::string version(PetscErrorCode (*numbers)(PetscInt*, PetscInt*, PetscInt*, PetscInt*)) {
  PetscInt major = 0;
  PetscInt minor = 0;
  PetscInt subminor = 0;
  check(numbers(&major, &minor, &subminor, nullptr));
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(subminor);
}

// Open MPI: "Open MPI v4.1.4, package: ..."; the first line up to the comma is the name and version.
std::string mpi_version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  check_mpi(MPI_Get_library_version(text, &length));
  const std::string version(text);
  return version.substr(0, version.find_first_of(",\n"));
}

}  // namespace

void note_run_facts(MPI_Comm comm) {
  const std::time_t now = std::time(nullptr);
  std::tm utc = {};
  gmtime_r(&now, &utc);
  std::strftime(run_facts.created, sizeof run_facts.created, "%Y-%m-%dT%H:%M:%SZ", &utc);
  gethostname(run_facts.host, sizeof run_facts.host - 1);
  check_mpi(MPI_Bcast(&run_facts, sizeof run_facts, MPI_BYTE, 0, comm));
}

std::vector<std::pair<std::string, std::string>> provenance() {
  std::vector<std::pair<std::string, std::string>> facts = {
      {"git_revision", git_revision},
      {"git_dirty", git_dirty},
      {"compiler", compiler()},
      {"petsc", version(PetscGetVersionNumber)},
      {"slepc", version(SlepcGetVersionNumber)},
      {"mpi", mpi_version()},
      {"created", run_facts.created},
      {"host", run_facts.host},
  };
  // The only options of PETSc that do not come from the deck.
  if (const char* options = std::getenv("PETSC_OPTIONS")) facts.emplace_back("petsc_options", options);
  return facts;
}

}  // namespace fluxformer
