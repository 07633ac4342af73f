#include "data/files/gzip_source.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

namespace fluxformer::data {

GzipSource::GzipSource(const std::filesystem::path& path, Refuse refuse) : refuse_(std::move(refuse)) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) refuse_("does not exist");
  if (!std::filesystem::is_regular_file(path, ignored)) refuse_("is not a file");
  if (std::filesystem::file_size(path, ignored) == 0) refuse_("is empty");
  errno = 0;
  file_ = gzopen(path.c_str(), "rb");
  if (file_ == nullptr) refuse_(std::string("cannot be opened: ") + std::strerror(errno));
  gzbuffer(file_, 1U << 17U);
}

GzipSource::~GzipSource() {
  if (file_ != nullptr) gzclose_r(file_);
}

std::size_t GzipSource::read(void* out, std::size_t count) {
  constexpr std::size_t portion = std::size_t{1} << 30U;  // gzread counts in int
  auto* place = static_cast<char*>(out);
  std::size_t got = 0;
  while (got < count) {
    const int now = gzread(file_, place + got, static_cast<unsigned>(std::min(portion, count - got)));
    if (now > 0) got += static_cast<std::size_t>(now);
    check_state();
    if (now <= 0) break;
  }
  return got;
}

void GzipSource::seek(std::size_t place) {
  if (gzseek(file_, static_cast<z_off_t>(place), SEEK_SET) < 0) refuse_("cannot be read: seek failed");
}

void GzipSource::expect_end() {
  char beyond = 0;
  if (read(&beyond, 1) != 0) refuse_("continues after the last record its header announces");
}

void GzipSource::check_state() {
  int code = Z_OK;
  std::string text = gzerror(file_, &code);  // "<path>: <what>"
  if (const auto colon = text.rfind(": "); colon != std::string::npos) text.erase(0, colon + 2);
  switch (code) {
    case Z_OK:
    case Z_STREAM_END:
      return;
    case Z_BUF_ERROR:
      refuse_("is truncated: its compressed data ends too early");
      break;
    case Z_DATA_ERROR:
      refuse_("is damaged: its compressed data does not unpack (" + text + ")");
      break;
    default:
      refuse_(std::string("cannot be read: ") + (code == Z_ERRNO ? std::strerror(errno) : text));
  }
}

}  // namespace fluxformer::data
