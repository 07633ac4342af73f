// The checksums of HDF5's metadata: https://docs.hdfgroup.org/hdf5/v1_10/_f_m_t3.html

#include <algorithm>
#include <bit>
#include <string_view>

#include "tests/fuzz/repair.hpp"

namespace fluxformer::fuzz {
namespace {

/// Bob Jenkins' lookup3, hashlittle with an initial value of 0.
std::uint32_t lookup3(const std::uint8_t* bytes, std::size_t count) {
  std::uint32_t a = 0xDEADBEEFU + static_cast<std::uint32_t>(count), b = a, c = a;
  const auto word = [&](std::size_t at, std::size_t size) {
    std::uint32_t value = 0;
    for (std::size_t k = 0; k < 4 && at + k < size; ++k)
      value |= static_cast<std::uint32_t>(bytes[at + k]) << 8U * k;
    return value;
  };
  const auto mix = [](std::uint32_t& x, std::uint32_t y, int bits) {
    x -= y;
    x ^= std::rotl(y, bits);
  };
  for (; count > 12; count -= 12, bytes += 12) {
    a += word(0, 12), b += word(4, 12), c += word(8, 12);
    mix(a, c, 4), c += b;
    mix(b, a, 6), a += c;
    mix(c, b, 8), b += a;
    mix(a, c, 16), c += b;
    mix(b, a, 19), a += c;
    mix(c, b, 4), b += a;
  }
  if (count == 0) return c;
  a += word(0, count), b += word(4, count), c += word(8, count);
  const auto finish = [](std::uint32_t& x, std::uint32_t y, int bits) {
    x ^= y;
    x -= std::rotl(y, bits);
  };
  finish(c, b, 14), finish(a, c, 11), finish(b, a, 25), finish(c, b, 16);
  finish(a, c, 4), finish(b, a, 14), finish(c, b, 24);
  return c;
}

/// Metadata as bytes, with addresses and lengths of 8 bytes.
struct File {
  Bytes& bytes;

  std::uint64_t number(std::size_t at, std::size_t size) const {
    std::uint64_t value = 0;
    for (std::size_t k = size; k-- > 0;) value = value << 8U | (at + k < bytes.size() ? bytes[at + k] : 0);
    return value;
  }
  bool has(std::size_t at, std::string_view what) const {
    return at <= bytes.size() && what.size() <= bytes.size() - at &&
           std::equal(what.begin(), what.end(), bytes.begin() + static_cast<std::ptrdiff_t>(at));
  }
  void put(std::size_t at, std::uint32_t value) {
    for (std::size_t k = 0; k < 4; ++k, value >>= 8U) bytes[at + k] = static_cast<std::uint8_t>(value);
  }
  /// The sum of `count` bytes stands behind them.
  void repair(std::uint64_t first, std::uint64_t count) {
    if (first > bytes.size() || count > bytes.size() - first || bytes.size() - first - count < 4) return;
    put(first + count, lookup3(bytes.data() + first, count));
  }
  /// The sum of `count` bytes stands among them, counted as zero.
  void repair_within(std::uint64_t first, std::uint64_t count, std::size_t at) {
    if (first > bytes.size() || count > bytes.size() - first || at + 4 > first + count) return;
    put(at, 0);
    put(at, lookup3(bytes.data() + first, count));
  }
};

void repair_object_header(File& file, std::size_t at) {
  const auto flags = file.number(at + 5, 1);
  const std::size_t head = 6 + ((flags & 0x20U) != 0 ? 16 : 0) + ((flags & 0x10U) != 0 ? 4 : 0);
  const std::size_t width = std::size_t{1} << (flags & 3U);
  file.repair(at, head + width + file.number(at + head, width));
}

/// Repairs the length of a continuation, which stands with its address in the message (type 16, 16 bytes)
/// that continues an object header.
void repair_continuation(File& file, std::size_t at) {
  const auto message = [&](std::size_t k) { return file.number(k, 1) == 16 && file.number(k + 1, 2) == 16; };
  for (std::size_t k = 6; k + 16 <= file.bytes.size(); ++k) {
    if (file.number(k, 8) != at || !(message(k - 4) || message(k - 6))) continue;
    const auto length = file.number(k + 8, 8);
    if (length >= 8 && length <= file.bytes.size()) return file.repair(at, length - 4);
  }
}

void repair_tree(File& file, std::size_t at) {
  file.repair(at, 34);
  const auto root = file.number(at + 16, 8), records = file.number(at + 24, 2);
  if (file.number(at + 12, 2) == 0 && root < file.bytes.size() && file.has(root, "BTLF"))
    file.repair(root, 6 + records * file.number(at + 10, 2));
}

void repair_heap(File& file, std::size_t at) {
  file.repair(at, 142);
  const auto block = file.number(at + 112, 8), bits = file.number(at + 128, 2),
             root = file.number(at + 132, 8);
  const bool with_sum = (file.number(at + 9, 1) & 2U) != 0;
  if (with_sum && file.number(at + 140, 2) == 0 && root < file.bytes.size() && file.has(root, "FHDB"))
    file.repair_within(root, block, root + 13 + (bits + 7) / 8);
}

}  // namespace

void repair_hdf5(Bytes& bytes) {
  File file{bytes};
  if (file.has(0, "\x89HDF") && (file.number(8, 1) == 2 || file.number(8, 1) == 3)) file.repair(0, 44);
  for (std::size_t at = 0; at + 4 <= bytes.size(); ++at) {
    if (bytes[at] < 'B' || bytes[at] > 'O') continue;
    if (file.has(at, "OHDR")) repair_object_header(file, at);
    if (file.has(at, "OCHK")) repair_continuation(file, at);
    if (file.has(at, "BTHD")) repair_tree(file, at);
    if (file.has(at, "FRHP")) repair_heap(file, at);
    if (file.has(at, "FAHD")) file.repair(at, 24);
    if (file.has(at, "EAHD")) file.repair(at, 68);
  }
}

}  // namespace fluxformer::fuzz
