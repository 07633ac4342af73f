// Reads mutated files with the program's readers: see README.md in this folder.
//
//   fuzz_readers [--reader=NAME] [--runs=N] [--seconds=S] [--seed=K] [--corpus=DIR] [--findings=DIR]
//                [--hang=S] [--most=FINDINGS]
//   fuzz_readers --reader=NAME FILE...      reads these files once (--repair=1: and says whether
//                                           repairing the checksums changes them)
//
// Runs and seconds are divided among the readers; a reader ends after --most findings of different kinds (1).
// Exit status: 0 no finding, 1 findings, 2 wrong arguments.

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <new>

#include "base/session.hpp"
#include "io/hdf5/checker.hpp"
#include "tests/fuzz/worker.hpp"

// The limits of a reader. Under the sanitizer a larger request ends the process with its stack.
extern "C" const char* __asan_default_options();
extern "C" const char* __asan_default_options() {
  return "detect_leaks=0:max_allocation_size_mb=2048:quarantine_size_mb=16:handle_abort=1:"
         "allocator_may_return_null=0";
}

namespace fluxformer::fuzz {
namespace {

namespace fs = std::filesystem;

constexpr long most_memory = 2L << 20U;  // kB
#if defined(__SANITIZE_ADDRESS__)
constexpr bool sanitized = true;
#else
constexpr bool sanitized = false;
#endif

Bytes read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<Bytes> seeds_in(const fs::path& folder) {
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(folder)) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<Bytes> seeds;
  for (const auto& path : paths) {
    seeds.push_back(read_file(path));
    if (seeds.back().size() > largest_input)
      throw std::runtime_error(path.string() + ": too large for a seed");
  }
  if (seeds.empty()) throw std::runtime_error(folder.string() + ": no seeds");
  return seeds;
}

/// A process of its own: MPI and PETSc start there. What it writes to stderr goes into `log`.
pid_t start_worker(const Task& task, Shared& shared, const std::string& log) {
  std::cout.flush();
  const pid_t child = fork();
  if (child != 0) return child;
  if (std::freopen(log.c_str(), "w", stderr) == nullptr) _exit(1);
  std::setvbuf(stderr, nullptr, _IONBF, 0);  // or an abort loses it
  if (!sanitized) {                          // the sanitizer reserves more address space than there is memory
    const rlimit limit{rlim_t{4} << 30U, rlim_t{4} << 30U};
    setrlimit(RLIMIT_AS, &limit);
  }
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  int argc = 0;
  char** argv = nullptr;
  static Session session(argc, argv);  // never finalised: _exit
  if (!sanitized)                      // MPI's own handlers print a page
    for (const int number : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL}) std::signal(number, SIG_DFL);
  const int code = work(task, shared);
  std::cout.flush();
  _exit(code);
}

long memory_of(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/statm");
  long size = 0, pages = 0;
  file >> size >> pages;
  return 4 * pages;
}

/// The lines of a sanitizer's report that say what happened, or the last line.
std::string summary_of(const std::string& log) {
  std::ifstream in(log);
  std::string last, summary;
  for (std::string line; std::getline(in, line);) {
    for (const char* const sign : {"SUMMARY:", "runtime error:", "fluxformer: rank"})
      if (summary.empty() && line.find(sign) != std::string::npos) summary = line;
    if (!line.empty()) last = line;
  }
  return summary.empty() ? last : summary;
}

struct Limits {
  double hang = 30;  ///< s
};

/// Waits for the worker. Returns "" or why it ended before its time.
std::string watch(pid_t child, Shared& shared, const Limits& limits, long& largest, bool& again) {
  std::string why;
  for (;;) {
    int status = 0;
    if (waitpid(child, &status, WNOHANG) == child) {
      again = WIFEXITED(status) && WEXITSTATUS(status) == worker_again;
      if (again || (WIFEXITED(status) && WEXITSTATUS(status) == worker_done)) return why;
      if (!why.empty()) return why;
      return WIFSIGNALED(status) ? "signal " + std::to_string(WTERMSIG(status))
                                 : "exit status " + std::to_string(WEXITSTATUS(status));
    }
    const std::int64_t started = shared.started;
    largest = std::max(largest, memory_of(child));
    const auto end_it = [&](const std::string& reason) {
      why = reason;
      kill(child, SIGABRT);  // the sanitizer prints the stack
      usleep(2'000'000);
      kill(child, SIGKILL);
    };
    if (why.empty() && started != 0 && static_cast<double>(now() - started) > 1e9 * limits.hang)
      end_it("hangs");
    else if (why.empty() && largest > most_memory)
      end_it("takes more than 2 GB");
    usleep(10'000);
  }
}

struct Arguments {
  std::map<std::string, std::string> values{{"reader", "all"}, {"runs", "0"},        {"seconds", "0"},
                                            {"seed", "1"},     {"corpus", "corpus"}, {"findings", "findings"},
                                            {"hang", "30"},    {"most", "1"},        {"repair", "0"}};
  std::vector<std::string> files;
};

Arguments read_arguments(int argc, char** argv) {
  Arguments read;
  for (int k = 1; k < argc; ++k) {
    const std::string word = argv[k];
    const auto equals = word.find('=');
    if (!word.starts_with("--")) {
      read.files.push_back(word);
    } else if (equals != std::string::npos && read.values.contains(word.substr(2, equals - 2))) {
      read.values[word.substr(2, equals - 2)] = word.substr(equals + 1);
    } else {
      throw std::runtime_error(word + ": not an argument (see tests/fuzz/README.md)");
    }
  }
  return read;
}

/// Runs a reader until its time is over or it has too many findings, and prints a line about it.
bool fuzz(Task task, const Limits& limits, std::uint64_t most_findings) {
  void* const memory =
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  Shared& shared = *new (memory) Shared;
  const auto log = task.findings + "/" + task.reader.name + ".log";
  long largest = 0, starts = 0;
  task.begun = now();
  while (!over(task, shared.next) && shared.findings < most_findings) {
    bool again = false;
    ++starts;
    shared.started = 0;
    const auto why = watch(start_worker(task, shared, log), shared, limits, largest, again);
    if (why.empty()) continue;
    const auto summary = summary_of(log);
    save_finding(task, shared, {shared.bytes, shared.size}, why + (summary.empty() ? "" : ": " + summary),
                 std::hash<std::string>()(summary));
    std::error_code ignored;
    fs::copy_file(log,
                  task.findings + "/" + task.reader.name + "-" + std::to_string(shared.findings) + ".log",
                  ignored);
    ++shared.next;
  }
  const double seconds = 1e-9 * static_cast<double>(now() - task.begun);
  const double inputs = static_cast<double>(shared.next);
  std::printf("%-18s %9.0f %9.0f %8.1f %9zu %9zu %8.2f %7ld %7ld %8lu\n", task.reader.name.c_str(), inputs,
              inputs / seconds, 100 * static_cast<double>(shared.accepted) / std::max(inputs, 1.0),
              shared.messages.count(), task.seeds.size(), 1e-9 * static_cast<double>(shared.slowest),
              largest >> 10U, starts, static_cast<unsigned long>(shared.findings));
  std::fflush(stdout);
  const bool sound = shared.findings == 0;
  munmap(memory, sizeof(Shared));
  return sound;
}

/// Reads files once, without a process that watches.
bool read_once(const Reader& reader, const std::vector<std::string>& files, bool repair) {
  int argc = 0;
  char** argv = nullptr;
  const Session session(argc, argv);
  bool sound = true;
  for (const auto& file : files) {
    const Bytes bytes = read_file(file);
    const Outcome outcome = judge(reader, bytes);
    const char* const kinds[] = {"accepted", "refused", "FINDING"};
    std::cout << file << ": " << kinds[static_cast<int>(outcome.kind)] << ' ' << outcome.what;
    if (Bytes repaired = bytes; repair && outcome.kind == Outcome::Kind::accepted) {
      reader.repair(repaired);
      if (repaired != bytes) std::cout << " changed by the repair";
    }
    std::cout << std::endl;
    sound = sound && outcome.kind != Outcome::Kind::finding;
  }
  return sound;
}

int run(int argc, char** argv) {
  auto [values, files] = read_arguments(argc, argv);
  const auto readers = readers_called(values["reader"]);
  if (readers.empty()) throw std::runtime_error(values["reader"] + ": no such reader");
  if (!files.empty()) {
    const bool repair = values["repair"] == "1" && readers.front().repair != nullptr;
    return read_once(readers.front(), files, repair) ? 0 : 1;
  }

  Limits limits;
  limits.hang = std::stod(values["hang"]);
  const auto runs = std::stoull(values["runs"]);
  const double seconds = std::stod(values["seconds"]);
  if (runs == 0 && seconds <= 0) throw std::runtime_error("--runs or --seconds is needed");
  fs::create_directories(values["findings"]);
  std::printf("%-18s %9s %9s %8s %9s %9s %8s %7s %7s %8s\n", "reader", "inputs", "inputs/s", "sound %",
              "refusals", "seeds", "slowest", "MB", "starts", "findings");
  bool sound = true;
  for (const Reader& reader : readers) {
    Task task;
    task.reader = reader;
    task.seeds = seeds_in(fs::path(values["corpus"]) / reader.seeds);
    task.key = std::stoull(values["seed"]);
    if (runs > 0) task.runs = std::max<std::uint64_t>(1, runs / readers.size());
    if (seconds > 0) task.seconds = seconds / static_cast<double>(readers.size());
    task.findings = values["findings"];
    sound = fuzz(task, limits, std::stoull(values["most"])) && sound;
  }
  return sound ? 0 : 1;
}

}  // namespace
}  // namespace fluxformer::fuzz

int main(int argc, char** argv) {
  namespace fuzz = fluxformer::fuzz;
  namespace fs = std::filesystem;
  if (const auto served = fluxformer::io::serve_as_checker(argc, argv)) return *served;
  // In memory where there is such a place; MPI's own files go there too, also those of workers that crash.
  std::string folder = (fs::is_directory("/dev/shm") ? "/dev/shm" : fs::temp_directory_path().string()) +
                       std::string("/fluxformer-fuzz-XXXXXX");
  if (mkdtemp(folder.data()) == nullptr) return 2;
  setenv("TMPDIR", folder.c_str(), 1);
  unsetenv("OPENBLAS_CORETYPE");  // the program warns about it
  int code = 2;
  try {
    fuzz::use_scratch_folder(folder);
    code = fuzz::run(argc, argv);
  } catch (const std::exception& e) {
    std::cerr << "fuzz_readers: " << e.what() << '\n';
  }
  std::error_code ignored;
  fs::remove_all(folder, ignored);
  return code;
}
