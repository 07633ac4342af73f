#include "analysis/decoder/addition_task.hpp"

#include <array>

#include "base/random.hpp"

namespace fluxformer::decoder {

namespace {

constexpr Index digits = 5;
constexpr int plus = 10, equals = 11;

using Digits = std::array<int, digits>;  // the most significant first

/// Appends the digits of a + b, by long addition from the last digit.
void append_sum(const Digits& a, const Digits& b, std::vector<int>& tokens) {
  // sum[i + 1] = (a[i] + b[i] + carry) mod 10; the last carry is the leading digit.
  std::array<int, digits + 1> sum{};
  int carry = 0;
  for (Index i = digits; i-- > 0;) {
    const int total = a[i] + b[i] + carry;
    sum[i + 1] = total % 10;
    carry = total / 10;
  }
  sum[0] = carry;
  tokens.insert(tokens.end(), sum.begin(), sum.end());
}

}  // namespace

std::vector<Index> TokenBatch::scored_rows() const {
  std::vector<Index> rows;
  for (Index n = 0; n < sequences(); ++n) {
    for (Index i = first_scored; i < end_scored; ++i) rows.push_back(n * length + i);
  }
  return rows;
}

TokenBatch addition_batch(std::uint64_t seed, std::uint64_t batch, Index first, Index count) {
  TokenBatch made{addition_length, 11, 17, {}};
  const RandomStream of_batch = RandomStream(seed, "addition").item(batch);
  const bool nines = of_batch.uniform(0) < 0.2;
  for (Index n = first; n < first + count; ++n) {
    // Position i takes the random numbers 4 i to 4 i + 3: two digits, whether the pair is made to sum to 9,
    // and which of the two digits is overwritten.
    const RandomStream random = of_batch.item(n);
    Digits a{}, b{};
    for (Index i = 0; i < digits; ++i) {
      a[i] = random.below(4 * i, 10);
      b[i] = random.below(4 * i + 1, 10);
      if (!nines || random.uniform(4 * i + 2) >= 0.2) continue;
      if (random.below(4 * i + 3, 2) == 0) {
        a[i] = 9 - b[i];
      } else {
        b[i] = 9 - a[i];
      }
    }
    made.tokens.insert(made.tokens.end(), a.begin(), a.end());
    made.tokens.push_back(plus);
    made.tokens.insert(made.tokens.end(), b.begin(), b.end());
    made.tokens.push_back(equals);
    append_sum(a, b, made.tokens);
  }
  return made;
}

}  // namespace fluxformer::decoder
