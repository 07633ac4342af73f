#pragma once

// Reads the files of a tar.gz or zip one by one, without unpacking the others.

#include <archive.h>

#include <exception>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "data/files/gzip_source.hpp"

namespace fluxformer::data {

/// Reads the files of an archive in the archive's order. Not collective. Every member throws BadInput that
/// names the archive and says what is wrong with it: not an archive of this kind, truncated, damaged.
class PackedFile {
 public:
  /// A tar.gz is read in full, so its checksum covers skipped entries; skipped entries of a zip are not read.
  enum class Kind { tar_gz, zip };

  /// Opens the archive. A truncated zip is refused here, a truncated tar.gz when its end is reached. `advice`
  /// ends the messages.
  PackedFile(std::filesystem::path path, Kind kind,
             std::string advice = "Download the file again (check it with sha256sum).");
  PackedFile(const PackedFile&) = delete;
  PackedFile& operator=(const PackedFile&) = delete;
  ~PackedFile() = default;

  /// Moves to the next file; false at the end of the intact archive. Folders, links and entries without a
  /// name of their own ("", ".", "/") are skipped.
  bool next();
  /// The path of the current file within the archive, folders separated by '/'; it has at least one of
  /// `path_parts`.
  const std::string& name() const { return name_; }
  /// The content of the current file, at most `largest` bytes. May be called once per file. From a zip, only
  /// stored and deflated files are read: other packings may announce a dictionary of gigabytes.
  std::string read();
  /// The next bytes of the current file, at most `count`; fewer only at its end, where its checksum has been
  /// verified.
  std::size_t read(char* out, std::size_t count);
  /// Throws BadInput with the archive's name, `what` and advice.
  [[noreturn]] void refuse(const std::string& what) const;

  /// Largest file in bytes, far more than any post or drawing has. A larger one is refused before memory is
  /// allocated for it.
  static constexpr std::size_t largest = std::size_t{1} << 24U;

 private:
  struct Release {
    void operator()(archive* reader) const { archive_read_free(reader); }
  };
  static la_ssize_t feed(archive* reader, void* me, const void** bytes);
  /// Throws what the source threw inside libarchive, else `what` with libarchive's words.
  [[noreturn]] void fail(const std::string& what);
  void expect(int code, const std::string& what);
  void refuse_unusual_packing() const;

  std::filesystem::path path_;
  std::string advice_;
  std::unique_ptr<GzipSource> source_;  ///< the bytes of a tar.gz: unlike libarchive it verifies the checksum
  std::vector<char> portion_;
  std::exception_ptr thrown_;
  std::unique_ptr<archive, Release> reader_;  ///< destroyed before its source
  std::string name_;
};

/// The path of a file in an archive, split at '/'; "." is left out.
std::vector<std::string> path_parts(const std::string& name);

}  // namespace fluxformer::data
