#include "data/images/image_tokens.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "base/error.hpp"

namespace fluxformer::data {
void warp_image(const RandomStream& draw, double strength, double* image) {
  const auto within = [&](std::uint64_t which, double bound) {
    return draw.uniform(which, -bound, bound) * strength;
  };
  const double angle = within(0, 15 * std::numbers::pi / 180), shear = within(1, 0.15);
  const double wide = 1 + within(2, 0.15), high = 1 + within(3, 0.15);
  const double right = within(4, 2.5), down = within(5, 2.5);
  // The map goes from the new pixel to the old one: its inverse has the same distribution.
  const double xx = std::cos(angle) * wide, xy = -std::sin(angle) + shear;
  const double yx = std::sin(angle), yy = std::cos(angle) * high;

  std::array<double, image_pixels> from;
  std::copy_n(image, image_pixels, from.begin());
  const auto ink = [&](int row, int column) {
    const bool inside = row >= 0 && row < image_side && column >= 0 && column < image_side;
    return inside ? from[row * image_side + column] : 0.0;
  };
  constexpr double centre = (image_side - 1) / 2.0;
  for (int row = 0; row < image_side; ++row)
    for (int column = 0; column < image_side; ++column) {
      const double x = column - centre, y = row - centre;
      const double at_x = centre + xx * x + xy * y + right, at_y = centre + yx * x + yy * y + down;
      const double left = std::floor(at_x), top = std::floor(at_y);
      const int c = static_cast<int>(left), r = static_cast<int>(top);
      const double u = at_x - left, v = at_y - top;
      image[row * image_side + column] = (1 - v) * ((1 - u) * ink(r, c) + u * ink(r, c + 1)) +
                                         v * ((1 - u) * ink(r + 1, c) + u * ink(r + 1, c + 1));
    }
}

TokenLayout token_layout(const std::string& word) {
  if (word == "patches") return TokenLayout::patches;
  if (word == "rows") return TokenLayout::rows;
  if (word == "pixels") return TokenLayout::pixels;
  if (word == "whole") return TokenLayout::whole;
  throw BadInput("data.tokens = " + word + " is not known: patches, rows, pixels or whole");
}

ImageTokens::ImageTokens(TokenLayout layout) {
  switch (layout) {
    case TokenLayout::patches:
      width_ = height_ = 4;
      break;
    case TokenLayout::rows:
      width_ = image_side;
      line_ = true;
      break;
    case TokenLayout::pixels:
      break;
    case TokenLayout::whole:
      width_ = height_ = image_side;
      break;
  }
}

/// visit(place in the image, place in the tokens) for every pixel.
template <class Visit>
void ImageTokens::for_each_pixel(Visit visit) const {
  for (int row = 0; row < image_side; ++row) {
    for (int column = 0; column < image_side; ++column) {
      const int token = (row / height_) * (image_side / width_) + column / width_;
      const int feature = (row % height_) * width_ + column % width_;
      visit(row * image_side + column, token * features() + feature);
    }
  }
}

void ImageTokens::arrange(const double* image, double* out) const {
  for_each_pixel([&](int pixel, int place) { out[place] = image[pixel]; });
}

void ImageTokens::restore(const double* tokens, double* image) const {
  for_each_pixel([&](int pixel, int place) { image[pixel] = tokens[place]; });
}

void ImageDataset::arrange(double* pixels, double* out) const {
  for (int j = 0; j < image_pixels; ++j) pixels[j] = (pixels[j] - pixel_mean) / pixel_deviation;
  layout_.arrange(pixels, out);
}

void ImageDataset::tokens(std::size_t index, double* out) const {
  std::array<double, image_pixels> pixels;
  image(index, pixels.data());
  arrange(pixels.data(), out);
}

void ImageDataset::variant(std::size_t index, const RandomStream& draw, double strength, double* out) const {
  std::array<double, image_pixels> pixels;
  image(index, pixels.data());
  warp_image(draw, strength, pixels.data());
  arrange(pixels.data(), out);
}

}  // namespace fluxformer::data
