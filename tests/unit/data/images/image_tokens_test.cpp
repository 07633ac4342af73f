#include "data/images/image_tokens.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "base/error.hpp"

namespace fluxformer::test {
namespace {

std::vector<double> numbered_image() {
  std::vector<double> image(data::image_pixels);
  std::iota(image.begin(), image.end(), 0.0);
  return image;
}

TEST(ImageTokens, a_patch_holds_4_by_4_neighbouring_pixels_row_by_row) {
  const data::ImageTokens layout(data::TokenLayout::patches);
  ASSERT_EQ(layout.tokens_x(), 7);
  ASSERT_EQ(layout.tokens_y(), 7);
  ASSERT_EQ(layout.features(), 16);
  const std::vector<double> image = numbered_image();
  std::vector<double> out(data::image_pixels);
  layout.arrange(image.data(), out.data());
  for (std::size_t ty = 0; ty < 7; ++ty) {
    for (std::size_t tx = 0; tx < 7; ++tx) {
      for (std::size_t row = 0; row < 4; ++row) {
        for (std::size_t column = 0; column < 4; ++column) {
          EXPECT_EQ(out[(ty * 7 + tx) * 16 + row * 4 + column], image[(4 * ty + row) * 28 + 4 * tx + column]);
        }
      }
    }
  }
}

TEST(ImageTokens, all_but_patches_keep_the_order_of_the_image) {
  const std::vector<double> image = numbered_image();
  std::vector<double> out(data::image_pixels);
  const data::ImageTokens rows(data::TokenLayout::rows), pixels(data::TokenLayout::pixels),
      whole(data::TokenLayout::whole);
  EXPECT_EQ(rows.tokens_x(), 28);
  EXPECT_EQ(rows.tokens_y(), 1) << "a line";
  EXPECT_EQ(rows.features(), 28);
  EXPECT_EQ(pixels.tokens_x(), 28);
  EXPECT_EQ(pixels.tokens_y(), 28);
  EXPECT_EQ(pixels.features(), 1);
  EXPECT_EQ(whole.tokens_x(), 1);
  EXPECT_EQ(whole.tokens_y(), 1);
  EXPECT_EQ(whole.features(), 784);
  for (const data::ImageTokens& layout : {rows, pixels, whole}) {
    layout.arrange(image.data(), out.data());
    EXPECT_EQ(out, image);
  }
}

TEST(ImageTokens, restoring_undoes_arranging) {
  const std::vector<double> image = numbered_image();
  std::vector<double> out(data::image_pixels), back(data::image_pixels);
  for (const char* word : {"patches", "rows", "pixels", "whole"}) {
    const data::ImageTokens layout(data::token_layout(word));
    EXPECT_EQ(layout.tokens_x() * layout.tokens_y() * layout.features(), data::image_pixels);
    layout.arrange(image.data(), out.data());
    layout.restore(out.data(), back.data());
    EXPECT_EQ(back, image) << word;
  }
}

TEST(ImageTokens, an_unknown_layout_is_refused_with_the_known_ones) {
  try {
    data::token_layout("columns");
    FAIL() << "accepted";
  } catch (const BadInput& bad) {
    EXPECT_STREQ(bad.what(), "data.tokens = columns is not known: patches, rows, pixels or whole");
  }
}

}  // namespace
}  // namespace fluxformer::test
