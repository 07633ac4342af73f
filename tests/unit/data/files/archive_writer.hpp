#pragma once

// Small tar.gz and zip archives, trees and PNG files, made independently of the readers under test.

#include <archive.h>
#include <archive_entry.h>
#include <png.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace fluxformer::test {

/// Path within the archive or tree, and contents.
using Members = std::vector<std::pair<std::string, std::string>>;

inline void write_text(const std::filesystem::path& path, const std::string& bytes) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
}

inline void write_tree(const std::filesystem::path& folder, const Members& members) {
  for (const auto& [name, bytes] : members) write_text(folder / name, bytes);
}

/// A .zip or .tar if the path has that suffix, else a tar.gz.
inline void write_archive(const std::filesystem::path& path, const Members& members) {
  std::filesystem::create_directories(path.parent_path());
  archive* const out = archive_write_new();
  if (path.extension() == ".zip") {
    archive_write_set_format_zip(out);
  } else {
    archive_write_set_format_ustar(out);
    if (path.extension() != ".tar") archive_write_add_filter_gzip(out);
  }
  archive_write_open_filename(out, path.c_str());
  for (const auto& [name, bytes] : members) {
    archive_entry* const entry = archive_entry_new();
    archive_entry_set_pathname(entry, name.c_str());
    archive_entry_set_filetype(entry, AE_IFREG);
    archive_entry_set_perm(entry, 0644);
    archive_entry_set_size(entry, static_cast<la_int64_t>(bytes.size()));
    archive_write_header(out, entry);
    archive_write_data(out, bytes.data(), bytes.size());
    archive_entry_free(entry);
  }
  archive_write_close(out);
  archive_write_free(out);
}

/// A PNG of one bit per pixel: white, with ink (0) at the given places [row, column].
inline std::string png_of(int width, int height, const std::vector<std::pair<int, int>>& ink) {
  std::string bytes;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(
      png, &bytes,
      [](png_structp p, png_bytep data, std::size_t count) {
        static_cast<std::string*>(png_get_io_ptr(p))->append(reinterpret_cast<const char*>(data), count);
      },
      nullptr);
  png_set_IHDR(png, info, static_cast<png_uint_32>(width), static_cast<png_uint_32>(height), 1,
               PNG_COLOR_TYPE_GRAY, PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  png_write_info(png, info);
  std::map<int, std::vector<int>> rows;
  for (const auto& [row, column] : ink) rows[row].push_back(column);
  for (int row = 0; row < height; ++row) {
    std::vector<png_byte> packed(static_cast<std::size_t>((width + 7) / 8), 0xFF);
    for (const int column : rows[row]) {
      auto& byte = packed[column / 8];
      byte = static_cast<png_byte>(byte & ~(0x80 >> column % 8));
    }
    png_write_row(png, packed.data());
  }
  png_write_end(png, nullptr);
  png_destroy_write_struct(&png, &info);
  return bytes;
}

}  // namespace fluxformer::test
