// Preloaded by tests into the program (LD_PRELOAD): holds it back at a moment of its work that a test names
// (tests/regression/held_back.py), so that a signal or a kill arrives there however fast or slow the machine is.
//
//   FLUXFORMER_HOLD_EVENT    open | rename | call
//   FLUXFORMER_HOLD_NAME     end of the path that is opened, or that a file gets; or the function: MPI_Init_thread
//   FLUXFORMER_HOLD_COUNT    which of these events of a process, from 1
//   FLUXFORMER_HOLD_FOLDER   The process waits just before the event, for as long as this folder holds a file `wait`. It makes a file
//                            `held.<process id>` when it begins to wait, and `woken.<process id>` when it has handled a signal there.
//   FLUXFORMER_HOLD_BY       process id of the test: nobody waits for one that is gone
//
// Only processes of an executable named fluxformer are held back: launchers and scripts may inherit the variables.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const char *event, *name, *folder;
static long left, test;
static volatile sig_atomic_t handled;  // signals
static void (*handlers[65])(int);      // of the program

__attribute__((constructor)) static void begin(void) {
  const char *count = getenv("FLUXFORMER_HOLD_COUNT"), *by = getenv("FLUXFORMER_HOLD_BY");
  event = getenv("FLUXFORMER_HOLD_EVENT");
  name = getenv("FLUXFORMER_HOLD_NAME");
  folder = getenv("FLUXFORMER_HOLD_FOLDER");
  if (!event || !name || !folder || !count || !by || strcmp(program_invocation_short_name, "fluxformer"))
    return;
  left = atol(count);
  test = atol(by);
}

/// A rank that waits for one that is held back polls; it calls this in between (mpi_yield_when_idle) and sleeps here.
int sched_yield(void) {
  const struct timespec pause = {0, 1000000};
  if (test) nanosleep(&pause, NULL);
  return 0;
}

static void mark(const char* what) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s.%d", folder, what, (int)getpid());
  const int file = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT, 0666);
  if (file >= 0) close(file);
}

static int ends_in(const char* path, const char* end) {
  const size_t all = strlen(path), last = strlen(end);
  return all >= last && !strcmp(path + all - last, end);
}

static void hold(const char* what, const char* path) {
  if (left <= 0 || !path || strcmp(event, what) || !ends_in(path, name)) return;
  if (__atomic_sub_fetch(&left, 1, __ATOMIC_SEQ_CST) != 0) return;
  const int before = errno;
  char wait[4096];
  snprintf(wait, sizeof wait, "%s/wait", folder);
  int seen = handled;
  for (int begun = 0; access(wait, F_OK) == 0 && kill((pid_t)test, 0) == 0; begun = 1) {
    if (!begun) mark("held");
    const struct timespec a_while = {0, 2000000};
    nanosleep(&a_while, NULL);
    if (seen != handled) mark("woken");
    seen = handled;
  }
  errno = before;
}

#define NEXT(function) ((__typeof__(&function))dlsym(RTLD_NEXT, #function))
#define MODE(flags)                        \
  int mode = 0;                            \
  if ((flags) & (O_CREAT | __O_TMPFILE)) { \
    va_list rest;                          \
    va_start(rest, flags);                 \
    mode = va_arg(rest, int);              \
    va_end(rest);                          \
  }

static void count_and_handle(int number) {
  ++handled;
  handlers[number](number);
}
int sigaction(int number, const struct sigaction* how, struct sigaction* before) {
  struct sigaction counted;
  if (left > 0 && how && !(how->sa_flags & SA_SIGINFO) && how->sa_handler != SIG_DFL &&
      how->sa_handler != SIG_IGN && how->sa_handler != count_and_handle) {
    handlers[number] = how->sa_handler;
    counted = *how;
    counted.sa_handler = count_and_handle;
    how = &counted;
  }
  return NEXT(sigaction)(number, how, before);
}
int open(const char* path, int flags, ...) {
  MODE(flags)
  hold("open", path);
  return NEXT(open)(path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  MODE(flags)
  hold("open", path);
  return NEXT(open64)(path, flags, mode);
}
FILE* fopen(const char* path, const char* how) {
  hold("open", path);
  return NEXT(fopen)(path, how);
}
FILE* fopen64(const char* path, const char* how) {
  hold("open", path);
  return NEXT(fopen64)(path, how);
}
int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  hold("call", "MPI_Init_thread");
  return NEXT(MPI_Init_thread)(argc, argv, required, provided);
}
int rename(const char* from, const char* to) {
  hold("rename", to);
  return NEXT(rename)(from, to);
}
