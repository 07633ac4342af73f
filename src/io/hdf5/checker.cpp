#include "io/hdf5/checker.hpp"

#include <fcntl.h>
#include <features.h>
#include <hdf5.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string_view>
#include <vector>

#include "base/mpi.hpp"
#include "io/hdf5/handles.hpp"
#include "io/hdf5/hdf5_objects.hpp"

namespace fluxformer::io {

namespace {

#if H5_VERSION_GE(1, 12, 0)
using ObjectInfo = H5O_info1_t;  // what H5Oget_info2 fills in
#else
using ObjectInfo = H5O_info_t;
#endif

constexpr double largest_dataset = 256e6;  // bytes; for a larger one the time would be felt
constexpr double pace = 20e6;              // bytes a second that every machine reads and decompresses
constexpr rlim_t pause = 3;                // s of the processor, of which a busy machine may count some twice
constexpr int no_memory = 2, not_listed = 3;  // exit codes of a checker

/// Bytes of data that the process holds now.
[[maybe_unused]] rlim_t data_bytes() {  // not under the address sanitizer, which reserves terabytes
  std::ifstream file("/proc/self/statm");
  rlim_t size = 0, resident = 0, shared = 0, text = 0, library = 0, data = 0;
  file >> size >> resident >> shared >> text >> library >> data;
  return data * ::sysconf(_SC_PAGESIZE);
}

/// Limits the processor time from now on to what reading an object of this size in memory may take; a small
/// file may hold much. The time of a slow disk does not count.
void allow_time_for(double bytes) {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  rlimit time{};
  getrlimit(RLIMIT_CPU, &time);
  const rlim_t so_far = used.ru_utime.tv_sec + used.ru_stime.tv_sec;
  time.rlim_cur = std::min(time.rlim_max, so_far + pause + static_cast<rlim_t>(bytes / pace));
  setrlimit(RLIMIT_CPU, &time);
}

/// Reads all numbers of a dataset, in slabs of rows; texts one by one.
void read_dataset(hid_t dataset) {
  const SpaceHandle space(H5Dget_space(dataset));
  const TypeHandle type(H5Dget_type(dataset));
  const PropertyHandle layout(H5Dget_create_plist(dataset));
  const auto kind = H5Tget_class(type);
  const int rank = H5Sget_simple_extent_ndims(space);
  if (rank < 0 || H5Sget_simple_extent_type(space) == H5S_NULL) return;
  const bool text = kind == H5T_STRING;
  if (!text && kind != H5T_INTEGER && kind != H5T_FLOAT) return;
  if (!text && H5Pget_layout(layout) == H5D_CONTIGUOUS) return;  // checked against the length of the file
  std::vector<hsize_t> dims(rank);
  H5Sget_simple_extent_dims(space, dims.data(), nullptr);
  const bool variable = text && H5Tis_variable_str(type) > 0;
  const std::size_t size = variable ? sizeof(char*) : text ? H5Tget_size(type) : sizeof(double);
  const TypeHandle memory_type(H5Tcopy(text ? hid_t{type} : H5T_NATIVE_DOUBLE));
  hsize_t row = 1, rows = dims.empty() ? 1 : dims[0];
  for (int k = 1; k < rank; ++k) row *= dims[k];
  if (rows == 0 || row == 0) return;
  const double bytes_of_all = 1.0 * rows * row * size;
  if (bytes_of_all > largest_dataset) return;
  allow_time_for(bytes_of_all);
  const hsize_t most = std::clamp<hsize_t>((hsize_t{1} << 24U) / (row * size + 1), 1, rows);
  std::vector<hsize_t> start(dims.size(), 0), count = dims;
  for (hsize_t first = 0; first < rows; first += most) {
    if (!dims.empty()) start[0] = first, count[0] = std::min(most, rows - first);
    if (!dims.empty())
      H5Sselect_hyperslab(space, H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr);
    const SpaceHandle memory(dims.empty() ? H5Screate(H5S_SCALAR)
                                          : H5Screate_simple(rank, count.data(), nullptr));
    std::vector<char> bytes((dims.empty() ? 1 : count[0] * row) * size);
    if (H5Dread(dataset, memory_type, memory, space, H5P_DEFAULT, bytes.data()) < 0) return;
    if (variable) H5Dvlen_reclaim(memory_type, memory, H5P_DEFAULT, bytes.data());
  }
}

herr_t read_attribute_of(hid_t object, const char* name, const H5A_info_t*, void*) {
  const AttributeHandle attribute(H5Aopen(object, name, H5P_DEFAULT));
  const SpaceHandle space(H5Aget_space(attribute));
  const TypeHandle type(H5Aget_type(attribute));
  const auto kind = H5Tget_class(type);
  const auto points = H5Sget_simple_extent_npoints(space);
  if (points < 1 || points > 1 << 20 || (kind != H5T_STRING && kind != H5T_INTEGER && kind != H5T_FLOAT))
    return 0;
  const bool variable = kind == H5T_STRING && H5Tis_variable_str(type) > 0;
  const std::size_t size = std::max(H5Tget_size(type), sizeof(double));
  std::vector<char> bytes(points * size);
  if (H5Aread(attribute, type, bytes.data()) >= 0 && variable)
    H5Dvlen_reclaim(type, space, H5P_DEFAULT, bytes.data());
  return 0;
}

/// Ends the checker if a listing failed: an object that cannot be listed may still be found by its name,
/// untried.
void require_listed(herr_t status) {
  if (status < 0) ::_exit(not_listed);
}

void read_attributes(hid_t object) {
  require_listed(H5Aiterate2(object, H5_INDEX_NAME, H5_ITER_INC, nullptr, read_attribute_of, nullptr));
}

herr_t read_object(hid_t group, const char* name, const H5L_info_t* link, void* seen);

void read_group(hid_t group, std::set<haddr_t>& seen) {
  require_listed(H5Literate(group, H5_INDEX_NAME, H5_ITER_INC, nullptr, read_object, &seen));
}

/// Callback for H5Literate. It goes on after an object that cannot be read: a run may ask for the next one.
herr_t read_object(hid_t group, const char* name, const H5L_info_t* link, void* seen) {
  auto& addresses = *static_cast<std::set<haddr_t>*>(seen);
  if (link->type != H5L_TYPE_HARD) return 0;
  const ObjectHandle object(H5Oopen(group, name, H5P_DEFAULT));
  ObjectInfo info;
  if (!object.open() || H5Oget_info2(object, &info, H5O_INFO_BASIC) < 0 ||
      !addresses.insert(info.addr).second)
    return 0;
  read_attributes(object);
  if (info.type == H5O_TYPE_DATASET) read_dataset(object);
  if (info.type == H5O_TYPE_GROUP) read_group(object, addresses);
  return 0;
}

/// Limits the memory that the process may take from now on to 1 GB more than it holds.
void limit_memory() {
#if !defined(__SANITIZE_ADDRESS__)
  rlimit memory{};
  getrlimit(RLIMIT_DATA, &memory);
  memory.rlim_cur = std::min(memory.rlim_max, data_bytes() + (rlim_t{1} << 30U));
  setrlimit(RLIMIT_DATA, &memory);
#endif
}

void read_all(const std::string& path) {
  std::error_code missing;
  const auto bytes = std::filesystem::file_size(path, missing);
  if (missing) return;  // whoever opens it says why
  allow_time_for(bytes);
  limit_memory();
  const PropertyHandle access(H5Pcreate(H5P_FILE_ACCESS));
  H5Pset_file_locking(access, false, true);
  const FileHandle file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access));
  if (!file.open()) return;
  std::set<haddr_t> seen;
  const GroupHandle root(H5Gopen2(file, "/", H5P_DEFAULT));
  read_attributes(root);
  read_group(root, seen);
}

constexpr const char* as_checker = "--read-on-trial";  // the argument of a checker
constexpr int channel = STDIN_FILENO;            // its socket: names of files come, a byte goes for each
constexpr char well = 'w';                       // that byte, which also goes when it is ready
constexpr std::size_t longest_path = 1U << 16U;  // bytes

int serve() {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // it must not hold the locks of a killed run
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
  quiet_hdf5();
  std::string path;
  for (;;) {
    if (::send(channel, &well, 1, MSG_NOSIGNAL) != 1) return 0;
    path.resize(longest_path);
    const ssize_t length = ::recv(channel, path.data(), path.size(), 0);
    if (length <= 0) return 0;
    path.resize(length);
    try {
      read_all(path);
    } catch (...) {
      ::_exit(no_memory);
    }
  }
}

/// The checker as its parent sees it: at most one process.
class Checker {
 public:
  Checker() = default;
  Checker(const Checker&) = delete;
  Checker& operator=(const Checker&) = delete;
  ~Checker() {
    if (process_ > 0) ::kill(process_, SIGKILL);  // it may have been stopped
    end();
  }

  /// True if it has read the file; false if it is no longer there.
  bool reads(const std::string& path) {
    if (process_ < 0) start();
    return ::send(socket_, path.data(), path.size(), MSG_NOSIGNAL) > 0 && is_well();
  }

  /// Ends it; the status that waitpid gives.
  int end() {
    int status = 0;
    if (process_ < 0) return status;
    ::close(socket_);
    while (::waitpid(process_, &status, 0) < 0 && errno == EINTR) continue;
    process_ = socket_ = -1;
    return status;
  }

 private:
  bool is_well() const {
    char answer = 0;
    ssize_t length = 0;
    while ((length = ::recv(socket_, &answer, 1, 0)) < 0 && errno == EINTR) continue;
    return length == 1 && answer == well;
  }

  void start() {
    int ends[2] = {-1, -1};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) refuse(std::strerror(errno));
    for (int& end : ends) {  // where one of the first three is closed, others would write into the socket
      const int above = ::fcntl(end, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
      ::close(end);
      end = above;
    }
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
    sigset_t signals;
    sigfillset(&signals);
    posix_spawnattr_setsigdefault(&attributes, &signals);
    // A queue may send its signals to all processes of a job; this one ends when its socket is closed.
    sigemptyset(&signals);
    for (const int number : {SIGUSR1, SIGUSR2, SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, number);
    posix_spawnattr_setsigmask(&attributes, &signals);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], channel);
    for (const int number : {STDOUT_FILENO, STDERR_FILENO})
      posix_spawn_file_actions_addopen(&actions, number, "/dev/null", O_WRONLY, 0);
#if __GLIBC_PREREQ(2, 34)
    posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
#endif
    std::string name = "fluxformer-check", word = as_checker;
    char* const arguments[] = {name.data(), word.data(), nullptr};
    const int failed = ::posix_spawn(&process_, "/proc/self/exe", &actions, &attributes, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    ::close(ends[1]);
    socket_ = ends[0];
    if (failed != 0) {
      ::close(socket_);
      process_ = socket_ = -1;
      refuse(std::strerror(failed));
    }
    if (!is_well()) {
      end();
      refuse("it ends at once");
    }
  }

  [[noreturn]] static void refuse(const std::string& problem) {
    throw NoChecker("no process can be started that reads it first (" + problem +
                    "); run.trust_files = true reads files without one");
  }

  pid_t process_ = -1;
  int socket_ = -1;
};

bool may_start_checker = false;
bool trusted = false;

// A handler of signals can use these.
constexpr int crashes[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL};
char crash_message[4608] = "";
struct sigaction handlers_before[std::size(crashes)];
alignas(16) char handler_stack[1U << 16U];  // HDF5 may have used up the other one
stack_t stack_before;

void end_naming_file(int) {
  if (::write(STDERR_FILENO, crash_message, std::strlen(crash_message)) < 0)
    ::_exit(static_cast<int>(ExitCode::failure));
  ::_exit(static_cast<int>(ExitCode::bad_input));
}

}  // namespace

std::optional<int> serve_as_checker(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == as_checker) return serve();
  may_start_checker = true;
  return {};
}

void trust_files(bool yes) {
  trusted = yes;
}

void read_on_trial(const std::string& path) {
  if (trusted || !may_start_checker) return;
  static Checker checker;
  // It may die of what an earlier file has left behind, or because the machine is short of memory for a
  // moment: a file is refused if it dies of it twice.
  if (checker.reads(path)) return;
  checker.end();
  if (checker.reads(path)) return;
  const int status = checker.end();
  const auto exits_with = [&](int code) { return WIFEXITED(status) && WEXITSTATUS(status) == code; };
  const auto dies_of = [&](int number) { return WIFSIGNALED(status) && WTERMSIG(status) == number; };
  if (dies_of(SIGKILL)) throw NoChecker("the process that reads it first was killed");
  throw BadInput("damaged HDF5 file (HDF5 " +
                 std::string(exits_with(not_listed)  ? "cannot list what it holds)"
                             : exits_with(no_memory) ? "asks for more memory than there is when it reads it)"
                             : dies_of(SIGXCPU)      ? "comes to no end when it reads it)"
                                                     : "crashes when it reads it)"));
}

void read_on_trial_first(MPI_Comm comm, const std::string& path, const std::string& called) {
  collectively(comm, [&] {
    std::error_code none;
    if (!mpi::is_root(comm) || !std::filesystem::is_regular_file(path, none)) return;
    try {
      read_on_trial(path);
    } catch (const Error& e) {
      throw Error(e.code(), called + ": " + e.what());
    }
  });
}

AtOnce::AtOnce(const std::string& file) : counts_(trusted && crash_message[0] == '\0') {
  if (!counts_) return;
  std::snprintf(crash_message, sizeof crash_message,
                "fluxformer: %s: damaged HDF5 file (HDF5 crashes when this run reads it)\n", file.c_str());
  stack_t stack{};
  stack.ss_sp = handler_stack;
  stack.ss_size = sizeof handler_stack;
  sigaltstack(&stack, &stack_before);
  struct sigaction action = {};
  action.sa_handler = end_naming_file;
  action.sa_flags = SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  for (std::size_t k = 0; k < std::size(crashes); ++k) sigaction(crashes[k], &action, &handlers_before[k]);
}

AtOnce::~AtOnce() {
  if (!counts_) return;
  for (std::size_t k = 0; k < std::size(crashes); ++k) sigaction(crashes[k], &handlers_before[k], nullptr);
  sigaltstack(&stack_before, nullptr);
  crash_message[0] = '\0';
}

}  // namespace fluxformer::io
