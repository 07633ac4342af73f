#pragma once

// MNIST from its original IDX files. Source: LeCun, Bottou, Bengio, Haffner, "Gradient-based learning applied
// to document recognition", Proc. IEEE 86(11), 1998.

#include <cstdint>
#include <filesystem>
#include <vector>

#include "data/dataset_spec.hpp"
#include "data/images/image_tokens.hpp"

namespace fluxformer::data {

/// The 60000 training or 10000 test images, one byte per pixel in the memory of every rank.
class Mnist final : public ImageDataset {
 public:
  /// Looks in `directory`, then in `directory`/mnist, for train-images-idx3-ubyte and train-labels-idx1-ubyte
  /// (t10k-... for the test set), with or without .gz, or with a dot as in train-images.idx3-ubyte. Keeps the
  /// first `at_most` samples. Throws BadInput if a file is missing or damaged, images and labels differ in
  /// number, images are not 28 x 28 or a label is not 0..9.
  Mnist(const std::filesystem::path& directory, bool train, const ImageTokens& layout,
        std::size_t at_most = every_sample);

  std::string name() const override { return "mnist"; }
  std::size_t size() const override { return labels_.size(); }
  int classes() const override { return 10; }
  int label(std::size_t index) const override;
  void image(std::size_t index, double* out) const override;

 private:
  std::vector<std::uint8_t> images_;  ///< [sample][row][column]
  std::vector<std::uint8_t> labels_;  ///< [sample]
};

}  // namespace fluxformer::data
