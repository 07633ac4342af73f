// Preloaded by tests into the program (LD_PRELOAD): one allocation of one rank fails, as where memory runs out.
//
//   FLUXFORMER_NO_MEMORY_RANK    rank in MPI_COMM_WORLD
//   FLUXFORMER_NO_MEMORY_AT      which of its allocations fails, from 1; 0: none
//   FLUXFORMER_NO_MEMORY_LEAST   only allocations of at least so many bytes count
//   FLUXFORMER_NO_MEMORY_FOLDER  gets a file `count` with the number of allocations at the end of the process, and a file `failed` when
//                                one has failed
//
// Only allocations by the program itself and by the C++ library count, not those of MPI, PETSc or HDF5, and from main on, not those of static
// objects before it.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern void* __libc_malloc(size_t size);

static const char* folder;
static long at = -1, count;
static int (*their_main)(int, char**, char**), started;
static size_t least;
static struct { ElfW(Addr) begin, end; } ours[2];  // the program, and the C++ library

static int look(struct dl_phdr_info* info, size_t size, void* data) {
  (void)size;
  int* seen = data;
  const int which = (*seen)++ == 0 ? 0 : strstr(info->dlpi_name, "libstdc++") ? 1 : -1;
  if (which < 0) return 0;
  for (int k = 0; k < info->dlpi_phnum; ++k) {
    const ElfW(Phdr)* part = &info->dlpi_phdr[k];
    if (part->p_type != PT_LOAD || !(part->p_flags & PF_X)) continue;
    ours[which].begin = info->dlpi_addr + part->p_vaddr;
    ours[which].end = ours[which].begin + part->p_memsz;
  }
  return 0;
}

__attribute__((constructor)) static void begin(void) {
  const char *rank = getenv("FLUXFORMER_NO_MEMORY_RANK"), *here = getenv("OMPI_COMM_WORLD_RANK");
  if (!rank || strcmp(program_invocation_short_name, "fluxformer") || strcmp(rank, here ? here : "0")) return;
  int seen = 0;
  dl_iterate_phdr(look, &seen);
  folder = getenv("FLUXFORMER_NO_MEMORY_FOLDER");
  least = (size_t)atol(getenv("FLUXFORMER_NO_MEMORY_LEAST"));
  at = atol(getenv("FLUXFORMER_NO_MEMORY_AT"));
}

static void write_file(const char* name) {
  char path[4096], text[32];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (file < 0) return;
  const int length = snprintf(text, sizeof text, "%ld", count);
  if (write(file, text, (size_t)length) != length) abort();
  close(file);
}

__attribute__((destructor)) static void end(void) {
  if (at >= 0) write_file("count");
}

static int begin_main(int argc, char** argv, char** environment) {
  started = 1;
  return their_main(argc, argv, environment);
}

int __libc_start_main(int (*main)(int, char**, char**), int argc, char** argv, void (*init)(void), void (*fini)(void),
                      void (*rtld_fini)(void), void* stack_end) {
  __typeof__(&__libc_start_main) next = dlsym(RTLD_NEXT, "__libc_start_main");
  their_main = main;
  return next(begin_main, argc, argv, init, fini, rtld_fini, stack_end);
}

void* malloc(size_t size) {
  if (started && at >= 0 && size >= least) {
    const ElfW(Addr) from = (ElfW(Addr))__builtin_return_address(0);
    for (int k = 0; k < 2; ++k)
      if (from >= ours[k].begin && from < ours[k].end &&
          __atomic_add_fetch(&count, 1, __ATOMIC_SEQ_CST) == at) {
        write_file("failed");
        errno = ENOMEM;
        return NULL;
      }
  }
  return __libc_malloc(size);
}
