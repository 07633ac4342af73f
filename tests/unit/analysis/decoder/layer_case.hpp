#pragma once

// Small attention layers for the tests of their Hessians.

#include <cmath>
#include <vector>

#include "analysis/decoder/attention_layer.hpp"

namespace fluxformer::test {

using decoder::AttentionForm;
using decoder::AttentionLayer;
using decoder::AttentionMap;
using decoder::DecoderAttentionWeights;
using decoder::HessianTerm;
using decoder::Mask;
using decoder::Matrix;
using decoder::Scores;
using decoder::Tail;
using decoder::Vector;
using decoder::Weight;

/// Numbers without any structure, of order 1: sin(12.9898 i + 78.233 j + 37.719 s), i and j from 1.
inline Matrix fill(int s, Index rows, Index columns) {
  Matrix a(rows, columns);
  for (Index i = 0; i < rows; ++i)
    for (Index j = 0; j < columns; ++j)
      a(i, j) =
          std::sin(12.9898 * static_cast<double>(i + 1) + 78.233 * static_cast<double>(j + 1) + 37.719 * s);
  return a;
}

/// Rows that cycle through the classes: labels (3 i + 1) mod classes.
inline std::vector<int> cycling_labels(Index rows, int classes) {
  std::vector<int> labels(static_cast<std::size_t>(rows));
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = (3 * static_cast<int>(i) + 1) % classes;
  return labels;
}

/// Sizes and data of a layer: sequences X = fill(110 + n), targets fill(210 + n) and weights.
struct LayerCase {
  Index tokens = 4, width = 3, inner = 2, values = 3, sequences = 1;

  AttentionForm form(Scores scores, Mask mask) const {
    return {scores, mask, 1 / std::sqrt(static_cast<double>(inner))};
  }
  DecoderAttentionWeights weights() const {
    return {0.7 * fill(14, width, values), 0.9 * fill(12, width, inner), 0.8 * fill(13, width, inner)};
  }
  Matrix tokens_of(Index sequence) const { return fill(110 + static_cast<int>(sequence), tokens, width); }
  Matrix target_of(Index sequence, Index columns) const {
    return fill(210 + static_cast<int>(sequence), tokens, columns);
  }
  /// 1 / (n_s L e), the mean over all entries.
  double mean(Index columns) const { return 1 / static_cast<double>(sequences * tokens * columns); }
};

/// The parts of theta, in order, and their pairs (upper triangle).
inline constexpr Weight all_weights[] = {Weight::value, Weight::query, Weight::key};

inline const char* name_of(Weight weight) {
  return weight == Weight::value ? "V" : weight == Weight::query ? "Q" : "K";
}

}  // namespace fluxformer::test
