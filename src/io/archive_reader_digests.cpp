// Digests of what a file holds, compared with those written with it.

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>

#include "base/mpi.hpp"
#include "io/archive_reader.hpp"
#include "io/from_root.hpp"
#include "io/hdf5/hdf5_check.hpp"
#include "io/layout.hpp"
#include "io/stored_digest.hpp"

namespace fluxformer::io {

namespace {

constexpr const char* damaged = " is damaged: its digest is not the one written with it";

/// Where the numbers of a dataset lie in the file, and their digest when they were written.
struct Stored {
  std::uint64_t offset = 0, count = 0, digest = 0;
};

Stored stored(hid_t file, const std::string& path) {
  const DatasetHandle dataset = open_dataset(file, path);
  const auto digest = stored_digest(dataset);
  if (!digest) throw BadInput(path + " has no attribute " + names::digest.name);
  const TypeHandle type(h5(H5Dget_type(dataset), path));
  std::uint64_t count = 1;
  for (const hsize_t extent : dataset_shape(dataset)) count *= extent;
  const haddr_t offset = count > 0 ? H5Dget_offset(dataset) : 0;
  if (h5(H5Tequal(type, H5T_IEEE_F64LE), path) == 0 || offset == HADDR_UNDEF)
    throw BadInput(path + " is not stored as this program stores it");
  return {offset, count, *digest};
}

/// An open file descriptor.
struct Descriptor {
  explicit Descriptor(const std::string& path) : number(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (number < 0) throw BadInput(std::string("cannot be read (") + std::strerror(errno) + ")");
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { ::close(number); }
  int number;
};

void read_all(const Descriptor& file, std::uint64_t offset, std::span<double> to) {
  const auto bytes = std::as_writable_bytes(to);
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t more =
        ::pread(file.number, bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset + done));
    if (more < 0 && errno == EINTR) continue;
    if (more < 0) throw BadInput(std::string("cannot be read (") + std::strerror(errno) + ")");
    if (more == 0) throw BadInput("is truncated");
    done += static_cast<std::size_t>(more);
  }
}

/// The digest of this rank's share of the numbers.
std::uint64_t digest_of_share(const Descriptor& file, const Stored& numbers, MPI_Comm comm) {
  const int rank = mpi::rank(comm), ranks = mpi::size(comm);
  constexpr std::uint64_t most = std::uint64_t{1} << 17;  // numbers in memory at a time
  const std::uint64_t blocks = (numbers.count + most - 1) / most;
  std::vector<double> block;
  std::uint64_t sum = 0;
  for (auto k = static_cast<std::uint64_t>(rank); k < blocks; k += static_cast<std::uint64_t>(ranks)) {
    block.resize(std::min(most, numbers.count - k * most));
    read_all(file, numbers.offset + k * most * sizeof(double), block);
    sum += digest_of(block.data(), block.size(), k * most);
  }
  return sum;
}

}  // namespace

void ArchiveReader::require_digests(const std::string& group) const {
  std::vector<std::string> paths;  // rank 0
  const auto list = from_bytes<Stored>(from_file([&]() -> std::string {
    const GroupHandle handle(h5(H5Gopen2(small_, group.c_str(), H5P_DEFAULT), group));
    const auto whole = stored_digest(handle);
    if (!whole) return {};
    std::uint64_t sum = 0;
    for (const auto& name : attributes_of(handle))
      if (name != names::digest.name && name != names::complete.name)
        sum += digest_of_item(name, read_attribute(handle, name).value());
    std::vector<Stored> all;
    for (const auto& name : members_of(handle)) {
      paths.push_back(names::in(group, name));
      all.push_back(stored(small_, paths.back()));
      sum += digest_of_item(name, as_attribute(all.back().digest));
    }
    if (sum != *whole) throw BadInput(group + damaged);
    return as_bytes(all);
  }));
  auto found = collectively(comm_, [&] {
    std::vector<std::uint64_t> digests;
    try {
      const Descriptor file(path_);
      for (const Stored& numbers : list) digests.push_back(digest_of_share(file, numbers, comm_));
    } catch (const BadInput& e) {
      throw BadInput(called_ + ": " + e.what());
    }
    return digests;
  });
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, found.data(), static_cast<int>(found.size()), MPI_UINT64_T, MPI_SUM,
                          comm_));
  from_file([&]() -> std::string {
    for (std::size_t k = 0; k < list.size(); ++k)
      if (found[k] != list[k].digest) throw BadInput(paths[k] + damaged);
    return {};
  });
}

}  // namespace fluxformer::io
