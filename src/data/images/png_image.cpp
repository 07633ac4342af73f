#include "data/images/png_image.hpp"

#include <png.h>

#include "base/error.hpp"

namespace fluxformer::data {

GreyImage decode_png(const std::string& bytes, const std::string& name) {
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  const auto refuse = [&](const std::string& what) {
    png_image_free(&png);
    throw BadInput(name + " is not a readable PNG (" + what + ")");
  };
  if (bytes.empty()) refuse("it is empty");
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
