#pragma once

// Omniglot: handwritten characters of many alphabets, 20 drawings of each. Source: Lake, Salakhutdinov,
// Tenenbaum, "Human-level concept learning through probabilistic program induction", Science 350, 2015.

#include <cstdint>
#include <string>
#include <vector>

#include "data/dataset_spec.hpp"
#include "data/images/image_tokens.hpp"

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

/// Handwritten characters. Classes are characters, in alphabetical (byte) order of alphabet and character.
/// Train and test hold the same classes: of the 20 drawings of a character, each by a different person, 1 to
/// 16 are for training and 17 to 20 for testing. Sample i is drawing first + i / classes() of character i %
/// classes().
class Omniglot final : public ImageDataset {
 public:
  static constexpr int drawings = 20, training_drawings = 16;
  static constexpr int drawing_side = 105;  ///< pixels of a side

  /// Reads, of `spec.directory` or its folders omniglot and omniglot-py, the zip that spec.name stands for,
  /// or the folder that is unpacked from it (images_background, which may be `spec.directory` itself):
  ///   omniglot             images_background.zip, 964 characters
  ///   omniglot_small1, 2   images_background_small1.zip, ...2.zip: 136 and 156 of these
  ///   omniglot_evaluation  images_evaluation.zip: 659 other characters
  /// Files in it: <folder>/<alphabet>/<character>/<number>_<drawing>.png. Only the first `spec.alphabets`
  /// alphabets are kept (0: all) and only the first `spec.at_most` samples decoded. Throws BadInput for
  /// missing and damaged files, more alphabets than there are, a drawing that is missing or not 105 x 105.
  Omniglot(const DatasetSpec& spec, const ImageTokens& layout);

  std::string name() const override { return name_; }
  std::size_t size() const override { return size_; }
  int classes() const override { return static_cast<int>(characters_.size()); }
  int label(std::size_t index) const override;
  void image(std::size_t index, double* out) const override;

  /// The names "<alphabet>/<character>" of the classes.
  const std::vector<std::string>& characters() const { return characters_; }

  /// Denominator of stored pixels: means over boxes of 3.75 x 3.75 pixels are exact in units of 1/225, since
  /// a box is 15 x 15 quarter pixels.
  static constexpr int units = 225;
  /// Shrinks ink[row][column] of a drawing, 0 or 1, to [row][column] of the 28 x 28 image, 0..units.
  static std::vector<std::uint8_t> shrink(const std::vector<std::uint8_t>& ink);

 private:
  std::string name_;
  std::vector<std::string> characters_;
  std::size_t size_ = 0;
  std::vector<std::uint8_t> images_;  ///< pixels in 1/units, [sample][row][column]
};

}  // namespace fluxformer::data
