#include "io/from_root.hpp"

#include <algorithm>
#include <cstdint>

#include "base/error.hpp"

namespace fluxformer::io {

std::string from_root(MPI_Comm comm, bool root, const std::function<std::string()>& read) {
  std::string bytes = collectively(comm, [&] { return root ? read() : std::string(); });
  std::uint64_t size = bytes.size();
  check_mpi(MPI_Bcast(&size, 1, MPI_UINT64_T, 0, comm));
  bytes.resize(size);
  constexpr std::uint64_t most = std::uint64_t{1} << 30;  // MPI counts are int
  for (std::uint64_t done = 0; done < size; done += most)
    check_mpi(MPI_Bcast(bytes.data() + done, std::min(most, size - done), MPI_BYTE, 0, comm));
  return bytes;
}

std::vector<std::string> from_terminated(const std::string& bytes) {
  std::vector<std::string> texts;
  for (std::size_t at = 0; at < bytes.size(); at += texts.back().size() + 1)
    texts.emplace_back(bytes.c_str() + at);
  return texts;
}

}  // namespace fluxformer::io
