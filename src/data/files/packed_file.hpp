#pragma once

// The files of a tar.gz or zip, one after the other, without unpacking what is not wanted.

#include <archive.h>

#include <exception>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "data/files/gzip_source.hpp"

namespace fluxformer::data {

/// Walks through an archive in the order it is packed in. Not collective; every member throws BadInput that
/// names the archive and says what is wrong with it: not an archive of this kind, truncated, damaged.
class PackedFile {
 public:
  /// A tar.gz is read in full, so its checksum covers skipped entries; skipped entries of a zip are not read.
  enum class Kind { tar_gz, zip };

  PackedFile(std::filesystem::path path, Kind kind);
  PackedFile(const PackedFile&) = delete;
  PackedFile& operator=(const PackedFile&) = delete;
  ~PackedFile() = default;

  /// Goes to the next file; false at the end of the intact archive. Folders, links and what has no name of
  /// its own ("", ".", "/") are passed over.
  bool next();
  /// Path of the file within the archive, folders separated by '/': one of `path_parts` at least.
  const std::string& name() const { return name_; }
  /// The bytes of the file, at most `largest` of them; once per file.
  std::string read();
  /// Throws BadInput: the archive's name, `what`, and advice.
  [[noreturn]] void refuse(const std::string& what) const;

  /// No post and no drawing comes near; a header that announces more is refused before memory is.
  static constexpr std::size_t largest = std::size_t{1} << 24U;

 private:
  struct Release {
    void operator()(archive* reader) const { archive_read_free(reader); }
  };
  static la_ssize_t feed(archive* reader, void* me, const void** bytes);
  /// Throws what the source threw inside libarchive, else `what` with libarchive's words.
  [[noreturn]] void fail(const std::string& what);
  void expect(int code, const std::string& what);

  std::filesystem::path path_;
  std::unique_ptr<GzipSource> source_;  ///< of a tar.gz: unlike libarchive it compares the check sum
  std::vector<char> portion_;
  std::exception_ptr thrown_;
  std::unique_ptr<archive, Release> reader_;  ///< destroyed before what it reads from
  std::string name_;
};

/// The path of an archive's file, cut at '/'; "." is left out.
std::vector<std::string> path_parts(const std::string& name);

}  // namespace fluxformer::data
