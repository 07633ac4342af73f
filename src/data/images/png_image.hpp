#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fluxformer::data {

/// A grey-scale picture, grey[row * width + column], 0 black to 255 white.
struct GreyImage {
  int width = 0, height = 0;
  std::vector<std::uint8_t> grey;
};

/// Decodes the bytes of a PNG file (colour becomes grey); throws BadInput "`name` is not a readable PNG
/// (...)" for anything else, for data that ends early or fails its checksums, and for pictures larger than
/// 4096 x 4096.
GreyImage decode_png(const std::string& bytes, const std::string& name);

}  // namespace fluxformer::data
