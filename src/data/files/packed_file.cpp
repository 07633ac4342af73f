#include "data/files/packed_file.hpp"

#include <archive_entry.h>

#include <cerrno>
#include <fstream>

#include "base/error.hpp"
#include "base/text_stream.hpp"

namespace fluxformer::data {

PackedFile::PackedFile(std::filesystem::path path, Kind kind, std::string advice)
    : path_(std::move(path)), advice_(std::move(advice)), reader_(archive_read_new()) {
  if (reader_ == nullptr) throw std::bad_alloc();
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path_, ignored)) refuse("is not a file");
  if (kind == Kind::tar_gz) {
    source_ = std::make_unique<GzipSource>(path_, [this](const std::string& what) { refuse(what); });
    portion_.resize(std::size_t{1} << 16U);
    expect(archive_read_support_format_tar(reader_.get()), "cannot be read as tar");
    expect(archive_read_open(reader_.get(), this, nullptr, feed, nullptr), "is not a tar.gz archive");
    if (!source_->compressed()) refuse("is not gzip'd");
  } else {
    if (!std::ifstream(path_)) refuse("cannot be opened");
    // Only by the table at the end of the file: a truncated zip has none and is refused immediately.
    expect(archive_read_support_format_zip_seekable(reader_.get()), "cannot be read as zip");
    expect(archive_read_open_filename(reader_.get(), path_.c_str(), std::size_t{1} << 16U),
           "is truncated or not a zip archive");
  }
}

la_ssize_t PackedFile::feed(archive* reader, void* me, const void** bytes) {
  auto& self = *static_cast<PackedFile*>(me);
  try {
    *bytes = self.portion_.data();
    return static_cast<la_ssize_t>(self.source_->read(self.portion_.data(), self.portion_.size()));
  } catch (...) {  // must not cross libarchive
    self.thrown_ = std::current_exception();
    archive_set_error(reader, EIO, "source");
    return -1;
  }
}

bool PackedFile::next() {
  for (;;) {
    archive_entry* entry = nullptr;
    const int code = archive_read_next_header(reader_.get(), &entry);
    if (code == ARCHIVE_EOF) {
      // The rest after the last file must decompress too, up to the checksum.
      while (source_ != nullptr && source_->read(portion_.data(), portion_.size()) > 0) continue;
      return false;
    }
    const std::string place = name_.empty() ? "its first file" : "the file after '" + name_ + "'";
    expect(code, "is damaged in " + place);
    if (archive_entry_filetype(entry) != AE_IFREG) continue;
    const char* name = archive_entry_pathname(entry);
    if (name == nullptr) fail("has no readable name for " + place);  // UTF-8 beyond ASCII in the C locale
    if (path_parts(name).empty()) continue;
    name_ = name;
    return true;
  }
}

std::size_t PackedFile::read(char* out, std::size_t count) {
  refuse_unusual_packing();
  std::size_t got = 0;
  while (got < count) {
    const la_ssize_t now = archive_read_data(reader_.get(), out + got, count - got);
    if (now < 0) fail("is damaged in its file '" + name_ + "'");
    if (now == 0) break;
    got += static_cast<std::size_t>(now);
  }
  return got;
}

std::string PackedFile::read() {
  std::string bytes;
  std::string portion(std::size_t{1} << 16U, '\0');
  for (;;) {
    const std::size_t got = read(portion.data(), portion.size());
    if (got == 0) return bytes;
    bytes.append(portion, 0, got);
    if (bytes.size() > largest) {
      refuse("holds '" + name_ + "' of more than " + std::to_string(largest) + " bytes");
    }
  }
}

void PackedFile::refuse_unusual_packing() const {
  if (source_ != nullptr) return;
  const std::string form = archive_format_name(reader_.get());  // "ZIP 2.0 (deflation)"
  for (const char* usual : {"(uncompressed)", "(deflation)"})
    if (form.ends_with(usual)) return;
  refuse("holds '" + name_ + "' packed in an unusual way: " + form + " where deflation was expected");
}

void PackedFile::expect(int code, const std::string& what) {
  // "Retry" means that this file is lost, but the next one may be read.
  if (code < ARCHIVE_WARN || code == ARCHIVE_RETRY) fail(what);
}

void PackedFile::fail(const std::string& what) {
  if (thrown_ != nullptr) std::rethrow_exception(thrown_);
  const char* words = archive_error_string(reader_.get());
  refuse(what + (words == nullptr ? "" : " (" + std::string(words) + ")"));
}

void PackedFile::refuse(const std::string& what) const {
  throw BadInput(path_.string() + " " + what + ". " + advice_);
}

std::vector<std::string> path_parts(const std::string& name) {
  std::vector<std::string> parts;
  auto rest = text_stream(name);
  for (std::string part; std::getline(rest, part, '/');) {
    if (!part.empty() && part != ".") parts.push_back(part);
  }
  return parts;
}

}  // namespace fluxformer::data
