// Preloaded by tests into the program (LD_PRELOAD): HDF5 crashes on a file, as it does on some damaged ones, whatever its version.
//
//   FLUXFORMER_CRASH_FILE    end of the path of the file in which a group or dataset is opened
//   FLUXFORMER_CRASH_SIGNAL  number of the signal by which the process then dies, after a few words of its own; 0: it runs out of its stack;
//                            -1: it sleeps; -2: it never ends
//
// With FLUXFORMER_NO_FORK, fork() ends the program named fluxformer with exit code 99.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <hdf5.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int deeper(volatile char* above) {
  volatile char here[4096];
  here[0] = *above;
  return deeper(here) + here[0];
}

static void crash_in(hid_t place) {
  const char *end = getenv("FLUXFORMER_CRASH_FILE"), *number = getenv("FLUXFORMER_CRASH_SIGNAL");
  char path[4096] = "", zero = 0;
  H5Fget_name(place, path, sizeof path);
  if (end && number && strlen(path) >= strlen(end) && !strcmp(path + strlen(path) - strlen(end), end)) {
    if (write(2, "corrupted\n", 10) < 0 || atoi(number) == 0) deeper(&zero);
    while (atoi(number) == -1) pause();
    while (atoi(number) == -2) continue;
    raise(atoi(number));
  }
}

hid_t H5Gopen2(hid_t place, const char* name, hid_t access) {
  crash_in(place);
  return ((__typeof__(&H5Gopen2))dlsym(RTLD_NEXT, "H5Gopen2"))(place, name, access);
}

hid_t H5Dopen2(hid_t place, const char* name, hid_t access) {
  crash_in(place);
  return ((__typeof__(&H5Dopen2))dlsym(RTLD_NEXT, "H5Dopen2"))(place, name, access);
}

pid_t fork(void) {
  if (getenv("FLUXFORMER_NO_FORK") && !strcmp(program_invocation_short_name, "fluxformer")) _exit(99);
  return ((__typeof__(&fork))dlsym(RTLD_NEXT, "fork"))();
}
