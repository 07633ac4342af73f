#pragma once

// Built-in digits: pen strokes with random distortions. Nothing has to be downloaded.

#include <cstdint>
#include <vector>

#include "base/random.hpp"
#include "data/dataset_spec.hpp"
#include "data/images/image_tokens.hpp"

namespace fluxformer::data {

/// A point of a pen stroke, x to the right, y downwards; a digit fills about [-0.6, 0.6] x [-1, 1].
struct PenPoint {
  double x = 0, y = 0;
};

/// Points that the pen joins by straight lines.
using PenStroke = std::vector<PenPoint>;

/// Number of styles of `digit`.
int digit_styles(int digit);

/// The strokes of `digit` (0..9) in `style` (0..digit_styles(digit) - 1), with curves
/// approximated by short straight pieces. Strokes that meet share a point.
std::vector<PenStroke> digit_strokes(int digit, int style);

/// 28 x 28 images of the digits 0 to 9. Sample `index` depends on (seed, split, index) alone: a style of
/// writing, a smooth warp of the strokes, an affine map (rotation, shear, scales, shift), a pen width and ink
/// noise. Ten consecutive samples, from a multiple of ten on, contain each digit once, in random order.
class Digits final : public ImageDataset {
 public:
  static constexpr std::size_t training_samples = 60000, test_samples = 10000;

  /// The first `at_most` of the 60000 or 10000 samples of the split.
  Digits(bool train, const ImageTokens& layout, std::uint64_t seed, std::size_t at_most = every_sample);

  std::string name() const override { return "digits"; }
  std::size_t size() const override { return size_; }
  int classes() const override { return 10; }
  int label(std::size_t index) const override;
  /// Draws the image anew at each call, which takes about 40 microseconds.
  void image(std::size_t index, double* out) const override;

 private:
  RandomStream labels_, shapes_;
  std::size_t size_;
};

}  // namespace fluxformer::data
