#pragma once

// The cells of each stage of the depth.

#include <vector>

#include "model/depth_march.hpp"

namespace fluxformer {

/// The work at the ends of the depth, in units of a cell's work: the embedding (first); the readout and the
/// loss (last).
struct EndWork {
  double first = 0, last = 0;
};

/// The work at the ends of a model, counted in additions and multiplications of its products: a token costs 8
/// d^2 + 4 d f + 4 n d in a cell, 2 d times its numbers in the embedding, 2 d for each output of the head
/// that is read at it: at all tokens, or, of a word head, at `guessed_share` of them.
EndWork end_work(const ModelSpec& spec, const InputShape& input, double guessed_share);

/// The cells of each stage, in order; at least one each. The busiest stage has as little to do as possible;
/// among equals the first has fewer cells, since it keeps most activations. Throws BadInput for more stages
/// than cells.
std::vector<DepthRange> balanced_stages(int cells, int stages, EndWork ends = {});

}  // namespace fluxformer
