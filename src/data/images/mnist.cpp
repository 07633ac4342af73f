#include "data/images/mnist.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <sstream>
#include <stdexcept>
#include <string>

#include "base/error.hpp"
#include "data/files/gzip_source.hpp"

namespace fluxformer::data {
namespace {

/// The highest compression ratio of deflate (zlib's technical notes).
constexpr std::size_t most_inflation = 1032;

std::uint32_t big_endian(const std::uint8_t* bytes) {
  return std::uint32_t{bytes[0]} << 24U | std::uint32_t{bytes[1]} << 16U | std::uint32_t{bytes[2]} << 8U |
         bytes[3];
}

std::string shape_text(const std::vector<std::size_t>& shape) {
  std::string text;
  for (const std::size_t size : shape) text += (text.empty() ? "" : " x ") + std::to_string(size);
  return text;
}

std::string wrong_magic(std::uint32_t magic, int dimensions) {
  std::ostringstream text;
  if (magic > 0x0800 && magic <= 0x08FF) {
    text << "holds an array of " << (magic & 0xFFU) << " dimension(s) where " << dimensions
         << " were expected (labels have 1, images 3): are the images and labels swapped?";
  } else {
    text << "is not an IDX file of unsigned bytes: it begins with 0x" << std::hex << magic << ", expected 0x"
         << 0x0800 + dimensions;
  }
  return text.str();
}

}  // namespace

IdxFile::IdxFile(std::filesystem::path path, int dimensions) : path_(std::move(path)) {
  GzipSource source(path_, [this](const std::string& what) { refuse(what); });
  const auto axes = static_cast<std::size_t>(dimensions);
  std::vector<std::uint8_t> header(4 * (axes + 1));
  const std::size_t got = source.read(header.data(), header.size());
  if (got >= 4 && big_endian(header.data()) != 0x0800U + axes) {
    refuse(wrong_magic(big_endian(header.data()), dimensions));
  }
  if (got < header.size()) refuse("is truncated: it ends within its header");

  header_ = header.size();
  for (std::size_t axis = 0; axis < axes; ++axis)
    shape_.push_back(big_endian(header.data() + 4 * (axis + 1)));
  payload_ = 1;
  for (const std::size_t size : shape_) {
    if (size != 0 && payload_ > std::numeric_limits<std::ptrdiff_t>::max() / size) {
      refuse("announces " + shape_text(shape_) + " bytes, more than any file can hold");
    }
    payload_ *= size;
  }
  if (payload_ == 0) refuse("holds no data: its header announces " + shape_text(shape_));
  record_size_ = payload_ / records();
  check_length(source.compressed());
}

void IdxFile::check_length(bool compressed) const {
  const std::size_t stored = std::filesystem::file_size(path_);
  const std::size_t announced = header_ + payload_;
  const std::string claim =
      "its header announces " + shape_text(shape_) + ", " + std::to_string(announced) + " bytes in all";
  if (compressed) {
    if (announced / most_inflation > stored) {
      refuse("is damaged: " + claim + ", more than " + std::to_string(stored) + " compressed bytes can hold");
    }
  } else if (stored < announced) {
    refuse("is truncated: " + claim + ", but it has " + std::to_string(stored));
  } else if (stored > announced) {
    refuse("continues after its last record: " + claim + ", but it has " + std::to_string(stored));
  }
}

std::vector<std::uint8_t> IdxFile::read(std::size_t first, std::size_t count) const {
  if (first > records() || count > records() - first) {
    throw std::out_of_range(path_.string() + ": records " + std::to_string(first) + " to " +
                            std::to_string(first + count) + " of " + std::to_string(records()));
  }
  GzipSource source(path_, [this](const std::string& what) { refuse(what); });
  std::vector<std::uint8_t> bytes(count * record_size_);
  const auto must_read = [&](std::uint8_t* out, std::size_t wanted) {
    if (source.read(out, wanted) < wanted) {
      refuse("is truncated: it ends before the last of the " + std::to_string(records()) +
             " records its header announces");
    }
  };
  if (!source.compressed()) {
    source.seek(header_ + first * record_size_);
    must_read(bytes.data(), bytes.size());
    return bytes;
  }
  std::array<std::uint8_t, 1U << 16U> unwanted;
  const auto skip = [&](std::size_t wanted) {
    for (; wanted > 0; wanted -= std::min(wanted, unwanted.size())) {
      must_read(unwanted.data(), std::min(wanted, unwanted.size()));
    }
  };
  skip(header_ + first * record_size_);
  must_read(bytes.data(), bytes.size());
  skip((records() - first - count) * record_size_);
  source.expect_end();
  return bytes;
}

void IdxFile::refuse(const std::string& what) const {
  throw BadInput(path_.string() + " " + what + (what.ends_with('?') ? "" : ".") +
                 " Download the file again (check it with gzip -t and sha256sum).");
}

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
