#include "data/tokens/npz_arrays.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>

#include "base/error.hpp"

namespace fluxformer::data {
namespace {

static_assert(std::endian::native == std::endian::little);  // NpyHeader::big_endian

constexpr const char* ending = ".npy";
constexpr const char* advice = "Write it again (numpy.savez)";
// Deflate packs at most 1032 to 1; a little is never refused.
constexpr double most_packed = 1100, free_of_charge = 1 << 20;

/// IEEE half precision, which C++ does not know.
struct Half {
  std::uint16_t bits = 0;
  /// Its value.
  operator double() const {  // NOLINT(google-explicit-constructor): converted like the other types
    const int exponent = bits >> 10U & 31U, fraction = bits & 1023U;
    const double size = exponent == 31  ? (fraction == 0 ? std::numeric_limits<double>::infinity()
                                                         : std::numeric_limits<double>::quiet_NaN())
                        : exponent == 0 ? std::ldexp(fraction, -24)
                                        : std::ldexp(1024 + fraction, exponent - 25);
    return (bits & 0x8000U) != 0 ? -size : size;
  }
};

template <class Stored, class T>
T number_from(const char* bytes, bool swap) {
  char own[sizeof(Stored)];
  std::memcpy(own, bytes, sizeof own);
  if (swap) std::reverse(own, own + sizeof own);
  Stored value;
  std::memcpy(&value, own, sizeof own);
  if constexpr (std::is_same_v<T, int> && std::is_integral_v<Stored>) {
    if (std::cmp_less(value, std::numeric_limits<int>::min())) return std::numeric_limits<int>::min();
    if (std::cmp_greater(value, std::numeric_limits<int>::max())) return std::numeric_limits<int>::max();
  }
  return static_cast<T>(value);
}

template <class T>
using Convert = T (*)(const char*, bool);

/// Of a kind with items of so many bytes; nullptr if it is not read.
template <class T>
Convert<T> conversion(char kind, std::size_t item) {
  if constexpr (std::is_same_v<T, int>) {
    switch (item) {
      case 1:
        return kind == 'i' ? number_from<std::int8_t, T> : number_from<std::uint8_t, T>;
      case 2:
        return kind == 'i' ? number_from<std::int16_t, T> : number_from<std::uint16_t, T>;
      case 4:
        return kind == 'i' ? number_from<std::int32_t, T> : number_from<std::uint32_t, T>;
      case 8:
        return kind == 'i' ? number_from<std::int64_t, T> : number_from<std::uint64_t, T>;
      default:
        return nullptr;
    }
  } else {
    return item == 2   ? number_from<Half, T>
           : item == 4 ? number_from<float, T>
           : item == 8 ? number_from<double, T>
                       : Convert<T>{};
  }
}

ItemKind kind_of(const NpyHeader& header) {
  if ((header.kind == 'i' || header.kind == 'u') && conversion<int>(header.kind, header.item) != nullptr)
    return ItemKind::whole;
  if (header.kind == 'f' && conversion<double>('f', header.item) != nullptr) return ItemKind::real;
  return header.kind == 'U' || header.kind == 'S' ? ItemKind::text : ItemKind::other;
}

/// Appends a letter in UTF-8.
void append_letter(std::uint32_t letter, std::string& text) {
  const auto put = [&](std::uint32_t byte) { text.push_back(static_cast<char>(byte)); };
  const auto follow = [&](unsigned shift) { put(0x80U | (letter >> shift & 0x3FU)); };
  if (letter > 0x10FFFF || (letter >= 0xD800 && letter < 0xE000))
    throw BadInput("holds " + std::to_string(letter) + ", which is no letter of Unicode");
  if (letter < 0x80) {
    put(letter);
  } else if (letter < 0x800) {
    put(0xC0U | letter >> 6U), follow(0);
  } else if (letter < 0x10000) {
    put(0xE0U | letter >> 12U), follow(6), follow(0);
  } else {
    put(0xF0U | letter >> 18U), follow(12), follow(6), follow(0);
  }
}

/// A text without the zeros at its end.
std::string text_from(const char* bytes, const NpyHeader& header) {
  std::string text;
  if (header.kind == 'S') {
    text.assign(bytes, header.item);
  } else {
    for (std::size_t at = 0; at < header.item; at += sizeof(std::uint32_t))
      append_letter(number_from<std::uint32_t, std::uint32_t>(bytes + at, header.big_endian), text);
  }
  text.resize(text.find_last_not_of('\0') + 1);
  return text;
}

}  // namespace

NpzArrays::NpzArrays(std::string path) : path_(std::move(path)) {
  PackedFile archive(path_, PackedFile::Kind::zip, advice);
  while (archive.next()) {
    std::string name = archive.name();
    if (!name.ends_with(ending)) continue;
    name.resize(name.size() - std::strlen(ending));
    if (!names_.insert(name).second) archive.refuse("holds '" + archive.name() + "' twice");
  }
}

bool NpzArrays::has_group(const std::string& group) const {
  const auto first = names_.lower_bound(group + "/");
  return first != names_.end() && first->starts_with(group + "/");
}

NpyHeader NpzArrays::open(const std::string& name, PackedFile& archive) const {
  do {
    if (!archive.next()) throw BadInput("no " + name);
  } while (archive.name() != name + ending);
  try {
    return read_npy_header([&](char* out, std::size_t count) { return archive.read(out, count); });
  } catch (const BadInput& e) {
    const std::string what = e.what();
    throw BadInput(what.starts_with(path_) ? what : name + " " + what);
  }
}

ArrayInfo NpzArrays::info(const std::string& name) const {
  PackedFile archive(path_, PackedFile::Kind::zip, advice);
  const NpyHeader header = open(name, archive);
  return {kind_of(header), "items of numpy's type " + header.type, header.item, header.shape};
}

template <class Visit>
void NpzArrays::read(const std::string& name, Visit&& visit) const {
  PackedFile archive(path_, PackedFile::Kind::zip, advice);
  const NpyHeader header = open(name, archive);
  std::size_t left = header.bytes();
  const auto held = static_cast<double>(std::filesystem::file_size(path_));
  if (static_cast<double>(left) > most_packed * held + free_of_charge)
    throw BadInput(name + " announces " + std::to_string(static_cast<double>(left) / 1e9) +
                   " GB, the file has " + std::to_string(held / 1e9) + " GB");
  const std::size_t at_once =
      std::max<std::size_t>(1, (std::size_t{1} << 16U) / std::max<std::size_t>(1, header.item));
  std::string portion(std::min(left, at_once * header.item), '\0');
  while (left > 0) {
    const std::size_t wanted = std::min(left, portion.size());
    if (archive.read(portion.data(), wanted) < wanted)
      throw BadInput(name + " is truncated: it announces " + std::to_string(header.bytes()) +
                     " bytes of numbers");
    visit(header, portion.data(), wanted / header.item);
    left -= wanted;
  }
  char beyond = 0;
  if (archive.read(&beyond, 1) != 0)
    throw BadInput(name + " goes on after the " + std::to_string(header.bytes()) + " bytes it announces");
}

template <class T>
std::vector<T> NpzArrays::numbers(const std::string& name) const {
  std::vector<T> values;
  read(name, [&](const NpyHeader& header, const char* bytes, std::size_t count) {
    if (values.empty()) values.reserve(header.bytes() / header.item);
    const auto convert = conversion<T>(header.kind, header.item);
    for (std::size_t k = 0; k < count; ++k)
      values.push_back(convert(bytes + k * header.item, header.big_endian));
  });
  return values;
}

std::vector<int> NpzArrays::whole_numbers(const std::string& name) const {
  return numbers<int>(name);
}

std::vector<float> NpzArrays::singles(const std::string& name) const {
  return numbers<float>(name);
}

std::vector<double> NpzArrays::doubles(const std::string& name) const {
  return numbers<double>(name);
}

std::vector<std::string> NpzArrays::words(const std::string& name) const {
  if (const auto found = info(name); found.kind != ItemKind::text || found.shape.size() != 1)
    throw BadInput(name + " is not a list of words");
  else if (found.item == 0)
    throw BadInput(name + " holds texts without letters");
  std::vector<std::string> list;
  read(name, [&](const NpyHeader& header, const char* bytes, std::size_t count) {
    for (std::size_t k = 0; k < count; ++k) {
      try {
        list.push_back(text_from(bytes + k * header.item, header));
      } catch (const BadInput& e) {
        throw BadInput(name + " " + e.what());
      }
    }
  });
  return list;
}

}  // namespace fluxformer::data
