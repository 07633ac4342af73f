#include "tests/fuzz/mutation.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace fluxformer::fuzz {
namespace {

using Place = std::ptrdiff_t;

constexpr std::array<std::int64_t, 30> interesting{0,
                                                   1,
                                                   -1,
                                                   2,
                                                   3,
                                                   4,
                                                   7,
                                                   8,
                                                   16,
                                                   31,
                                                   32,
                                                   63,
                                                   64,
                                                   100,
                                                   127,
                                                   128,
                                                   255,
                                                   256,
                                                   1000,
                                                   4095,
                                                   32767,
                                                   32768,
                                                   65535,
                                                   65536,
                                                   1 << 24,
                                                   2147483647,
                                                   2147483648LL,
                                                   4294967295LL,
                                                   1099511627776LL,
                                                   INT64_MIN};

constexpr std::array<std::string_view, 44> words{"[",
                                                 "]",
                                                 "=",
                                                 "#",
                                                 "\n",
                                                 "\r\n",
                                                 " ",
                                                 "\t",
                                                 ".",
                                                 "..",
                                                 "/",
                                                 "../",
                                                 "//",
                                                 "-",
                                                 "+",
                                                 "_",
                                                 "e",
                                                 "1e309",
                                                 "-1e309",
                                                 "nan",
                                                 "inf",
                                                 "-0",
                                                 "0x1",
                                                 "99999999999999999999",
                                                 "-9223372036854775808",
                                                 "true",
                                                 "on",
                                                 "auto",
                                                 "{seed}",
                                                 "[petsc]\n",
                                                 "[mesh]\n",
                                                 "[data]\n",
                                                 "\xEF\xBB\xBF",
                                                 "\xFF\xFE",
                                                 "\xC0\x80",
                                                 "<pad>",
                                                 ".png",
                                                 "00000000000",
                                                 "77777777777",
                                                 "PaxHeader",
                                                 "\x93NUMPY\1",
                                                 "'|O'",
                                                 "True",
                                                 "(4294967296, 4)"};

constexpr std::array<std::string_view, 10> numbers{"0",           "-1",
                                                   "1",           "2147483648",
                                                   "4294967296",  "18446744073709551616",
                                                   "1e400",       "00000000000000000000001",
                                                   "77777777777", "0.1e-400"};

struct Mutation {
  Bytes& bytes;
  std::span<const std::uint8_t> other;
  Draws& draws;

  std::size_t place() { return draws.below(bytes.size()); }
  /// Mostly short.
  std::size_t length(std::size_t most) {
    const std::size_t bound = draws.one_in(4) ? most : std::min<std::size_t>(most, 16);
    return std::min(most, 1 + draws.below(bound));
  }
  auto at(std::size_t where) { return bytes.begin() + static_cast<Place>(where); }

  void flip_bit() { bytes[place()] ^= static_cast<std::uint8_t>(1U << draws.below(8)); }
  void set_byte() { bytes[place()] = static_cast<std::uint8_t>(draws.next()); }

  /// A number of 1, 2, 4 or 8 bytes, in either order, becomes an interesting one or changes a little.
  void change_number() {
    const std::size_t size = std::size_t{1} << draws.below(4);
    if (bytes.size() < size) return set_byte();
    const std::size_t where = draws.below(bytes.size() - size + 1);
    const bool reversed = draws.one_in(2);
    const auto digit = [&](std::size_t k) -> std::uint8_t& {
      return bytes[where + (reversed ? size - 1 - k : k)];
    };
    std::uint64_t value = 0;
    for (std::size_t k = size; k-- > 0;) value = value << 8U | digit(k);
    if (draws.one_in(3))
      value += draws.below(33) - 16;
    else
      value = static_cast<std::uint64_t>(interesting[draws.below(interesting.size())]);
    for (std::size_t k = 0; k < size; ++k, value >>= 8U) digit(k) = static_cast<std::uint8_t>(value);
  }

  void insert() {
    const std::size_t count = length(256);
    const auto value = static_cast<std::uint8_t>(draws.next());
    const bool same = draws.one_in(2);
    Bytes fresh(count, value);
    if (!same)
      for (auto& byte : fresh) byte = static_cast<std::uint8_t>(draws.next());
    bytes.insert(at(draws.below(bytes.size() + 1)), fresh.begin(), fresh.end());
  }

  void remove() {
    const std::size_t first = place();
    bytes.erase(at(first), at(first + length(bytes.size() - first)));
  }

  void cut() { bytes.resize(draws.below(bytes.size() + 1)); }

  void fill() {
    const std::size_t first = place();
    const auto value = static_cast<std::uint8_t>(draws.one_in(2) ? 0 : draws.one_in(2) ? 0xFF : draws.next());
    std::fill_n(at(first), length(bytes.size() - first), value);
  }

  /// A block of this or the other seed, inserted or written over.
  void copy_block() {
    const bool foreign = draws.one_in(2) && !other.empty();
    const std::span<const std::uint8_t> from = foreign ? other : std::span<const std::uint8_t>(bytes);
    const std::size_t first = draws.below(from.size());
    const std::size_t count = length(from.size() - first);
    const Bytes block(from.begin() + static_cast<Place>(first),
                      from.begin() + static_cast<Place>(first + count));
    const std::size_t where = place();
    if (draws.one_in(2))
      bytes.insert(at(where), block.begin(), block.end());
    else
      std::copy_n(block.begin(), std::min(count, bytes.size() - where), at(where));
  }

  /// The head of this and the tail of the other.
  void splice() {
    if (other.empty()) return copy_block();
    const std::size_t where = place();
    bytes.resize(where);
    const auto tail =
        other.subspan(draws.one_in(2) ? std::min(where, other.size() - 1) : draws.below(other.size()));
    bytes.insert(bytes.end(), tail.begin(), tail.end());
  }

  void swap_blocks() {
    const std::size_t a = place(), b = place();
    const std::size_t count = length(bytes.size() - std::max(a, b));
    for (std::size_t k = 0; k < count; ++k) std::swap(bytes[a + k], bytes[b + k]);
  }

  void replace(std::size_t first, std::size_t count, std::string_view text) {
    bytes.erase(at(first), at(first + count));
    bytes.insert(at(first), text.begin(), text.end());
  }

  /// A run of decimal digits becomes another number.
  void change_decimal() {
    const auto is_digit = [](std::uint8_t c) { return c >= '0' && c <= '9'; };
    const auto first = std::find_if(at(place()), bytes.end(), is_digit);
    if (first == bytes.end()) return write_word();
    const auto last = std::find_if_not(first, bytes.end(), is_digit);
    const std::string_view text = numbers[draws.below(numbers.size())];
    const auto where = static_cast<std::size_t>(first - bytes.begin());
    const auto count = static_cast<std::size_t>(last - first);
    if (draws.one_in(2)) return replace(where, count, text);
    // Of the same length, for fields of fixed width.
    for (std::size_t k = 0; k < count; ++k)
      bytes[where + k] = static_cast<std::uint8_t>('0' + draws.below(10));
  }

  void write_word() {
    const std::string_view word = words[draws.below(words.size())];
    const std::size_t where = place();
    replace(where, draws.one_in(2) ? 0 : std::min(word.size(), bytes.size() - where), word);
  }

  void once() {
    if (bytes.empty()) return insert();
    switch (draws.below(20)) {
      case 0:
      case 1:
      case 2:
        return flip_bit();
      case 3:
      case 4:
        return set_byte();
      case 5:
      case 6:
      case 7:
      case 8:
        return change_number();
      case 9:
        return insert();
      case 10:
        return remove();
      case 11:
        return draws.one_in(3) ? cut() : set_byte();
      case 12:
        return fill();
      case 13:
      case 14:
        return copy_block();
      case 15:
        return splice();
      case 16:
        return swap_blocks();
      case 17:
      case 18:
        return change_decimal();
      default:
        return write_word();
    }
  }
};

}  // namespace

std::uint64_t Draws::next() {
  std::uint64_t z = state_ += 0x9E3779B97F4A7C15U;
  z = (z ^ z >> 30U) * 0xBF58476D1CE4E5B9U;
  z = (z ^ z >> 27U) * 0x94D049BB133111EBU;
  return z ^ z >> 31U;
}

std::size_t Draws::below(std::size_t bound) {
  return bound == 0 ? 0 : next() % bound;
}

void mutate(Bytes& bytes, std::span<const std::uint8_t> other, Draws& draws, std::size_t most) {
  Mutation mutation{bytes, other, draws};
  do {
    mutation.once();
  } while (!draws.one_in(3));
  if (bytes.size() > most) bytes.resize(most);
}

}  // namespace fluxformer::fuzz
