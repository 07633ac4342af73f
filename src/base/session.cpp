#include "base/session.hpp"

#include <dlfcn.h>
#include <slepcsys.h>
#include <sys/uio.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <iterator>
#include <stdexcept>

#include "base/error.hpp"
#include "base/phases.hpp"
#include "base/provenance.hpp"

namespace fluxformer {

namespace {

bool session_exists = false;
bool mpi_is_ours = false;
volatile std::sig_atomic_t received_signal = 0;

void remember_signal(int number) {
  received_signal = number;
}

// Before MPI is started: a scheduler may send its signal at any time. Ctrl-C asks as politely, but only once:
// the second one ends the process. Where it is ignored (nohup, the background of a script) it stays ignored.
// Beyond RLIMIT_FSIZE a write then fails with EFBIG instead of ending the process.
void catch_signals() {
  struct sigaction action = {};
  action.sa_handler = remember_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (const int number : {SIGUSR1, SIGTERM}) sigaction(number, &action, nullptr);
  struct sigaction before = {};
  sigaction(SIGINT, nullptr, &before);
  if (before.sa_handler != SIG_IGN) {
    action.sa_flags |= SA_RESETHAND;
    sigaction(SIGINT, &action, nullptr);
  }
  action.sa_flags = 0;
  action.sa_handler = SIG_IGN;
  sigaction(SIGXFSZ, &action, nullptr);
}

// One BLAS thread per rank unless the environment says otherwise. OpenBLAS reads the environment when it is
// loaded, before main, so it takes a call; this library does not link it, hence dlsym.
void use_one_blas_thread() {
  for (const char* name : {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "BLIS_NUM_THREADS"})
    if (std::getenv(name) != nullptr) return;
  setenv("OMP_NUM_THREADS", "1", 0);
  if (void* found = dlsym(RTLD_DEFAULT, "openblas_set_num_threads"))
    reinterpret_cast<void (*)(int)>(found)(1);
}

// Nothing here uses the file pointers that ranks may share. The component that Open MPI prefers for them
// overflows a buffer when a file with a path of 256 letters is opened. Other MPIs do not read this.
void use_no_shared_file_pointers() {
  setenv("OMPI_MCA_sharedfp", "individual", 0);
}

// On one node Open MPI lets a rank copy large messages out of the memory of another. Where the system refuses
// that, as many containers do, Open MPI 4 prints a line for each message and copies in another way (Open MPI 5
// says nothing). Asked here of our own memory, which the system otherwise lets us read. Other MPIs do not read
// this.
void use_no_refused_copies() {
  char from = 'x', to = 0;
  const iovec here{&to, 1}, there{&from, 1};
  if (process_vm_readv(getpid(), &here, 1, &there, 1, 0) != 1)
    setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 0);
}

// PETSc's options come from the deck alone: no .petscrc (an argument switches it off; PETSc keeps a pointer
// to the arguments, hence static). No signal handler of PETSc: SIGTERM asks us to stop, and crashes should
// leave a core file. The command line reports unused options. SLEPc initialises PETSc with it.
void initialise_petsc() {
  static char name[] = "fluxformer";
  static char no_file[] = "-skip_petscrc";
  static char no_handler[] = "-no_signal_handler";
  static char not_left[] = "-options_left";
  static char no[] = "no";
  static char* words[] = {name, no_file, no_handler, not_left, no, nullptr};
  static int count = std::size(words) - 1;
  static char** arguments = words;
  check(SlepcInitialize(&count, &arguments, nullptr, nullptr));
}

}  // namespace

Session::Session(int& argc, char**& argv) {
  if (session_exists) throw std::logic_error("Session: one per process");
  session_exists = true;
  catch_signals();
  use_one_blas_thread();
  use_no_shared_file_pointers();
  use_no_refused_copies();

  int initialised = 0;
  MPI_Initialized(&initialised);
  if (initialised == 0) {
    int provided = 0;
    check_mpi(MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided));
    mpi_is_ours = true;
  }
  check_mpi(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
  check_mpi(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));

  initialise_petsc();
  return_petsc_errors();
  check(register_log_events());
  note_run_facts(MPI_COMM_WORLD);
}

Session::~Session() {
  PetscPopErrorHandler();
  SlepcFinalize();
  if (mpi_is_ours) MPI_Finalize();
}

int stop_signal(MPI_Comm comm) {
  int number = received_signal;
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &number, 1, MPI_INT, MPI_MAX, comm));
  return number;
}

void leave_if_asked_to_stop() {
  if (const int number = received_signal; number != 0)
    throw Error(
        ExitCode::stopped,
        "stopped by signal " + std::to_string(number) +
            " before the first step; nothing was written: start the run again with the same settings");
}

}  // namespace fluxformer
