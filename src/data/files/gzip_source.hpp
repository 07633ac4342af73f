#pragma once

// Bytes of a file that may be gzip'd, with every way of being damaged told apart.

#include <zlib.h>

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>

namespace fluxformer::data {

/// Owns an open file; plain files pass through unchanged.
class GzipSource {
 public:
  /// `refuse(what)` must throw; it is told what is wrong with the file.
  using Refuse = std::function<void(const std::string&)>;

  GzipSource(const std::filesystem::path& path, Refuse refuse);
  GzipSource(const GzipSource&) = delete;
  GzipSource& operator=(const GzipSource&) = delete;
  ~GzipSource();

  bool compressed() { return gzdirect(file_) == 0; }
  /// Up to `count` bytes; fewer only at the end of intact data. Refuses damaged or truncated compressed data.
  std::size_t read(void* out, std::size_t count);
  /// Goes to byte `place` of a plain file.
  void seek(std::size_t place);
  /// Refuses unless the data ends here, with a matching check sum where compressed.
  void expect_end();

 private:
  void check_state();
  gzFile file_ = nullptr;
  Refuse refuse_;
};

}  // namespace fluxformer::data
