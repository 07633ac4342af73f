#pragma once

// Reads a file that may be gzip-compressed and reports each kind of damage separately.

#include <zlib.h>

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>

namespace fluxformer::data {

/// Owns an open file; plain files pass through unchanged.
class GzipSource {
 public:
  /// `refuse(what)` must throw; `what` says what is wrong with the file.
  using Refuse = std::function<void(const std::string&)>;

  /// Opens the file; refuses one that is missing, not a file, empty or unreadable.
  GzipSource(const std::filesystem::path& path, Refuse refuse);
  GzipSource(const GzipSource&) = delete;
  GzipSource& operator=(const GzipSource&) = delete;
  ~GzipSource();

  bool compressed() { return gzdirect(file_) == 0; }
  /// Reads up to `count` bytes; fewer only at the end of intact data. Refuses damaged or truncated compressed
  /// data.
  std::size_t read(void* out, std::size_t count);
  /// Moves to byte `place` of an uncompressed file.
  void seek(std::size_t place);
  /// Refuses data that goes on, and compressed data whose checksum does not match.
  void expect_end();

 private:
  void check_state();
  gzFile file_ = nullptr;
  Refuse refuse_;
};

}  // namespace fluxformer::data
