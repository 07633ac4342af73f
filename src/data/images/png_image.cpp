#include "data/images/png_image.hpp"

#include <png.h>

#include <string_view>

#include "base/error.hpp"

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

}  // namespace fluxformer::data
