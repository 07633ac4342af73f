#include "io/digest.hpp"

#include <bit>
#include <cstring>

#include "io/from_root.hpp"
#include "io/layout.hpp"

namespace fluxformer::io {

namespace {

// Odd constants with well-mixed bits: 2^64 over the golden ratio, and a multiplier of SplitMix64 (Steele, Lea
// and Flood, OOPSLA 2014).
constexpr std::uint64_t of_place = 0x9E3779B97F4A7C15, of_bits = 0xBF58476D1CE4E5B9;

/// hash(b, p) = (x xor (x >> 32)) B with x = b + (p + 1) P, modulo 2^64. The compiler vectorises it, so that
/// only memory limits its speed. The shift makes it nonlinear: exchanged numbers are found as well.
constexpr std::uint64_t hash(std::uint64_t bits, std::uint64_t place) {
  const std::uint64_t x = bits + (place + 1) * of_place;
  return (x ^ (x >> 32)) * of_bits;
}

}  // namespace

std::uint64_t digest_of(const double* numbers, Index count, Index first_place) {
  std::uint64_t sum = 0;
  for (Index k = 0; k < count; ++k) sum += hash(std::bit_cast<std::uint64_t>(numbers[k]), first_place + k);
  return sum;
}

std::uint64_t digest_of(std::string_view text) {
  std::uint64_t sum = hash(text.size(), 0);  // place 0 is the length's, so that zeros at the end count
  for (std::size_t at = 0; at < text.size(); at += 8) {
    char group[8] = {};
    text.copy(group, 8, at);
    std::uint64_t bits = 0;
    std::memcpy(&bits, group, 8);
    sum += hash(bits, at / 8 + 1);
  }
  return sum;
}

std::optional<std::uint64_t> stored_digest(hid_t object) {
  const auto value = read_attribute(object, names::digest);
  const long* digest = value ? std::get_if<long>(&*value) : nullptr;
  if (digest == nullptr) return {};
  return *digest;
}

std::uint64_t digest_of_item(const std::string& name, const AttributeValue& value) {
  const auto* text = std::get_if<std::string>(&value);
  const auto* whole = std::get_if<long>(&value);
  const auto bytes = text != nullptr    ? *text
                     : whole != nullptr ? as_bytes(std::vector{*whole})
                                        : as_bytes(std::vector{std::get<double>(value)});
  return digest_of(name + '\0' + bytes);
}

}  // namespace fluxformer::io
