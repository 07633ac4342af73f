#include "data/images/mnist.hpp"

#include <gtest/gtest.h>

#include "tests/unit/data/images/idx_writer.hpp"

namespace fluxformer::test {
namespace {

using testing::AssertionFailure;
using testing::AssertionResult;
using testing::AssertionSuccess;

Bytes read_all(const std::filesystem::path& path, int dimensions) {
  return data::IdxFile(path, dimensions).read();
}

/// The file is refused, and the message names it, contains `what` and says what to do.
AssertionResult refused(const std::filesystem::path& path, int dimensions, const std::string& what) {
  const std::string message = complaint([&] { read_all(path, dimensions); });
  if (message.empty()) return AssertionFailure() << path << " was accepted";
  for (const std::string& part : {path.string(), what, std::string("Download the file again")}) {
    if (message.find(part) == std::string::npos)
      return AssertionFailure() << "'" << part << "' not in: " << message;
  }
  return AssertionSuccess();
}

TEST(IdxFile, reads_back_what_was_written_plain_and_compressed) {
  const TemporaryFolder folder;
  const Bytes payload = ramp(5 * 3 * 2);
  write(folder / "plain", idx({5, 3, 2}, payload));
  write_gzip(folder / "packed.gz", idx({5, 3, 2}, payload));
  write_gzip(folder / "packed_without_the_ending", idx({5, 3, 2}, payload));
  for (const char* name : {"plain", "packed.gz", "packed_without_the_ending"}) {
    const data::IdxFile file(folder / name, 3);
    EXPECT_EQ(file.shape(), (std::vector<std::size_t>{5, 3, 2})) << name;
    EXPECT_EQ(file.records(), 5U);
    EXPECT_EQ(file.read(), payload) << name;
  }
}

TEST(IdxFile, a_range_is_the_same_records_as_in_the_whole) {
  const TemporaryFolder folder;
  const std::size_t records = 1000, size = 91;  // longer than the buffer that skips records in a packed file
  const Bytes payload = ramp(records * size);
  write(folder / "plain", idx({1000, 7, 13}, payload));
  write_gzip(folder / "packed", idx({1000, 7, 13}, payload));
  for (const char* name : {"plain", "packed"}) {
    const data::IdxFile file(folder / name, 3);
    for (const auto& [first, count] :
         std::vector<std::pair<std::size_t, std::size_t>>{{0, 1}, {3, 4}, {990, 10}, {1000, 0}, {0, 1000}}) {
      const auto begin = payload.begin() + static_cast<std::ptrdiff_t>(first * size);
      EXPECT_EQ(file.read(first, count), Bytes(begin, begin + static_cast<std::ptrdiff_t>(count * size)))
          << name << ' ' << first << '+' << count;
    }
    EXPECT_THROW(file.read(999, 2), std::out_of_range);
    EXPECT_THROW(file.read(1001, 0), std::out_of_range);
  }
}

TEST(IdxFile, refuses_what_is_not_an_idx_file_of_bytes) {
  const TemporaryFolder folder;
  EXPECT_TRUE(refused(folder / "missing", 1, "does not exist"));
  EXPECT_TRUE(refused(folder.path(), 1, "is not a file"));
  write(folder / "empty", {});
  EXPECT_TRUE(refused(folder / "empty", 1, "is empty"));
  write_gzip(folder / "packed_nothing", {});
  EXPECT_TRUE(refused(folder / "packed_nothing", 1, "ends within its header"));
  write(folder / "html", Bytes{'<', 'h', 't', 'm', 'l', '>', '4', '0', '4'});
  EXPECT_TRUE(refused(folder / "html", 1, "begins with 0x3c68746d, expected 0x801"));
  Bytes floats = idx({4}, ramp(16));
  floats[2] = 0x0D;
  write(folder / "floats", floats);
  EXPECT_TRUE(refused(folder / "floats", 1, "not an IDX file of unsigned bytes"));
  write(folder / "labels", idx({4}, ramp(4)));
  EXPECT_TRUE(refused(folder / "labels", 3, "images and labels swapped?"));
  write(folder / "short_header", {0, 0, 8, 3, 0, 0, 0, 1, 0, 0});
  EXPECT_TRUE(refused(folder / "short_header", 3, "ends within its header"));
  write(folder / "no_records", idx({0, 28, 28}, {}));
  EXPECT_TRUE(refused(folder / "no_records", 3, "holds no data"));
}

TEST(IdxFile, refuses_a_length_that_contradicts_the_header) {
  const TemporaryFolder folder;
  for (const std::size_t length : {59U, 61U, 1U, 0U}) {
    const std::string what = length > 60 ? "continues after" : "is truncated";
    write(folder / "plain", idx({10, 3, 2}, ramp(length)));
    EXPECT_TRUE(refused(folder / "plain", 3, what)) << length;
    write_gzip(folder / "packed", idx({10, 3, 2}, ramp(length)));
    EXPECT_TRUE(refused(folder / "packed", 3, what)) << length;
  }
}

TEST(IdxFile, refuses_absurd_sizes_before_allocating_for_them) {
  const TemporaryFolder folder;
  const std::uint32_t huge = 0xFFFFFFFFU;
  // 2^32 x 28 x 28 = 3 TiB would be requested; 2^96 does not fit into 64 bits and may wrap around to a small
  // number.
  for (const auto& shape :
       {std::vector<std::uint32_t>{huge, 28, 28}, {huge, huge, huge}, {1U << 31U, 1U << 31U, 4}}) {
    const bool countable = shape[1] == 28;
    write(folder / "plain", idx(shape, ramp(100)));
    EXPECT_TRUE(refused(folder / "plain", 3, countable ? "is truncated" : "more than any file"));
    write_gzip(folder / "packed", idx(shape, ramp(100)));
    EXPECT_TRUE(
        refused(folder / "packed", 3, countable ? "compressed bytes can hold" : "more than any file"));
  }
}

TEST(IdxFile, refuses_compressed_data_cut_off_anywhere) {
  const TemporaryFolder folder;
  write_gzip(folder / "good", idx({20, 3, 2}, ramp(120)));
  const Bytes good = contents(folder / "good");
  for (std::size_t length = 1; length < good.size(); ++length) {
    write(folder / "cut", Bytes(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(length)));
    EXPECT_NE(complaint([&] { read_all(folder / "cut", 3); }), "")
        << "cut to " << length << " of " << good.size();
  }
  write(folder / "cut", Bytes(good.begin(), good.end() - 1));  // within the checksum: all records are present
  EXPECT_TRUE(refused(folder / "cut", 3, "compressed data ends too early"));
}

TEST(IdxFile, a_flipped_bit_never_gives_wrong_records_and_is_found_even_outside_the_range_asked_for) {
  const TemporaryFolder folder;
  write_gzip(folder / "good", idx({20, 3, 2}, ramp(120)));
  const Bytes good = contents(folder / "good");
  constexpr std::size_t gzip_header = 10;  // time stamp and system, not covered by any checksum
  for (std::size_t place = gzip_header; place < good.size(); ++place) {
    Bytes bad = good;
    bad[place] ^= 0x10U;
    write(folder / "bad", bad);
    const std::string message = complaint([&] { data::IdxFile(folder / "bad", 3).read(0, 1); });
    // The padding bits in the last byte of the deflate stream (before the checksum and the length) are
    // unused.
    const bool may_be_padding = place + 9 == good.size();
    EXPECT_TRUE(!message.empty() || may_be_padding) << "byte " << place;
  }
  Bytes bad = good;
  bad[bad.size() - 6] ^= 1U;  // the stored checksum
  write(folder / "bad", bad);
  EXPECT_TRUE(refused(folder / "bad", 3, "does not unpack (incorrect data check)"));
}

}  // namespace
}  // namespace fluxformer::test
