#pragma once

// MNIST from its original IDX files. Source: LeCun, Bottou, Bengio, Haffner, "Gradient-based learning applied
// to document recognition", Proc. IEEE 86(11), 1998.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "data/dataset_spec.hpp"
#include "data/images/image_tokens.hpp"

namespace fluxformer::data {

/// An IDX file of unsigned bytes, plain or gzip'd: bytes 0 0 0x08 r, then r big-endian sizes of 4 bytes, then
/// the product of the sizes in bytes. Not collective. Every member throws BadInput that names the file and
/// says what is wrong with it and what to do.
class IdxFile {
 public:
  /// Reads and checks the header: an array of `dimensions` axes is expected. The length of a plain file must
  /// be what the header says; that of a compressed one must be possible for deflate.
  IdxFile(std::filesystem::path path, int dimensions);

  /// Sizes of the axes, the record axis first.
  const std::vector<std::size_t>& shape() const { return shape_; }
  std::size_t records() const { return shape_.front(); }

  /// Reads the bytes of records first..first+count-1. Of a plain file only these are read; a compressed one
  /// is decompressed to its end, so that its checksum is verified. Throws std::out_of_range
  /// for records that do not exist.
  std::vector<std::uint8_t> read(std::size_t first, std::size_t count) const;
  std::vector<std::uint8_t> read() const { return read(0, records()); }

 private:
  [[noreturn]] void refuse(const std::string& what) const;
  void check_length(bool compressed) const;

  std::filesystem::path path_;
  std::vector<std::size_t> shape_;
  std::size_t record_size_ = 1;  ///< bytes per record
  std::size_t payload_ = 0;      ///< bytes after the header, according to the header
  std::size_t header_ = 0;       ///< bytes of the header
};

/// The images of a split of MNIST, or of a set in the same files (Fashion-MNIST, KMNIST, EMNIST): one byte
/// per pixel in the memory of every rank. Images of EMNIST are as its files have them, with rows and columns
/// exchanged.
class Mnist final : public ImageDataset {
 public:
  /// Looks in `directory` and in its folders mnist, raw and MNIST/raw for train-images-idx3-ubyte and
  /// train-labels-idx1-ubyte (t10k-... for the test set), with or without .gz, with a dot as in
  /// train-images.idx3-ubyte, or each in a folder of its own name; else for another set there, such as
  /// FashionMNIST/raw, or emnist-letters-train-... and emnist-letters-test-.... If `directory` is no folder,
  /// its last part is what the names begin with: DIR/emnist-letters. Keeps the first `at_most` samples.
  /// Throws BadInput if a file is missing or damaged, if there are several sets, if images and labels differ
  /// in number, images are not 28 x 28 or a label is not 0..61.
  Mnist(const std::filesystem::path& directory, bool train, const ImageTokens& layout,
        std::size_t at_most = every_sample);

  std::string name() const override { return "mnist"; }
  std::string origin() const override { return origin_; }
  std::size_t size() const override { return labels_.size(); }
  /// 10, or the largest label of both splits and one.
  int classes() const override { return classes_; }
  int label(std::size_t index) const override;
  void image(std::size_t index, double* out) const override;

 private:
  std::vector<std::uint8_t> images_;  ///< [sample][row][column]
  std::vector<std::uint8_t> labels_;  ///< [sample]
  int classes_ = 10;
  std::string origin_;
};

}  // namespace fluxformer::data
