#include "base/random.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace fluxformer {

namespace {

// The multipliers and Weyl increments of Philox 4x32 (Salmon et al., table 2 and section 3.3).
constexpr std::uint64_t multiplier_0 = 0xD2511F53;
constexpr std::uint64_t multiplier_1 = 0xCD9E8D57;
constexpr std::uint32_t weyl_0 = 0x9E3779B9;
constexpr std::uint32_t weyl_1 = 0xBB67AE85;
constexpr int rounds = 10;

// Arbitrary constants that keep the two uses of philox as a hash apart.
constexpr std::array<std::uint32_t, 2> family_key = {0x666c7578, 0x66616d69};
constexpr std::uint32_t nesting = 0x6e657374;

constexpr std::uint32_t low(std::uint64_t word) {
  return static_cast<std::uint32_t>(word);
}
constexpr std::uint32_t high(std::uint64_t word) {
  return static_cast<std::uint32_t>(word >> 32);
}
constexpr std::uint64_t join(std::uint32_t lower, std::uint32_t upper) {
  return (static_cast<std::uint64_t>(upper) << 32) | lower;
}

// 64-bit FNV-1a.
std::uint64_t hash(std::string_view text) {
  std::uint64_t value = 0xcbf29ce484222325;
  for (const char character : text) {
    value ^= static_cast<unsigned char>(character);
    value *= 0x100000001b3;
  }
  return value;
}

// Odd multiples of 2^-53: never 0 or 1, and exact.
double open_unit(std::uint64_t bits) {
  return (static_cast<double>(bits >> 12) + 0.5) * 0x1p-52;
}

// Blocks that are computed at once. Words are kept as numbers of 64 bits, as the products need them:
// compilers turn the loop over lanes into vector instructions.
constexpr std::size_t lanes = 16;
using Lanes = std::array<std::uint64_t, lanes>;

// Replaces the counter (c_0, c_1, c_2, c_3) in every lane by its block. A round makes of it,
// with the key k that grows by the Weyl increments from round to round,
//   (high(m_1 c_2) ^ c_1 ^ k_0,  low(m_1 c_2),  high(m_0 c_0) ^ c_3 ^ k_1,  low(m_0 c_0))
void philox_lanes(std::array<Lanes, 4>& counter, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t l = 0; l < lanes; ++l) {
      const std::uint64_t product_0 = multiplier_0 * low(counter[0][l]);
      const std::uint64_t product_1 = multiplier_1 * low(counter[2][l]);
      counter[0][l] = high(product_1) ^ counter[1][l] ^ key[0];
      counter[1][l] = low(product_1);
      counter[2][l] = high(product_0) ^ counter[3][l] ^ key[1];
      counter[3][l] = low(product_0);
    }
    key[0] += weyl_0;
    key[1] += weyl_1;
  }
}

}  // namespace

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < rounds; ++round) {
    const std::uint64_t product_0 = multiplier_0 * counter[0];
    const std::uint64_t product_1 = multiplier_1 * counter[2];
    counter = {high(product_1) ^ counter[1] ^ key[0], low(product_1), high(product_0) ^ counter[3] ^ key[1],
               low(product_0)};
    key[0] += weyl_0;
    key[1] += weyl_1;
  }
  return counter;
}

RandomStream::RandomStream(std::uint64_t seed, std::string_view purpose) : key_{}, item_(0) {
  const std::uint64_t family = hash(purpose);
  const auto mixed = philox({low(seed), high(seed), low(family), high(family)}, family_key);
  key_ = {mixed[0], mixed[1]};
}

RandomStream RandomStream::item(std::uint64_t index) const {
  RandomStream stream = *this;
  if (item_ != 0) {
    // Nested: the outer index goes into the key.
    const auto mixed = philox({low(item_), high(item_), nesting, 0}, key_);
    stream.key_ = {mixed[0], mixed[1]};
  }
  stream.item_ = index + 1;  // 0: the stream itself
  return stream;
}

std::array<std::uint32_t, 4> RandomStream::block(std::uint64_t index) const {
  return philox({low(index), high(index), low(item_), high(item_)}, key_);
}

void RandomStream::bits(std::uint64_t first, std::span<std::uint32_t> words) const {
  for (; !words.empty(); first += lanes) {
    std::array<Lanes, 4> counter{};
    for (std::size_t l = 0; l < lanes; ++l) {
      counter[0][l] = low(first + l);
      counter[1][l] = high(first + l);
      counter[2][l] = low(item_);
      counter[3][l] = high(item_);
    }
    philox_lanes(counter, key_);
    std::array<std::uint32_t, 4 * lanes> together{};
    for (std::size_t l = 0; l < lanes; ++l)
      for (std::size_t k = 0; k < 4; ++k) together[4 * l + k] = low(counter[k][l]);
    const std::size_t taken = std::min(words.size(), together.size());
    std::copy_n(together.begin(), taken, words.begin());
    words = words.subspan(taken);
  }
}

double RandomStream::uniform(std::uint64_t index) const {
  const auto words = block(index);
  return open_unit(join(words[0], words[1]));
}

double RandomStream::uniform(std::uint64_t index, double low_end, double high_end) const {
  return low_end + (high_end - low_end) * uniform(index);
}

double RandomStream::normal(std::uint64_t index) const {
  const auto words = block(index);
  // Box and Muller: sqrt(-2 log u_0) cos(2 pi u_1)
  const double radius = std::sqrt(-2 * std::log(open_unit(join(words[0], words[1]))));
  return radius * std::cos(2 * std::numbers::pi * open_unit(join(words[2], words[3])));
}

std::uint64_t RandomStream::below(std::uint64_t index, std::uint64_t count) const {
  if (count == 0) throw std::logic_error("RandomStream::below: there is no number below 0");
  // floor(r count / 2^128) for the 128-bit number r of the block; the bias, count / 2^128, is negligible.
  __extension__ using Wide = unsigned __int128;
  const auto words = block(index);
  const Wide lower = static_cast<Wide>(join(words[0], words[1])) * count;
  const Wide upper = static_cast<Wide>(join(words[2], words[3])) * count;
  return static_cast<std::uint64_t>((upper + (lower >> 64)) >> 64);
}

std::vector<std::size_t> shuffled(std::size_t size, std::uint64_t seed, std::string_view purpose,
                                  std::uint64_t item) {
  const auto stream = RandomStream(seed, purpose).item(item);
  std::vector<std::size_t> order(size);
  std::iota(order.begin(), order.end(), std::size_t{0});
  // The last of the places left gets each of the `left` remaining numbers with the same probability.
  for (std::size_t left = size; left > 1; --left) std::swap(order[left - 1], order[stream.below(left, left)]);
  return order;
}

}  // namespace fluxformer
