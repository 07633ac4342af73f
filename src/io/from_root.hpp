#pragma once

// Bytes read from a file by rank 0 and broadcast to all ranks.

#include <mpi.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

namespace fluxformer::io {

/// Runs `read` on rank 0 (where `root` is true) and broadcasts its bytes. If it throws, all ranks throw.
/// Collective.
std::string from_root(MPI_Comm comm, bool root, const std::function<std::string()>& read);

/// The bytes of numbers as a text for from_root.
template <class T>
std::string as_bytes(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

/// The numbers whose bytes as_bytes gave; a rest shorter than a number is dropped.
template <class T>
std::vector<T> from_bytes(const std::string& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

/// Splits texts that end with a zero byte each.
std::vector<std::string> from_terminated(const std::string& bytes);

}  // namespace fluxformer::io
