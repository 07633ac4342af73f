#pragma once

// The ten digits as pen strokes, in a few handwritten styles each.

#include <vector>

namespace fluxformer::data {

/// x to the right, y downwards; a digit fills about [-0.6, 0.6] x [-1, 1].
struct PenPoint {
  double x = 0, y = 0;
};

/// The pen moves in a straight line from point to point.
using PenStroke = std::vector<PenPoint>;

/// Number of styles of `digit`.
int digit_styles(int digit);

/// The strokes of `digit` (0..9) in `style` (0..digit_styles(digit) - 1), with curves
/// approximated by short straight pieces. Strokes that meet share a point.
std::vector<PenStroke> digit_strokes(int digit, int style);

}  // namespace fluxformer::data
