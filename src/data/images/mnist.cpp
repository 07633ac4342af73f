#include "data/images/mnist.hpp"

#include <algorithm>
#include <string>

#include "base/error.hpp"
#include "data/images/idx_file.hpp"

namespace fluxformer::data {
namespace {

namespace fs = std::filesystem;

/// The file "<stem>-<kind>" or "<stem>.<kind>" that exists, plain before .gz; empty if there is none.
fs::path find(const fs::path& directory, const std::string& stem, const std::string& kind) {
  std::error_code ignored;
  for (const fs::path& folder : {directory, directory / "mnist"}) {
    for (const char* dash : {"-", "."}) {
      for (const char* suffix : {"", ".gz"}) {
        fs::path path = folder / (stem + dash + kind + suffix);
        if (fs::exists(path, ignored)) return path;
      }
    }
  }
  return {};
}

}  // namespace

Mnist::Mnist(const fs::path& directory, bool train, const ImageTokens& layout, std::size_t at_most)
    : ImageDataset(layout) {
  const std::string part = train ? "train" : "t10k";
  const std::string wanted = part + "-images-idx3-ubyte[.gz] and " + part + "-labels-idx1-ubyte[.gz]";
  const std::string advice =
      "; set data.directory to the folder of the MNIST files, or use data.set = digits";
  std::error_code ignored;
  if (directory.empty()) throw BadInput("data.set = mnist needs data.directory, the folder with " + wanted);
  if (!fs::is_directory(directory, ignored)) {
    throw BadInput("data.directory = " + directory.string() + " is not a folder; looked there for " + wanted +
                   advice);
  }
  const fs::path image_path = find(directory, part + "-images", "idx3-ubyte");
  const fs::path label_path = find(directory, part + "-labels", "idx1-ubyte");
  if (image_path.empty() || label_path.empty()) {
    throw BadInput("data.directory = " + directory.string() + " does not hold the MNIST " +
                   (image_path.empty() ? (label_path.empty() ? "files" : "images") : "labels") +
                   ": looked for " + wanted + ", there and in its folder mnist" + advice);
  }

  const IdxFile images(image_path, 3);
  const IdxFile labels(label_path, 1);
  if (images.records() != labels.records()) {
    throw BadInput(image_path.string() + " holds " + std::to_string(images.records()) + " images but " +
                   label_path.string() + " holds " + std::to_string(labels.records()) +
                   " labels: take both from the same set");
  }
  if (images.shape()[1] != image_side || images.shape()[2] != image_side) {
    throw BadInput(image_path.string() + " holds images of " + std::to_string(images.shape()[1]) + " x " +
                   std::to_string(images.shape()[2]) + " pixels where 28 x 28 are expected");
  }
  const std::size_t kept = std::min(at_most, images.records());
  images_ = images.read(0, kept);
  labels_ = labels.read(0, kept);
  const auto bad = std::find_if(labels_.begin(), labels_.end(), [](std::uint8_t label) { return label > 9; });
  if (bad != labels_.end()) {
    throw BadInput(label_path.string() + " is damaged: label " + std::to_string(bad - labels_.begin()) +
                   " is " + std::to_string(*bad) + ", expected 0 to 9");
  }
}

int Mnist::label(std::size_t index) const {
  require(index);
  return labels_[index];
}

void Mnist::image(std::size_t index, double* out) const {
  require(index);
  const std::uint8_t* pixels = images_.data() + index * image_pixels;
  std::transform(pixels, pixels + image_pixels, out, [](std::uint8_t ink) { return ink / 255.0; });
}

}  // namespace fluxformer::data
