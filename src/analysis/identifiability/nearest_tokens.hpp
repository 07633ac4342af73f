#pragma once

// Which input token a hidden state is nearest to, among the tokens of the same sample. With states g_i (n x
// d) and descriptions e_j (n x d, the embedded input tokens), token i is found if e_i is the nearest to g_i:
//
//   l2       |g_i - e_j|
//   cosine   |g_i/|g_i| - e_j/|e_j||, which orders as 1 - cos does, and is 0 to round-off for parallel ones
//
// Ties share: with k descriptions at the smallest distance, e_i among them, the credit of token i is 1/k:
// what a guess among them is worth. So chance is 1/n in every sample, whatever is tied. Source: Brunner et
// al., arXiv 1908.04211, section 4 (token identifiability); docs/model.md, section 10.6.
//
// Products of matrices only select candidates; these are compared by their differences, summed in a fixed
// order. Equal rows have equal distances, bit by bit, and the distance of a vector to itself is 0.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "analysis/accumulator.hpp"
#include "analysis/identifiability/sample_head.hpp"

namespace fluxformer::identifiability {

/// The distance of two tokens.
enum class TokenDistance { l2, cosine };

/// Credits of the n tokens of one sample.
struct NearestTokens {
  /// [token]: 0, or 1/k; NaN unless the state is finite.
  std::vector<double> credit;
  double rate = 0;  ///< mean credit
  /// Mean credit if any token with an identical description counts as found: repeated words cost nothing.
  double rate_of_words = 0;
  double chance = 0;  ///< 1/n
  int tied = 0;       ///< tokens with more than one nearest description
  int identical = 0;  ///< tokens whose description another token of the sample shares
};

/// Finds for each state the nearest of the descriptions, both n x d. Cost: 2 n^2 d flops in one product, and
/// d for each description that is nearest up to round-off. By cosine a state of length 0 is as far from all
/// descriptions, and a description of length 0 is orthogonal to all states. Throws BadInput unless both have
/// the same shape, n >= 1, and the descriptions are finite.
NearestTokens nearest_tokens(const Matrix& states, const Matrix& descriptions, TokenDistance distance);

/// Every row divided by its length: the angle alone. Rows of length 0 stay 0.
Matrix unit_rows(const Matrix& rows);
/// The lengths of the rows, n x 1: the norm alone.
Matrix row_norms(const Matrix& rows);
/// Control: the rows in an order that is random, all n! equally likely, and keyed by (seed, sample), `sample`
/// the global index. The nearest of shuffled descriptions have the rate 1/n in expectation, whatever the
/// states are.
Matrix shuffled_rows(const Matrix& rows, std::uint64_t seed, std::uint64_t sample);

/// min over pairs of |u_i - u_j|, divided by the root mean square of |u_i|: 0 only where two tokens have met,
/// so that the layers are not injective. No unit; infinite for one token, 0 for U = 0. Cost: n^2 d flops.
double smallest_distance(const Matrix& states);

/// Rates over samples, each token with the same weight.
class RateSums : public Accumulator {
 public:
  RateSums() : Accumulator(6) {}
  /// Adds one sample.
  void add(const NearestTokens& found);

  double samples() const { return total()[0]; }
  double tokens() const { return total()[1]; }
  /// Credits of all tokens over their number. NaN without samples.
  double rate() const { return total()[2] / tokens(); }
  /// NearestTokens::rate_of_words over all tokens.
  double rate_of_words() const { return total()[3] / tokens(); }
  /// Rate of a guess: samples over tokens, the weighted mean of 1/n.
  double chance() const { return samples() / tokens(); }
  /// Mean number of tokens of a sample.
  double mean_tokens() const { return tokens() / samples(); }
  /// Shares of the tokens that are tied and that share their description (NearestTokens).
  double tied() const { return total()[4] / tokens(); }
  double identical() const { return total()[5] / tokens(); }
};

}  // namespace fluxformer::identifiability
