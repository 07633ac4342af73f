#pragma once

// A 28 x 28 image as a lattice of tokens, and the data sets whose samples are such images.

#include <string>

#include "base/random.hpp"
#include "data/dataset.hpp"

namespace fluxformer::data {

/// image[row][column] (28 x 28, ink in [0, 1]) := the image after a random affine map about its centre:
/// rotation up to 15 degrees, shear up to 0.15, scales within 15 %, shifts up to 2.5 pixels, each times
/// `strength` in [0, 1]; bilinear between pixels, no ink outside the image. The map depends on `draw` alone.
/// Not collective.
void warp_image(const RandomStream& draw, double strength, double* image);

inline constexpr int image_side = 28;
inline constexpr int image_pixels = image_side * image_side;

enum class TokenLayout { patches, rows, pixels, whole };

/// The layout called "patches", "rows", "pixels" or "whole"; throws BadInput for another word.
TokenLayout token_layout(const std::string& word);

///   patches  7 x 7 tokens of 4 x 4 pixels, row-major within a patch
///   rows     a line of 28 tokens of 28 pixels
///   pixels   28 x 28 tokens of 1 pixel
///   whole    one token of all 784 pixels
class ImageTokens {
 public:
  /// Index arithmetic for one layout; holds no image.
  explicit ImageTokens(TokenLayout layout);

  int tokens_x() const { return line_ ? image_side / height_ : image_side / width_; }
  int tokens_y() const { return line_ ? 1 : image_side / height_; }
  int features() const { return width_ * height_; }
  /// Copies image[row][column] to out[token][feature], token = y * tokens_x() + x; image_pixels numbers each,
  /// no overlap.
  void arrange(const double* image, double* out) const;
  /// The inverse of `arrange`.
  void restore(const double* tokens, double* image) const;

 private:
  template <class Visit>
  void for_each_pixel(Visit visit) const;
  int width_ = 1, height_ = 1;  ///< pixels per token
  bool line_ = false;           ///< tokens are whole rows of the image: a line of tokens
};

/// Samples are grey-scale images; tokens are their pixels, shifted and scaled by the mean and the standard
/// deviation of MNIST's training pixels, so that inputs have about mean 0 and variance 1.
class ImageDataset : public Dataset {
 public:
  static constexpr double pixel_mean = 0.1307;
  static constexpr double pixel_deviation = 0.3081;

  int tokens_x() const final { return layout_.tokens_x(); }
  int tokens_y() const final { return layout_.tokens_y(); }
  int features() const final { return layout_.features(); }
  void tokens(std::size_t index, double* out) const final;
  void variant(std::size_t index, const RandomStream& draw, double strength, double* out) const final;

  /// Writes the ink of the image, in [0, 1], to out[row][column], row 0 at the top.
  virtual void image(std::size_t index, double* out) const = 0;

 protected:
  explicit ImageDataset(const ImageTokens& layout) : layout_(layout) {}

 private:
  void arrange(double* pixels, double* out) const;
  ImageTokens layout_;
};

}  // namespace fluxformer::data
