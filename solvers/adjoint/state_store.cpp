#include "solvers/adjoint/state_store.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/error.hpp"

namespace fluxformer {
namespace {

/// All of `bytes`, by as many calls of pread or pwrite as needed.
template <class Call, class Byte>
void transfer(const char* what, Call call, int file, Byte* from, std::size_t bytes, std::size_t offset) {
  while (bytes > 0) {
    const auto done = call(file, from, bytes, static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0)
      throw Error(ExitCode::failure, std::string("cannot ") + what + " a state put aside on disk: " +
                                         (done == 0 ? "the file ends" : std::strerror(errno)));
    const auto part = static_cast<std::size_t>(done);
    from += part, bytes -= part, offset += part;
  }
}

int nameless_file(const std::string& wanted) {
  std::error_code none;
  const auto folder =
      wanted.empty() ? std::filesystem::temp_directory_path(none) : std::filesystem::path(wanted);
  if (none) throw BadInput("adjoint.folder: there is no folder for temporary files: " + none.message());
  std::string name = (folder / "fluxformer-states-XXXXXX").string();
  const int file = mkstemp(name.data());
  if (file < 0)
    throw BadInput("adjoint.folder: cannot make a file in " + folder.string() + ": " + std::strerror(errno));
  unlink(name.c_str());
  return file;
}

}  // namespace

StateStore::StateStore(MPI_Comm comm, std::size_t size, const std::string& folder)
    : comm_(comm), size_(size) {
  try {
    collectively(comm, [&] { file_ = nameless_file(folder); });
  } catch (...) {
    if (file_ >= 0) close(file_);  // another rank failed: the destructor will not run
    throw;
  }
}

StateStore::~StateStore() {
  if (file_ >= 0) close(file_);
}

void StateStore::put(int index, const double* state) {
  const auto place = static_cast<std::size_t>(index);
  if (file_ < 0) {
    states_.resize(std::max(states_.size(), place + 1));
    states_[place].assign(state, state + size_);
    return;
  }
  const std::size_t bytes = size_ * sizeof(double);
  collectively(comm_, [&] {
    transfer("write", ::pwrite, file_, reinterpret_cast<const char*>(state), bytes, place * bytes);
  });
}

void StateStore::get(int index, double* state) {
  const auto place = static_cast<std::size_t>(index);
  if (file_ < 0) {
    std::copy(states_[place].begin(), states_[place].end(), state);
    return;
  }
  const std::size_t bytes = size_ * sizeof(double);
  collectively(
      comm_, [&] { transfer("read", ::pread, file_, reinterpret_cast<char*>(state), bytes, place * bytes); });
}

std::size_t StateStore::bytes() const {
  std::size_t total = 0;
  for (const auto& state : states_) total += state.size() * sizeof(double);
  return total;
}

}  // namespace fluxformer
