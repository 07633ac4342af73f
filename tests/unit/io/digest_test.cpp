// Digests: of parts they add up, and they see every change.

#include "io/digest.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

namespace fluxformer::io {
namespace {

std::vector<double> ramp(std::size_t count) {
  std::vector<double> numbers(count);
  for (std::size_t k = 0; k < count; ++k) numbers[k] = 0.1 * static_cast<double>(k);
  return numbers;
}

std::uint64_t whole(const std::vector<double>& numbers) {
  return digest_of(numbers.data(), numbers.size());
}

TEST(Digest, of_parts_add_up_to_that_of_the_whole) {
  const auto numbers = ramp(1001);
  for (const std::size_t cut : {0, 1, 8, 500, 1001})
    EXPECT_EQ(digest_of(numbers.data(), cut) + digest_of(numbers.data() + cut, 1001 - cut, cut),
              whole(numbers));
}

TEST(Digest, sees_every_single_bit) {
  const auto numbers = ramp(50);
  for (std::size_t k = 0; k < numbers.size(); ++k)
    for (int bit = 0; bit < 64; ++bit) {
      auto changed = numbers;
      std::uint64_t bits = 0;
      std::memcpy(&bits, &changed[k], 8);
      bits ^= std::uint64_t{1} << bit;
      std::memcpy(&changed[k], &bits, 8);
      ASSERT_NE(whole(changed), whole(numbers)) << k << ", bit " << bit;
    }
}

TEST(Digest, sees_exchanged_moved_and_missing_numbers) {
  const auto numbers = ramp(50);
  for (std::size_t k = 0; k + 1 < numbers.size(); ++k) {
    auto exchanged = numbers;
    std::swap(exchanged[k], exchanged[k + 1]);
    ASSERT_NE(whole(exchanged), whole(numbers)) << k;
  }
  EXPECT_NE(digest_of(numbers.data(), 50, 1), whole(numbers));
  EXPECT_NE(digest_of(numbers.data(), 49), whole(numbers));
  EXPECT_NE(whole({0.0}), whole({-0.0}));
  EXPECT_NE(whole({0.0, 0.0}), whole({0.0}));  // zeros count
}

TEST(Digest, of_texts_sees_length_and_order) {
  const std::string text = "settings of a run, longer than a group of eight bytes";
  for (std::size_t k = 0; k < text.size(); ++k) {
    auto changed = text;
    changed[k] = static_cast<char>(changed[k] ^ 1);
    ASSERT_NE(digest_of(changed), digest_of(text)) << k;
  }
  EXPECT_NE(digest_of(text + '\0'), digest_of(text));
  EXPECT_NE(digest_of("ab"), digest_of("ba"));
  EXPECT_NE(digest_of(std::string()), digest_of(std::string(8, '\0')));
}

}  // namespace
}  // namespace fluxformer::io
