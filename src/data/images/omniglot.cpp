#include "data/images/omniglot.hpp"

#include <png.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string_view>

#include "base/error.hpp"
#include "data/files/packed_file.hpp"

namespace fluxformer::data {
namespace {

constexpr std::string_view signature = "\x89PNG\r\n\x1a\n";

/// Whether every chunk (length, name, data, checksum) up to the last, IEND, ends within the file. libpng
/// allocates the announced length, up to 2 GB, before it finds that out.
bool chunks_are_whole(std::string_view bytes) {
  constexpr std::size_t frame = 12;
  for (bytes.remove_prefix(signature.size()); bytes.size() >= frame;) {
    std::size_t length = 0;
    for (const char digit : bytes.substr(0, 4)) length = length << 8U | static_cast<unsigned char>(digit);
    if (length > bytes.size() - frame) return false;
    if (bytes.substr(4, 4) == "IEND") return true;
    bytes.remove_prefix(length + frame);
  }
  return false;
}

}  // namespace

GreyImage decode_png(const std::string& bytes, const std::string& name) {
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  const auto refuse = [&](const std::string& what) {
    png_image_free(&png);
    throw BadInput(name + " is not a readable PNG (" + what + ")");
  };
  if (bytes.empty()) refuse("it is empty");
  if (bytes.starts_with(signature) && !chunks_are_whole(bytes)) refuse("it ends within its data");
  if (png_image_begin_read_from_memory(&png, bytes.data(), bytes.size()) == 0) refuse(png.message);
  constexpr png_uint_32 most = 4096;
  if (png.width > most || png.height > most) {
    refuse(std::to_string(png.width) + " x " + std::to_string(png.height) + " pixels");
  }
  png.format = PNG_FORMAT_GRAY;
  GreyImage image{static_cast<int>(png.width), static_cast<int>(png.height), {}};
  image.grey.resize(PNG_IMAGE_SIZE(png));
  if (png_image_finish_read(&png, nullptr, image.grey.data(), 0, nullptr) == 0) refuse(png.message);
  return image;
}

namespace {

namespace fs = std::filesystem;

/// The files of Omniglot one by one: those of a zip, or those of the unpacked folder in the order of their
/// names. Every member throws BadInput that names the zip or the folder.
class DrawingFiles {
 public:
  explicit DrawingFiles(const fs::path& path) : path_(path) {
    std::error_code ignored;
    if (!fs::is_directory(path, ignored)) {
      zip_ = std::make_unique<PackedFile>(path, PackedFile::Kind::zip);
      return;
    }
    try {
      for (const auto& entry : fs::recursive_directory_iterator(path))
        if (entry.is_regular_file()) files_.push_back(entry.path());
    } catch (const fs::filesystem_error& e) {
      throw BadInput(e.path1().string() + " cannot be read: " + e.code().message());
    }
    std::ranges::sort(files_);
  }

  /// Moves to the next file; false behind the last one.
  bool next() {
    if (zip_ != nullptr) return zip_->next();
    return ++place_ <= files_.size();
  }
  /// The path of the file in the zip or, with the name of the folder in front, in the folder.
  std::string name() const {
    if (zip_ != nullptr) return zip_->name();
    return (path_.filename() / files_[place_ - 1].lexically_relative(path_)).string();
  }
  std::string read() {
    if (zip_ != nullptr) return zip_->read();
    const auto& file = files_[place_ - 1];
    std::error_code ignored;
    if (fs::file_size(file, ignored) > PackedFile::largest)
      refuse("holds '" + name() + "' of more than " + std::to_string(PackedFile::largest) + " bytes");
    std::ifstream stream(file, std::ios::binary);
    std::string bytes(std::istreambuf_iterator<char>(stream), {});
    if (!stream.is_open() || stream.bad()) throw BadInput(file.string() + " cannot be read");
    return bytes;
  }
  [[noreturn]] void refuse(const std::string& what) const {
    if (zip_ != nullptr) zip_->refuse(what);
    throw BadInput(path_.string() + " " + what + ". Unpack the zip again.");
  }

 private:
  fs::path path_;
  std::unique_ptr<PackedFile> zip_;  ///< null for a folder
  std::vector<fs::path> files_;      ///< of a folder
  std::size_t place_ = 0;            ///< of the current file, counted from 1
};

/// Class and number of a drawing, read from its path.
struct Drawing {
  std::string alphabet, character;
  int number = 0;  ///< 1..20
};

/// Reads the path of a file; std::nullopt for files that are not drawings (notes, and the shadows of the
/// files that some packers add).
std::optional<Drawing> drawing(const DrawingFiles& files) {
  const auto parts = path_parts(files.name());
  const std::string& file = parts.back();
  if (!file.ends_with(".png") || file.front() == '.' || parts.front() == "__MACOSX") return {};
  Drawing found;
  const auto dash = file.rfind('_');
  bool good = parts.size() >= 3 && dash != std::string::npos;
  if (good) {
    const char* const begin = file.data() + dash + 1;
    const char* const end = file.data() + file.size() - 4;
    const auto [stop, error] = std::from_chars(begin, end, found.number);
    good = error == std::errc{} && stop == end && found.number >= 1 && found.number <= Omniglot::drawings;
  }
  if (!good) {
    files.refuse("holds '" + files.name() +
                 "' where <folder>/<alphabet>/<character>/<number>_<1 to 20>.png " + "was expected");
  }
  found.alphabet = parts[parts.size() - 3];
  found.character = found.alphabet + "/" + parts[parts.size() - 2];
  return found;
}

fs::path find(const DatasetSpec& spec) {
  static const std::map<std::string, std::string> files = {
      {"omniglot", "images_background.zip"},
      {"omniglot_small1", "images_background_small1.zip"},
      {"omniglot_small2", "images_background_small2.zip"},
      {"omniglot_evaluation", "images_evaluation.zip"}};
  const auto known = files.find(spec.name);
  if (known == files.end()) throw BadInput("data.set = " + spec.name + " is not a set of Omniglot");
  if (spec.directory.empty()) {
    throw BadInput("data.set = " + spec.name + " needs data.directory, the folder with " + known->second);
  }
  std::error_code ignored;
  const fs::path given = spec.directory;
  const auto unpacked = fs::path(known->second).stem();  // the folder in the zip
  for (const fs::path& folder : {given, given / "omniglot", given / "omniglot-py"}) {
    if (fs::exists(folder / known->second, ignored)) return folder / known->second;
    if (fs::is_directory(folder / unpacked, ignored)) return folder / unpacked;
  }
  auto last = given.has_filename() ? given : given.parent_path();
  if (last.filename() == unpacked && fs::is_directory(last, ignored)) return last;
  throw BadInput("data.directory = " + spec.directory + " does not hold " + known->second +
                 " or the unpacked folder " + unpacked.string() +
                 ", nor do its folders omniglot and omniglot-py; set data.directory to the folder of the "
                 "Omniglot files, or "
                 "use data.set = digits");
}

/// All characters of the alphabets asked for; refuses an archive that lacks some of their drawings.
std::vector<std::string> list_characters(const fs::path& path, int alphabets) {
  DrawingFiles files(path);
  std::map<std::string, std::map<std::string, std::set<int>>> found;  // [alphabet][character]
  while (files.next()) {
    if (const auto one = drawing(files)) found[one->alphabet][one->character].insert(one->number);
  }
  if (found.empty()) files.refuse("holds no drawings");
  if (alphabets < 0 || static_cast<std::size_t>(alphabets) > found.size()) {
    throw BadInput("data.alphabets = " + std::to_string(alphabets) + ": " + path.string() + " holds " +
                   std::to_string(found.size()) + "; 0 takes all");
  }
  std::vector<std::string> characters;
  for (const auto& [alphabet, members] : found) {
    for (const auto& [character, numbers] : members) {
      for (int number = 1; number <= Omniglot::drawings; ++number) {
        if (!numbers.contains(number)) {
          files.refuse("lacks drawing " + std::to_string(number) + " of " + character);
        }
      }
      characters.push_back(character);
    }
    if (--alphabets == 0) break;
  }
  return characters;
}

}  // namespace

Omniglot::Omniglot(const DatasetSpec& spec, const ImageTokens& layout)
    : ImageDataset(layout), name_(spec.name) {
  const fs::path path = find(spec);
  characters_ = list_characters(path, spec.alphabets);
  std::map<std::string, std::size_t> labels;
  for (const std::string& character : characters_) labels.emplace(character, labels.size());

  const int first = spec.split == "train" ? 1 : training_drawings + 1;
  const int count = spec.split == "train" ? training_drawings : drawings - training_drawings;
  size_ = std::min(spec.at_most, characters_.size() * static_cast<std::size_t>(count));
  images_.resize(size_ * image_pixels);
  DrawingFiles files(path);
  while (files.next()) {
    const auto one = drawing(files);
    if (!one || one->number < first || one->number >= first + count) continue;
    const auto label = labels.find(one->character);
    if (label == labels.end()) continue;
    const std::size_t index =
        static_cast<std::size_t>(one->number - first) * characters_.size() + label->second;
    if (index >= size_) continue;
    GreyImage picture = decode_png(files.read(), path.string() + ": " + files.name());
    if (picture.width != drawing_side || picture.height != drawing_side) {
      files.refuse("holds '" + files.name() + "' of " + std::to_string(picture.width) + " x " +
                   std::to_string(picture.height) + " pixels where 105 x 105 are expected");
    }
    for (std::uint8_t& grey : picture.grey) grey = grey < 128 ? 1 : 0;  // black is ink
    const auto image = shrink(picture.grey);
    std::copy(image.begin(), image.end(),
              images_.begin() + static_cast<std::ptrdiff_t>(index * image_pixels));
  }
}

std::vector<std::uint8_t> Omniglot::shrink(const std::vector<std::uint8_t>& ink) {
  // Row r of the image covers quarter rows 15 r .. 15 r + 14; a row of the drawing is four quarter rows.
  std::vector<std::uint8_t> image(image_pixels);
  constexpr int box = 15, quarters = 4;
  for (int pixel = 0; pixel < drawing_side * drawing_side; ++pixel) {
    if (ink[pixel] == 0) continue;  // 19 pixels out of 20
    for (int part = 0; part < quarters * quarters; ++part) {
      const int y = pixel / drawing_side * quarters + part / quarters;
      const int x = pixel % drawing_side * quarters + part % quarters;
      ++image[y / box * image_side + x / box];
    }
  }
  return image;
}

int Omniglot::label(std::size_t index) const {
  require(index);
  return static_cast<int>(index % characters_.size());
}

void Omniglot::image(std::size_t index, double* out) const {
  require(index);
  const auto pixels = images_.begin() + static_cast<std::ptrdiff_t>(index * image_pixels);
  std::transform(pixels, pixels + image_pixels, out,
                 [](std::uint8_t ink) { return ink / static_cast<double>(units); });
}

}  // namespace fluxformer::data
