#pragma once

// Reader of the IDX format of the MNIST files: big-endian header, then unsigned bytes; plain or gzip'd.
// Format: bytes 0 0 0x08 r (magic 0x0800 + r), r sizes of 4 bytes, then the product of the sizes in bytes.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

namespace fluxformer::data {

/// One IDX file of unsigned bytes. Not collective. Every member throws BadInput that names the file and says
/// what is wrong with it and what to do.
class IdxFile {
 public:
  /// Reads and checks the header: an array of `dimensions` axes is expected. The length of a plain file must
  /// be what the header says; that of a compressed one must be possible for deflate.
  IdxFile(std::filesystem::path path, int dimensions);

  /// Sizes of the axes, the record axis first.
  const std::vector<std::size_t>& shape() const { return shape_; }
  std::size_t records() const { return shape_.front(); }
  /// Bytes per record.
  std::size_t record_size() const { return record_size_; }

  /// Records first..first+count-1 (count * record_size() bytes). Of a plain file only these are read; a
  /// compressed one is decompressed to its end, so that its checksum is verified. Throws std::out_of_range
  /// for records that do not exist.
  std::vector<std::uint8_t> read(std::size_t first, std::size_t count) const;
  std::vector<std::uint8_t> read() const { return read(0, records()); }

 private:
  [[noreturn]] void refuse(const std::string& what) const;
  void check_length(bool compressed) const;

  std::filesystem::path path_;
  std::vector<std::size_t> shape_;
  std::size_t record_size_ = 1;
  std::size_t payload_ = 0;  ///< bytes after the header, according to the header
  std::size_t header_ = 0;   ///< bytes of the header
};

}  // namespace fluxformer::data
