#include "io/part_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "base/error.hpp"

namespace fluxformer::io {

namespace {

bool is_root(MPI_Comm comm) {
  int rank = 0;
  check_mpi(MPI_Comm_rank(comm, &rank));
  return rank == 0;
}

/// Throws an Error that names the file; a full disk is never bad input.
[[noreturn]] void fail(const std::string& file, const char* doing, int error, ExitCode code) {
  const bool full = error == ENOSPC || error == EFBIG;
  throw Error(full ? ExitCode::failure : code, file + ": " + doing + ": " + write_failure(error));
}

std::string folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

/// Locks a file; false if another process holds the lock. On a file system without locks always true.
bool take(int descriptor) {
  return ::flock(descriptor, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
}

/// Throws BadInput if a running process holds this part file.
void refuse_a_held(const std::string& part) {
  const int descriptor = ::open(part.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return;
  const bool free = take(descriptor);
  ::close(descriptor);
  if (!free) throw BadInput("output.file: " + part + " is being written by another run");
}

/// Removes the part file of a dead run; refuses if a running one holds it.
void remove_left_over(const std::string& part) {
  refuse_a_held(part);
  if (::unlink(part.c_str()) != 0 && errno != ENOENT && errno != ENOTDIR)
    fail("output.file: " + part, "cannot be replaced", errno, ExitCode::bad_input);
}

void sync_folder(const std::string& path) {
  const int folder = ::open(folder_of(path).c_str(), O_RDONLY | O_DIRECTORY);
  if (folder < 0) return;
  ::fsync(folder);  // some file systems do not support fsync of folders; the rename itself has succeeded
  ::close(folder);
}

/// False, with errno, if this process may not write files of that size.
bool size_is_allowed(std::uint64_t bytes) {
  struct rlimit limit {};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || bytes <= limit.rlim_cur)
    return true;
  errno = EFBIG;
  return false;
}

}  // namespace

std::string write_failure(int error) {
  if (error == ENOSPC) return "no space left on device";
  if (error == EFBIG) return "the limit on the size of files (ulimit -f) is reached";
  return std::strerror(error);
}

bool disk_can_hold(int descriptor, std::uint64_t offset, std::uint64_t bytes) {
  if (!size_is_allowed(offset + bytes)) return false;
  for (;;) {
    if (::fallocate(descriptor, FALLOC_FL_KEEP_SIZE, offset, bytes) == 0) return true;
    if (errno != EINTR) break;
  }
  if (errno != EOPNOTSUPP && errno != ENOSYS) return false;
  // This file system cannot reserve space: at least check the free space.
  struct statvfs space {};
  if (::fstatvfs(descriptor, &space) != 0 || std::uint64_t{space.f_bavail} * space.f_frsize >= bytes)
    return true;
  errno = ENOSPC;
  return false;
}

void release_reserved(int descriptor) {
  struct stat found {};
  if (::fstat(descriptor, &found) != 0) return;
  // Blocks have 512 bytes here. Setting a file to the length it has frees those beyond (ext4, XFS, Btrfs,
  // tmpfs); what a file system does not support costs space, but no numbers.
  if (found.st_blocks * 512 > found.st_size + found.st_blksize)
    while (::ftruncate(descriptor, found.st_size) != 0 && errno == EINTR) continue;
}

PartFile::PartFile(MPI_Comm comm, std::string path, bool overwrite)
    : comm_(comm), path_(std::move(path)), overwrite_(overwrite) {
  collectively(comm_, [&] {
    if (!is_root(comm_)) return;
    struct stat found {};
    if (::stat(path_.c_str(), &found) == 0) {
      if (!S_ISREG(found.st_mode))
        throw BadInput("output.file: " + path_ + " exists and is not a regular file");
      if (!overwrite_)
        throw BadInput("output.file: " + path_ + " exists; choose another name or allow output.overwrite");
    }
    remove_left_over(part());
    descriptor_ = ::open(part().c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor_ < 0)
      fail("output.file: " + path_, ("cannot write in folder " + folder_of(path_)).c_str(), errno,
           ExitCode::bad_input);
    take(descriptor_);
  });
}

PartFile::~PartFile() {
  if (descriptor_ < 0) return;
  struct stat found {};
  if (!committed_ && ::fstat(descriptor_, &found) == 0) {
    if (found.st_size == 0) ::unlink(part().c_str());
    release_reserved(descriptor_);
  }
  ::close(descriptor_);
}

std::uint64_t PartFile::size() const {
  std::uint64_t bytes = 0;
  collectively(comm_, [&] {
    struct stat found {};
    if (is_root(comm_) && ::fstat(descriptor_, &found) != 0)
      fail(part(), "cannot be looked at", errno, ExitCode::failure);
    bytes = found.st_size;
  });
  check_mpi(MPI_Bcast(&bytes, 1, MPI_UINT64_T, 0, comm_));
  return bytes;
}

void PartFile::reserve(std::uint64_t offset, std::uint64_t bytes) const {
  collectively(comm_, [&] {
    if (bytes == 0) return;
    const bool fits =
        is_root(comm_) ? disk_can_hold(descriptor_, offset, bytes) : size_is_allowed(offset + bytes);
    if (!fits)
      fail(part(), ("cannot grow by " + std::to_string(bytes) + " bytes").c_str(), errno, ExitCode::failure);
  });
}

void PartFile::put_in_place(const std::string& path) {
  if (std::rename(part().c_str(), path.c_str()) != 0)
    fail(part(), ("cannot be renamed to " + path).c_str(), errno, ExitCode::failure);
  committed_ = true;
  sync_folder(path);
}

void PartFile::check_and_sync() {
  release_reserved(descriptor_);
  if (::fsync(descriptor_) != 0) fail(part(), "cannot be written to the disk", errno, ExitCode::failure);
  struct stat ours {
  }, named{};
  if (::fstat(descriptor_, &ours) != 0 || ::stat(part().c_str(), &named) != 0 ||
      ours.st_ino != named.st_ino || ours.st_dev != named.st_dev)
    throw Error(ExitCode::failure, part() + ": another run has replaced or removed this file");
}

void PartFile::commit(const std::string& previous) {
  collectively(comm_, [&] {
    if (!is_root(comm_)) return;
    check_and_sync();
    if (!overwrite_ && ::access(path_.c_str(), F_OK) == 0)
      throw Error(ExitCode::failure,
                  path_ + ": appeared during the run and is kept; the result is in " + part());
    if (!previous.empty() && std::rename(path_.c_str(), previous.c_str()) != 0 && errno != ENOENT)
      fail(path_, ("cannot be renamed to " + previous).c_str(), errno, ExitCode::failure);
    put_in_place(path_);
  });
}

void PartFile::commit_as(const std::string& path) {
  collectively(comm_, [&] {
    if (!is_root(comm_)) return;
    check_and_sync();
    put_in_place(path);
  });
}

void refuse_if_held(MPI_Comm comm, const std::string& path) {
  collectively(comm, [&] {
    if (is_root(comm)) refuse_a_held(part_path(path));
  });
}

void write_text_file(MPI_Comm comm, const std::string& path, const std::string& text) {
  PartFile file(comm, path, true);
  file.reserve(0, text.size());
  collectively(comm, [&] {
    if (!is_root(comm)) return;
    const int descriptor = ::open(file.part().c_str(), O_WRONLY);
    std::size_t done = 0;
    while (descriptor >= 0 && done < text.size()) {
      const ssize_t wrote = ::write(descriptor, text.data() + done, text.size() - done);
      if (wrote < 0 && errno != EINTR) break;
      if (wrote > 0) done += wrote;
    }
    const int error = errno;
    if (descriptor >= 0) ::close(descriptor);
    if (done < text.size()) fail(file.part(), "cannot be written", error, ExitCode::failure);
  });
  file.commit();
}

}  // namespace fluxformer::io
