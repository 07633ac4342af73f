#pragma once

// The state of one depth cell on one rank, and what all operators on it share.
//
// A slab is [token][sample][channel], row-major, in double: token over the rank's TokenBlock. Row r of the
// (tokens * samples) x width matrix is token r / samples of sample r % samples.

#include <vector>

#include "base/index.hpp"
#include "mesh/token_line.hpp"

namespace fluxformer {

/// The visible tokens, the same for all depth cells.
struct TokenMask {
  /// The number of real tokens (global indices 0 .. length-1) of each sample, at least 1; the others are
  /// padding. Empty: all are real. Terms read it at each call, so that it may change from batch to batch;
  /// the rest of the mask may not.
  std::vector<int> length;
  /// Token x sees tokens 0 .. x only.
  bool causal = false;
  /// Quadrature weight w_y of each token by global index; empty: 1.
  std::vector<double> weight;

  /// True if a token (global index) is not padding.
  bool real(int sample, int token) const { return length.empty() || token < length[sample]; }
};

class Dropout;

/// Sizes, mask and dropout that all slab operators of a model share. They borrow it: it must outlive them.
struct SlabContext {
  const TokenLine* line = nullptr;
  int samples = 1;
  int width = 1;
  TokenMask mask = {};
  const Dropout* dropout = nullptr;  ///< dropout of the model's branches, in training; null: none

  /// Numbers of one token: samples * width.
  Index row() const { return Index{samples} * width; }
  /// Rows of the slab: this rank's tokens * samples.
  int rows() const { return line->block().count() * samples; }
  /// Numbers of the slab: rows * width.
  Index size() const { return row() * line->block().count(); }
};

}  // namespace fluxformer
