// Files of data sets: IDX, gzip, zip, tar, PNG, HDF5, and the data sets read from them.

#include <zlib.h>

#include <array>
#include <filesystem>

#include "base/error.hpp"
#include "data/files/gzip_source.hpp"
#include "data/files/packed_file.hpp"
#include "data/images/mnist.hpp"
#include "data/images/omniglot.hpp"
#include "data/text/newsgroups.hpp"
#include "data/tokens/token_file.hpp"
#include "tests/fuzz/reader.hpp"
#include "tests/fuzz/repair.hpp"

namespace fluxformer::fuzz {
namespace {

using data::PackedFile;

void use_samples(const data::Dataset& data) {
  const auto numbers = static_cast<std::size_t>(data.tokens_x() * data.tokens_y() * data.features());
  std::vector<double> tokens(numbers);
  for (std::size_t k = 0; k < data.size(); ++k) {
    data.tokens(k, tokens.data());
    if (data.label(k) < -1 || data.label(k) >= data.classes()) throw std::logic_error("a label out of range");
  }
}

void read_idx(std::span<const std::uint8_t> bytes) {
  const auto path = in_file(bytes, "idx");
  const data::IdxFile file(path, bytes.size() > 3 && bytes[3] == 1 ? 1 : 3);
  file.read(file.records() / 2, file.records() - file.records() / 2);
  file.read();
}

/// The bytes as images beside sound labels, and as labels beside sound images.
void read_mnist(std::span<const std::uint8_t> bytes) {
  static constexpr std::array<std::uint8_t, 10> labels{0, 0, 8, 1, 0, 0, 0, 2, 3, 4};
  static std::vector<std::uint8_t> images;
  if (images.empty()) {
    images = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 28, 0, 0, 0, 28};
    images.resize(16 + std::size_t{2} * 784, 100);
  }
  const bool as_labels = bytes.size() > 3 && bytes[3] == 1;
  std::filesystem::create_directories(scratch_folder() + "/mnist");
  in_file(as_labels ? std::span<const std::uint8_t>(images) : bytes, "mnist/train-images-idx3-ubyte");
  in_file(as_labels ? bytes : std::span<const std::uint8_t>(labels), "mnist/train-labels-idx1-ubyte");
  use_samples(
      data::Mnist(scratch_folder(), true, data::ImageTokens(data::TokenLayout::patches), data::every_sample));
}

void read_gzip(std::span<const std::uint8_t> bytes) {
  data::GzipSource source(in_file(bytes, "gzip"), [](const std::string& what) { throw BadInput(what); });
  std::vector<char> portion(std::size_t{1} << 16U);
  while (source.read(portion.data(), portion.size()) > 0) continue;
  source.expect_end();
}

void read_members(const std::string& path, PackedFile::Kind kind) {
  PackedFile archive(path, kind);
  while (archive.next()) {
    if (data::path_parts(archive.name()).empty()) throw std::logic_error("a file without a name");
    archive.read();
  }
}

void read_zip(std::span<const std::uint8_t> bytes) {
  read_members(in_file(bytes, "zip"), PackedFile::Kind::zip);
}

void read_omniglot(std::span<const std::uint8_t> bytes) {
  data::DatasetSpec spec;
  spec.name = "omniglot";
  spec.directory = scratch_folder();
  in_file(bytes, "images_background.zip");
  use_samples(data::Omniglot(spec, data::ImageTokens(data::TokenLayout::patches)));
}

/// The bytes packed by gzip, with a sound checksum.
Bytes packed(std::span<const std::uint8_t> bytes) {
  z_stream stream{};
  constexpr int gzip_header = 16 + MAX_WBITS;
  deflateInit2(&stream, Z_NO_COMPRESSION, Z_DEFLATED, gzip_header, 8, Z_DEFAULT_STRATEGY);
  Bytes out(deflateBound(&stream, bytes.size()) + 64);
  stream.next_in = const_cast<Bytef*>(bytes.data());
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = out.data();
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

void read_tar(std::span<const std::uint8_t> bytes) {
  read_members(in_file(packed(bytes), "tar.gz"), PackedFile::Kind::tar_gz);
}

void read_tar_gz(std::span<const std::uint8_t> bytes) {
  read_members(in_file(bytes, "tar.gz"), PackedFile::Kind::tar_gz);
}

void read_newsgroups(std::span<const std::uint8_t> bytes) {
  data::DatasetSpec spec;
  spec.name = "20news";
  spec.directory = scratch_folder();
  spec.length = 32;
  in_file(packed(bytes), "20news-bydate.tar.gz");
  for (const char* split : {"train", "test"}) {
    spec.split = split;
    use_samples(data::Newsgroups(spec));
  }
}

void read_hdf5_tokens(std::span<const std::uint8_t> bytes) {
  data::DatasetSpec spec;
  spec.file = in_file(bytes, "tokens.h5");
  for (const char* split : {"train", "test"}) {
    spec.split = split;
    use_samples(data::TokenFile(spec));
  }
}

void read_png(std::span<const std::uint8_t> bytes) {
  const auto image = data::decode_png({bytes.begin(), bytes.end()}, "png");
  if (image.grey.size() != static_cast<std::size_t>(image.width) * static_cast<std::size_t>(image.height))
    throw std::logic_error("pixels that do not fill the picture");
}

}  // namespace

std::vector<Reader> data_readers() {
  return {{"idx", "idx", read_idx, repair_gzip},
          {"mnist", "idx", read_mnist},
          {"gzip", "gzip", read_gzip, repair_gzip},
          {"zip", "zip", read_zip, repair_zip},
          {"omniglot", "omniglot", read_omniglot, repair_zip},
          {"tar", "tar", read_tar, repair_tar},
          {"tar_gz", "tar_gz", read_tar_gz, repair_gzip},
          {"newsgroups", "newsgroups", read_newsgroups, repair_tar},
          {"tokens_hdf5", "tokens", read_hdf5_tokens, repair_hdf5},
          {"png", "png", read_png, repair_png}};
}

}  // namespace fluxformer::fuzz
