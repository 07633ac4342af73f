#include "data/images/image_tokens.hpp"

#include <array>

#include "base/error.hpp"
#include "data/images/image_warp.hpp"

namespace fluxformer::data {

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
