#include "io/hdf5/finished_file.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>
#include <vector>

#include "io/hdf5/hdf5_objects.hpp"

namespace fluxformer::io {

namespace {

// HDF5 1.10 crashes, or never returns, on some damaged files: sizes within its heaps of texts are not
// checked, and have no checksum. So a file is first read by a process that may die.

#if H5_VERSION_GE(1, 12, 0)
using ObjectInfo = H5O_info1_t;  // what H5Oget_info2 fills in
#else
using ObjectInfo = H5O_info_t;
#endif

constexpr double largest_dataset = 256e6;  // bytes; for a larger one the time would be felt
constexpr double pace = 20e6;              // bytes a second that every machine reads and decompresses
constexpr rlim_t pause = 3;                // s of the processor, of which a busy machine may count some twice
constexpr int no_memory = 2, not_listed = 3;  // exit codes of the child

/// Bytes of data that the process holds now: the child inherits them, and limits count them.
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

/// Ends the child if a listing failed: an object that cannot be listed may still be found by its name,
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

[[noreturn]] void read_all(const std::string& path) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // it must not hold the locks of a killed run
  for (const int number : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGXCPU, SIGTERM})
    std::signal(number, SIG_DFL);
  allow_time_for(std::filesystem::file_size(path));
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
#if !defined(__SANITIZE_ADDRESS__)
  const rlim_t most = data_bytes() + (rlim_t{1} << 30U);
  const rlimit memory{most, most};
  setrlimit(RLIMIT_DATA, &memory);
#endif
  if (const int nowhere = ::open("/dev/null", O_WRONLY); nowhere >= 0) ::dup2(nowhere, STDERR_FILENO);
  quiet_hdf5();
  const PropertyHandle access(H5Pcreate(H5P_FILE_ACCESS));
  H5Pset_file_locking(access, false, true);
  FileHandle file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access));
  if (file.open()) {
    std::set<haddr_t> seen;
    const GroupHandle root(H5Gopen2(file, "/", H5P_DEFAULT));
    read_attributes(root);
    read_group(root, seen);
  }
  file.close();
  ::_exit(0);
}

/// Reads the file in a child process and returns the status that waitpid gives.
int trial(const std::string& path) {
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      read_all(path);
    } catch (...) {
      ::_exit(no_memory);
    }
  }
  if (child < 0) throw Error(ExitCode::failure, "no process can be started that reads it on trial");
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  return status;
}

/// Lets a child process open the file and read all attributes, texts and chunked numbers, except datasets
/// beyond 256 MB, with limits on time and memory. Throws BadInput (without the name of the file) if the child
/// does not end well. It forks: rank-local, for one rank of a run, while the run is set up; the child makes
/// no call of MPI.
void read_on_trial(const std::string& path) {
  int status = trial(path);
  const auto exits_with = [&](int code) { return WIFEXITED(status) && WEXITSTATUS(status) == code; };
  const auto dies_of = [&](int number) { return WIFSIGNALED(status) && WTERMSIG(status) == number; };
  // The machine may have been short of memory for a moment; a damaged size asks for it again.
  if (exits_with(no_memory) || dies_of(SIGKILL)) status = trial(path);
  if (exits_with(0)) return;
  if (dies_of(SIGKILL)) throw Error(ExitCode::failure, "the process that reads it on trial was killed");
  throw BadInput("damaged HDF5 file (HDF5 " +
                 std::string(exits_with(not_listed)  ? "cannot list what it holds)"
                             : exits_with(no_memory) ? "asks for more memory than there is when it reads it)"
                             : dies_of(SIGXCPU)      ? "comes to no end when it reads it)"
                                                     : "crashes when it reads it)"));
}

}  // namespace

FileHandle open_finished(const std::string& path) {
  const auto refuse = [](const std::string& why) { throw BadInput(why); };
  std::error_code problem;
  const auto status = std::filesystem::status(path, problem);
  if (status.type() == std::filesystem::file_type::not_found) refuse("no such file");
  if (problem) refuse("cannot be read (" + problem.message() + ")");
  if (is_directory(status)) refuse("is a folder, not an HDF5 file");
  if (!is_regular_file(status)) refuse("is not a regular file");
  const auto refuse_as = [&](const std::string& what) {
    const auto complaint = hdf5_complaint();
    refuse(complaint == lock_refused ? complaint : what + " (" + complaint + ")");
  };
  const auto recognised = H5Fis_hdf5(path.c_str());
  if (recognised == 0) refuse("cannot be read as HDF5 (it lacks the HDF5 signature)");
  if (recognised < 0) refuse_as("cannot be read as HDF5");
  read_on_trial(path);
  const PropertyHandle access(h5(H5Pcreate(H5P_FILE_ACCESS), "H5Pcreate"));
  // Parallel file systems often refuse locks, and finished files do not change.
  h5(H5Pset_file_locking(access, false, true), "H5Pset_file_locking");
  FileHandle file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access));
  if (!file.open()) refuse_as("truncated or damaged HDF5 file");
  return file;
}

namespace {

// Strings of variable length (written by other programs), each followed by a zero byte.
std::string read_variable(hid_t dataset, hid_t stored, std::size_t count, const std::string& doing) {
  const TypeHandle memory = utf8_type(H5T_VARIABLE);
  h5(H5Tset_cset(memory, H5Tget_cset(stored)), doing);
  const SpaceHandle space(h5(H5Dget_space(dataset), doing));
  std::vector<char*> texts(count, nullptr);
  h5(H5Dread(dataset, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, texts.data()), doing);
  std::string all;
  for (const char* text : texts) (all += text != nullptr ? text : "") += '\0';
  h5(H5Dvlen_reclaim(memory, space, H5P_DEFAULT, texts.data()), doing);
  return all;
}

std::string read_fixed(hid_t dataset, hid_t stored, std::size_t count, const std::string& doing) {
  const std::size_t size = H5Tget_size(stored);
  const bool spaces = H5Tget_strpad(stored) == H5T_STR_SPACEPAD;
  std::string padded(count * size, '\0');
  h5(H5Dread(dataset, stored, H5S_ALL, H5S_ALL, H5P_DEFAULT, padded.data()), doing);
  std::string all;
  for (std::size_t k = 0; k < count; ++k) {
    std::string word = padded.substr(k * size, size);
    word.resize(std::min(word.size(), word.find('\0')));
    if (spaces) word.resize(word.find_last_not_of(' ') + 1);
    all += word + '\0';
  }
  return all;
}

}  // namespace

std::string read_words(hid_t file, const std::string& dataset) {
  const DatasetHandle handle = open_dataset(file, dataset);
  const TypeHandle type(h5(H5Dget_type(handle), dataset));
  const auto dims = dataset_shape(handle);
  if (H5Tget_class(type) != H5T_STRING || dims.size() != 1)
    throw BadInput(dataset + " is not a list of words");
  if (dims[0] == 0) return {};
  return h5(H5Tis_variable_str(type), dataset) > 0 ? read_variable(handle, type, dims[0], dataset)
                                                   : read_fixed(handle, type, dims[0], dataset);
}

}  // namespace fluxformer::io
