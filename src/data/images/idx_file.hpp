#pragma once

// Reader of the IDX format of the MNIST files: big-endian header, then unsigned bytes; plain or gzip'd.
// Format: bytes 0 0 0x08 r (magic 0x0800 + r), r sizes of 4 bytes, then the product of the sizes in bytes.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

namespace fluxformer::data {

/// One IDX file of unsigned bytes. Not collective; every member throws BadInput that names the file, says
/// what is wrong with it and what to do.
class IdxFile {
 public:
  /// Reads and checks the header: an array of `dimensions` axes is expected. A plain file's length is
  /// compared with the header at once, that of a compressed one is bounded by what deflate can pack.
  IdxFile(std::filesystem::path path, int dimensions);

  /// Sizes of the axes, the record axis first.
  const std::vector<std::size_t>& shape() const { return shape_; }
  std::size_t records() const { return shape_.front(); }
  /// Bytes per record.
  std::size_t record_size() const { return record_size_; }

  /// Records first..first+count-1, one after the other (count * record_size() bytes). A plain file is read
  /// only where asked; a compressed one is unpacked to its end (keeping only what was asked), so that its
  /// check sum covers all of it. Throws std::out_of_range for records that are not there.
  std::vector<std::uint8_t> read(std::size_t first, std::size_t count) const;
  std::vector<std::uint8_t> read() const { return read(0, records()); }

 private:
  [[noreturn]] void refuse(const std::string& what) const;
  void check_length(bool compressed) const;

  std::filesystem::path path_;
  std::vector<std::size_t> shape_;
  std::size_t record_size_ = 1;
  std::size_t payload_ = 0;  ///< bytes after the header, as the header says
  std::size_t header_ = 0;   ///< bytes of the header
};

}  // namespace fluxformer::data
