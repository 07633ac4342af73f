#pragma once

// Rotary positions (Su et al. 2021). Pair j of the first r channels of each head of token x is turned by the
// angle x theta_j and multiplied by m; the other channels stay as they are.
//
//   R_x (a, b) = m (a cos - b sin, b cos + a sin)     (a, b) = (u_j, u_{j + r/2}) half, (u_2j, u_{2j + 1}) interleaved
//
// x counts tokens from the beginning of the line, whatever rank holds them. In these channels R_x^T R_y is
// m^2 times the turn by y - x: scores of queries and keys depend on the distance of their tokens. R_x has no
// parameters, and its adjoint R_x^T turns back.

#include <cstddef>
#include <vector>

#include "base/index.hpp"

namespace fluxformer {

/// The pairs of channels that rotary positions turn: (j, j + r/2), or (2j, 2j + 1).
enum class RotaryLayout { none, half, interleaved };

/// Rotary positions of queries and keys. The theta_j are AttentionWeights::theta.
struct Rotary {
  RotaryLayout layout = RotaryLayout::none;
  int channels = 0;  ///< r, the first channels of each head, even; the others stay as they are
  double scale = 1;  ///< m
};

/// R_x for the tokens of one rank.
template <class T>
class RotaryTurn {
 public:
  /// `tokens`: their indices on the line; heads have `channels` channels. Without a layout R_x is the identity.
  RotaryTurn(const Rotary& rotary, Index channels, std::vector<int> tokens)
      : rotary_(rotary), channels_(channels), tokens_(std::move(tokens)) {}

  /// Sets the indices of the tokens anew, before `set`.
  void move_to(const std::vector<int>& tokens) {
    if (tokens == tokens_) return;
    tokens_ = tokens;
    known_.clear();
  }
  bool is_identity() const { return rotary_.layout == RotaryLayout::none; }

  /// Sets the angles per token theta [r/2]. Cosines and sines of angles that were set before are kept: a model
  /// has few tables, which its layers may use in turns. Throws std::logic_error without angles (null).
  void set(const double* theta);

  /// rows := R_x rows, or R_x^T rows. Rows are [row][head][channel]; row i is of token i % (number of tokens).
  void turn(T* rows, Index count, Index heads) const;
  void turn_back(T* rows, Index count, Index heads) const;

  /// Memory held, in bytes.
  std::size_t bytes() const;

 private:
  struct Angles {
    std::vector<double> theta;
    std::vector<T> cos, sin;  // m cos(x theta_j) and m sin(x theta_j), [token][r/2]
  };
  template <class Pair>
  void for_pairs(T* rows, Index count, Index heads, Pair&& pair) const;

  Rotary rotary_;
  Index channels_;
  std::vector<int> tokens_;
  std::vector<Angles> known_;
  std::size_t current_ = 0;
};

extern template class RotaryTurn<float>;
extern template class RotaryTurn<double>;

}  // namespace fluxformer
