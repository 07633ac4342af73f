#include "tests/fuzz/repair.hpp"

#include <zlib.h>

#include <algorithm>
#include <string_view>

namespace fluxformer::fuzz {
namespace {

constexpr std::size_t most_unpacked = std::size_t{1} << 24U;

std::uint32_t little(const Bytes& bytes, std::size_t at, std::size_t size = 4) {
  std::uint32_t value = 0;
  for (std::size_t k = size; k-- > 0;) value = value << 8U | bytes[at + k];
  return value;
}

void put_little(Bytes& bytes, std::size_t at, std::uint32_t value) {
  for (std::size_t k = 0; k < 4; ++k, value >>= 8U) bytes[at + k] = static_cast<std::uint8_t>(value);
}

std::uint32_t big(const Bytes& bytes, std::size_t at) {
  return __builtin_bswap32(little(bytes, at));
}

void put_big(Bytes& bytes, std::size_t at, std::uint32_t value) {
  put_little(bytes, at, __builtin_bswap32(value));
}

bool has(const Bytes& bytes, std::size_t at, std::string_view what) {
  return at + what.size() <= bytes.size() &&
         std::equal(what.begin(), what.end(), bytes.begin() + static_cast<std::ptrdiff_t>(at),
                    [](char a, std::uint8_t b) { return static_cast<std::uint8_t>(a) == b; });
}

std::uint32_t crc(const Bytes& bytes, std::size_t at, std::size_t count) {
  return static_cast<std::uint32_t>(crc32(0, bytes.data() + at, static_cast<uInt>(count)));
}

/// Data packed by deflate without a header: the numbers that follow it, and where.
struct Unpacked {
  bool whole = false;
  std::uint32_t crc = 0, adler = 1, size = 0;
  std::size_t end = 0;  ///< of the packed data
};

Unpacked unpack(const Bytes& bytes, std::size_t first) {
  Unpacked result;
  z_stream stream{};
  if (first >= bytes.size() || inflateInit2(&stream, -MAX_WBITS) != Z_OK) return result;
  stream.next_in = const_cast<Bytef*>(bytes.data() + first);
  stream.avail_in = static_cast<uInt>(bytes.size() - first);
  Bytes out(std::size_t{1} << 16U);
  int code = Z_OK;
  while (code == Z_OK && result.size < most_unpacked) {
    stream.next_out = out.data();
    stream.avail_out = static_cast<uInt>(out.size());
    code = inflate(&stream, Z_NO_FLUSH);
    const auto got = static_cast<uInt>(out.size()) - stream.avail_out;
    result.crc = static_cast<std::uint32_t>(crc32(result.crc, out.data(), got));
    result.adler = static_cast<std::uint32_t>(adler32(result.adler, out.data(), got));
    result.size += got;
  }
  result.whole = code == Z_STREAM_END;
  result.end = first + stream.total_in;
  inflateEnd(&stream);
  return result;
}

/// The pixels of a picture, which may lie in several chunks, as one stream.
void repair_pixels(Bytes& bytes, const std::vector<std::pair<std::size_t, std::size_t>>& chunks) {
  Bytes stream;
  for (const auto& [at, size] : chunks)
    stream.insert(stream.end(), bytes.begin() + static_cast<std::ptrdiff_t>(at),
                  bytes.begin() + static_cast<std::ptrdiff_t>(at + size));
  const Unpacked pixels = unpack(stream, 2);
  if (!pixels.whole || pixels.end + 4 > stream.size()) return;
  put_big(stream, pixels.end, pixels.adler);
  auto from = stream.begin();
  for (const auto& [at, size] : chunks) {
    std::copy_n(from, size, bytes.begin() + static_cast<std::ptrdiff_t>(at));
    from += static_cast<std::ptrdiff_t>(size);
  }
}

}  // namespace

void repair_gzip(Bytes& bytes) {
  constexpr std::size_t header = 10;
  if (bytes.size() <= header || !has(bytes, 0, "\x1F\x8B") || bytes[3] != 0) return;
  const Unpacked data = unpack(bytes, header);
  if (!data.whole || data.end + 8 > bytes.size()) return;
  put_little(bytes, data.end, data.crc);
  put_little(bytes, data.end + 4, data.size);
}

void repair_zip(Bytes& bytes) {
  constexpr std::size_t local = 30, central = 46;
  for (std::size_t at = 0; at + central <= bytes.size(); ++at) {
    if (!has(bytes, at, "PK\1\2")) continue;
    const std::size_t place = little(bytes, at + 42), size = little(bytes, at + 20);
    if (little(bytes, at + 10, 2) != 0 || place + local > bytes.size() || !has(bytes, place, "PK\3\4"))
      continue;
    const std::size_t first = place + local + little(bytes, place + 26, 2) + little(bytes, place + 28, 2);
    if (first > bytes.size() || size > bytes.size() - first) continue;
    const std::uint32_t sum = crc(bytes, first, size);
    put_little(bytes, at + 16, sum);
    put_little(bytes, place + 14, sum);
  }
}

void repair_tar(Bytes& bytes) {
  constexpr std::size_t block = 512, sum_at = 148, sum_size = 8;
  for (std::size_t at = 0; at + block <= bytes.size(); at += block) {
    if (!has(bytes, at + 257, "ustar")) continue;
    std::uint32_t sum = sum_size * ' ';
    for (std::size_t k = 0; k < block; ++k)
      if (k < sum_at || k >= sum_at + sum_size) sum += bytes[at + k];
    for (std::size_t k = 6; k-- > 0; sum >>= 3U)
      bytes[at + sum_at + k] = static_cast<std::uint8_t>('0' + (sum & 7U));
    bytes[at + sum_at + 6] = 0;
    bytes[at + sum_at + 7] = ' ';
  }
}

void repair_png(Bytes& bytes) {
  constexpr std::size_t signature = 8, frame = 12;
  std::vector<std::pair<std::size_t, std::size_t>> pixels, chunks;  // place and size of their data
  for (std::size_t at = signature; at + frame <= bytes.size();) {
    const std::size_t size = big(bytes, at);
    if (size > bytes.size() - at - frame) break;
    chunks.emplace_back(at + 8, size);
    if (has(bytes, at + 4, "IDAT")) pixels.emplace_back(at + 8, size);
    at += size + frame;
  }
  repair_pixels(bytes, pixels);
  for (const auto& [at, size] : chunks) put_big(bytes, at + size, crc(bytes, at - 4, size + 4));
}

}  // namespace fluxformer::fuzz
