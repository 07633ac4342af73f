#include "data/images/mnist.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <sstream>
#include <stdexcept>
#include <string>
#include <system_error>

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

/// A place where the files of a set may be: a folder, and what their names begin with.
struct SetPlace {
  fs::path folder;
  std::string prefix;
};

/// The value of data.directory that stands for this place.
std::string name_of(const SetPlace& place) {
  const auto& [folder, prefix] = place;
  const auto name = prefix.empty() ? folder : folder / prefix.substr(0, prefix.size() - 1);
  return name.lexically_normal().string();
}

/// Images and labels of a split, plain before .gz; an empty path for what is not there.
struct IdxPair {
  fs::path images, labels;
};

/// The file `path`, or the one of the same name in a folder of that name (Kaggle packs them so); empty if
/// there is neither.
fs::path file_at(const fs::path& path) {
  std::error_code ignored;
  for (const fs::path& one : {path, path / path.filename()})
    if (fs::exists(one, ignored) && !fs::is_directory(one, ignored)) return one;
  return {};
}

fs::path find(const fs::path& folder, const std::string& stem, const std::string& kind) {
  for (const char* dash : {"-", "."})
    for (const char* suffix : {"", ".gz"})
      if (auto path = file_at(folder / (stem + dash + kind + suffix)); !path.empty()) return path;
  return {};
}

/// The files of a split; EMNIST calls the test split "test", MNIST "t10k".
IdxPair find_pair(const SetPlace& place, bool train) {
  IdxPair found;
  for (const std::string part : train ? std::vector{"train"} : std::vector{"t10k", "test"}) {
    found = {find(place.folder, place.prefix + part + "-images", "idx3-ubyte"),
             find(place.folder, place.prefix + part + "-labels", "idx1-ubyte")};
    if (!found.images.empty() || !found.labels.empty()) break;
  }
  return found;
}

/// The prefixes "emnist-letters-", ... of the training images in `folder`, in alphabetical order.
std::vector<std::string> prefixes_in(const fs::path& folder) {
  std::vector<std::string> found;
  std::error_code problem;
  for (fs::directory_iterator entry(folder, problem), end; !problem && entry != end;
       entry.increment(problem)) {
    const auto name = entry->path().filename().string();
    const auto at = name.find("train-images");
    if (!name.starts_with("emnist-") || at == std::string::npos) continue;
    if (std::ranges::find(found, name.substr(0, at)) == found.end()) found.push_back(name.substr(0, at));
  }
  std::ranges::sort(found);
  return found;
}

/// True if some file of either split is there.
bool holds_set(const SetPlace& place) {
  for (const bool train : {true, false}) {
    const auto pair = find_pair(place, train);
    if (!pair.images.empty() || !pair.labels.empty()) return true;
  }
  return false;
}

/// The place of the set that `directory` stands for; without a folder if there is none. Of several sets of
/// which none is MNIST throws BadInput that names them.
SetPlace place_of_set(const fs::path& directory) {
  std::error_code ignored;
  // DIR/emnist-letters: the files DIR/emnist-letters-train-images-..., beside those of other sets.
  if (!fs::is_directory(directory, ignored)) {
    const auto parent = directory.has_parent_path() ? directory.parent_path() : fs::path(".");
    const SetPlace place{parent, directory.filename().string() + "-"};
    return holds_set(place) ? place : SetPlace{};
  }
  // torchvision puts the files into ROOT/MNIST/raw.
  for (const char* folder : {"", "mnist", "raw", "MNIST", "MNIST/raw"})
    if (holds_set({directory / folder, ""})) return {directory / folder, ""};
  std::vector<SetPlace> others;
  for (const char* folder : {"FashionMNIST/raw", "KMNIST/raw"})
    if (holds_set({directory / folder, ""})) others.push_back({directory / folder, ""});
  for (const char* folder : {"", "raw", "EMNIST/raw", "gzip", "emnist_source_files"})
    for (const auto& prefix : prefixes_in(directory / folder)) others.push_back({directory / folder, prefix});
  if (others.empty()) return {};
  if (others.size() == 1) return others.front();
  std::string list;
  for (const auto& other : others) list += (list.empty() ? "" : ", ") + name_of(other);
  throw BadInput("data.directory = " + directory.string() + " holds several sets; set it to one of " + list);
}

/// Names a table of pixels in `directory`, for a message; empty if there is none.
std::string tables_in(const fs::path& directory) {
  std::error_code problem;
  for (fs::directory_iterator entry(directory, problem), end; !problem && entry != end;
       entry.increment(problem)) {
    const auto name = entry->path().filename().string();
    if (name.ends_with("train.csv"))
      return "; " + name + " there is a table of pixels, which is not read: take the IDX files of the set";
  }
  return {};
}

/// The place of a set with both files of this split. Throws BadInput that says where they were looked for.
SetPlace place_of_split(const fs::path& directory, bool train) {
  const std::string part = train ? "train" : "t10k";
  const std::string wanted = part + "-images-idx3-ubyte[.gz] and " + part + "-labels-idx1-ubyte[.gz]";
  const std::string advice =
      "; set data.directory to the folder of the MNIST files, or use data.set = digits";
  if (directory.empty()) throw BadInput("data.set = mnist needs data.directory, the folder with " + wanted);
  auto place = place_of_set(directory);
  std::error_code ignored;
  if (place.folder.empty() && !fs::is_directory(directory, ignored)) {
    throw BadInput("data.directory = " + directory.string() + " is not a folder; looked there for " + wanted +
                   advice);
  }
  const auto found = place.folder.empty() ? IdxPair{} : find_pair(place, train);
  if (found.images.empty() || found.labels.empty()) {
    throw BadInput("data.directory = " + directory.string() + " does not hold the MNIST " +
                   (found.images.empty() ? (found.labels.empty() ? "files" : "images") : "labels") +
                   ": looked for " + wanted +
                   ", there and in its folders mnist, raw and MNIST/raw (and those of FashionMNIST, KMNIST "
                   "and EMNIST)" +
                   tables_in(directory) + advice);
  }
  return place;
}

/// All labels of a file. EMNIST has 62 classes, the most of all sets in this form: a label beyond is damage.
std::vector<std::uint8_t> labels_in(const fs::path& path) {
  constexpr int most_classes = 62;
  auto labels = IdxFile(path, 1).read();
  const auto bad =
      std::ranges::find_if(labels, [&](std::uint8_t label) { return int{label} >= most_classes; });
  if (bad != labels.end()) {
    throw BadInput(path.string() + " is damaged: label " + std::to_string(bad - labels.begin()) + " is " +
                   std::to_string(*bad) + ", expected 0 to 9 (sets with more classes: to " +
                   std::to_string(most_classes - 1) + ")");
  }
  return labels;
}

int classes_of(const std::vector<std::uint8_t>& labels) {
  return *std::ranges::max_element(labels) + 1;
}

}  // namespace

Mnist::Mnist(const fs::path& directory, bool train, const ImageTokens& layout, std::size_t at_most)
    : ImageDataset(layout) {
  const auto place = place_of_split(directory, train);
  origin_ = name_of(place);
  const auto [image_path, label_path] = find_pair(place, train);
  const IdxFile images(image_path, 3);
  labels_ = labels_in(label_path);
  if (images.records() != labels_.size()) {
    throw BadInput(image_path.string() + " holds " + std::to_string(images.records()) + " images but " +
                   label_path.string() + " holds " + std::to_string(labels_.size()) +
                   " labels: take both from the same set");
  }
  if (images.shape()[1] != image_side || images.shape()[2] != image_side) {
    throw BadInput(image_path.string() + " holds images of " + std::to_string(images.shape()[1]) + " x " +
                   std::to_string(images.shape()[2]) + " pixels where 28 x 28 are expected");
  }
  classes_ = std::max(classes_, classes_of(labels_));
  // The splits have the same classes; the other one may be absent.
  const auto other = find_pair(place, !train).labels;
  if (!other.empty()) classes_ = std::max(classes_, classes_of(labels_in(other)));
  const std::size_t kept = std::min(at_most, images.records());
  images_ = images.read(0, kept);
  labels_.resize(kept);
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
