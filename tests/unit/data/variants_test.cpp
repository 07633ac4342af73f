// Random variants of samples: images under small affine maps, texts with words left out.

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

#include "data/dataset.hpp"
#include "data/images/image_tokens.hpp"
#include "data/make_dataset.hpp"

namespace fluxformer::data {
namespace {

using Image = std::array<double, data::image_pixels>;

/// A round blob around the centre, shifted by `x`, `y`.
Image blot(double x = 0, double y = 0) {
  Image image;
  constexpr double centre = (data::image_side - 1) / 2.0;
  for (int j = 0; j < data::image_pixels; ++j) {
    const double dx = j % data::image_side - centre - x, dy = j / data::image_side - centre - y;
    image[j] = std::exp(-(dx * dx + dy * dy) / 18);
  }
  return image;
}

struct Moments {
  double ink = 0, x = 0, y = 0;
};
Moments moments(const Image& image) {
  Moments m;
  for (int j = 0; j < data::image_pixels; ++j) {
    const double ink = image[j];
    m.ink += ink;
    m.x += ink * (j % data::image_side);
    m.y += ink * (j / data::image_side);
  }
  return {m.ink, m.x / m.ink, m.y / m.ink};
}

TEST(Variant, of_an_image_of_strength_zero_is_the_image) {
  auto image = blot(3, -2);
  warp_image(RandomStream(1, "warp"), 0, image.data());
  const auto same = blot(3, -2);
  // cos 0 = 1, sin 0 = 0: the map is the identity up to the round-off of coordinates below 28.
  for (std::size_t j = 0; j < same.size(); ++j) EXPECT_NEAR(image[j], same[j], 1e-14);
}

TEST(Variant, of_an_image_stays_within_the_bounds_of_its_map) {
  double furthest = 0, most = 0;
  for (std::uint64_t draw = 0; draw < 200; ++draw) {
    auto image = blot();
    const auto before = moments(image);
    warp_image(RandomStream(1, "warp").item(draw), 1, image.data());
    const auto after = moments(image);
    for (const double ink : image) {
      ASSERT_GE(ink, 0);
      ASSERT_LE(ink, 1);
    }
    // Shifted by up to 2.5 pixels in both directions, then through a map whose inverse stretches by at
    // most 1.5.
    furthest = std::max(furthest, std::hypot(after.x - before.x, after.y - before.y));
    most = std::max(most, std::abs(std::log(after.ink / before.ink)));
  }
  EXPECT_LT(furthest, 1.5 * std::hypot(2.5, 2.5));
  EXPECT_GT(furthest, 2);
  // The area changes by the determinant: scales of 0.85 to 1.15 and the shear.
  EXPECT_LT(most, 0.45);
  EXPECT_GT(most, 0.15);
}

TEST(Variant, of_an_image_depends_on_the_draw_alone) {
  const RandomStream stream(7, "warp");
  auto first = blot(2, 1), again = blot(2, 1), other = blot(2, 1);
  warp_image(stream.item(3), 0.5, first.data());
  warp_image(stream.item(3), 0.5, again.data());
  warp_image(stream.item(4), 0.5, other.data());
  EXPECT_EQ(first, again);
  EXPECT_NE(first, other);
  const auto set = make_dataset({.name = "digits", .at_most = 3});
  std::vector<double> tokens(data::image_pixels), variant(data::image_pixels);
  set->tokens(2, tokens.data());
  set->variant(2, stream, 0, variant.data());
  // The same in tokens: the scaling of pixels magnifies the round-off of the map by 1 / 0.3.
  for (std::size_t j = 0; j < tokens.size(); ++j) EXPECT_NEAR(variant[j], tokens[j], 1e-12);
}

TEST(Variant, of_a_text_leaves_out_that_share_of_its_words_and_no_padding) {
  const auto set = make_dataset({.name = "topics", .at_most = 200, .length = 64});
  std::vector<double> tokens(64), variant(64);
  double words = 0, replaced = 0;
  for (std::size_t index = 0; index < set->size(); ++index) {
    set->tokens(index, tokens.data());
    set->variant(index, RandomStream(1, "variants").item(index), 0.3, variant.data());
    for (int j = 0; j < 64; ++j) {
      const auto at = static_cast<std::size_t>(j);
      if (j >= set->length(index)) {
        EXPECT_EQ(variant[at], 0);
      } else if (tokens[at] != 1) {
        words += 1;
        if (variant[at] != tokens[at]) {
          EXPECT_EQ(variant[at], 1);  // <unk>
          replaced += 1;
        }
      }
    }
  }
  // Binomial: five standard deviations.
  EXPECT_NEAR(replaced / words, 0.3, 5 * std::sqrt(0.3 * 0.7 / words));
}

}  // namespace
}  // namespace fluxformer::data
