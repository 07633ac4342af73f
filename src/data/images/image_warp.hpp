#pragma once

// Data augmentation: random affine variants of an image.

#include "base/random.hpp"

namespace fluxformer::data {

/// image[row][column] (28 x 28, ink in [0, 1]) := the image after a random affine map about its centre:
/// rotation up to 15 degrees, shear up to 0.15, scales within 15 %, shifts up to 2.5 pixels, each times
/// `strength` in [0, 1]; bilinear between pixels, no ink outside the image. The map depends on `draw` alone.
/// Not collective.
void warp_image(const RandomStream& draw, double strength, double* image);

}  // namespace fluxformer::data
