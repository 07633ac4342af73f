#include "data/images/digits.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "data/make_dataset.hpp"

namespace fluxformer::test {
namespace {

using Image = std::vector<double>;

data::Digits digits(std::uint64_t seed = 1, bool train = true) {
  return data::Digits(train, data::ImageTokens(data::TokenLayout::patches), seed);
}

Image image(const data::Digits& set, std::size_t index) {
  Image out(data::image_pixels);
  set.image(index, out.data());
  return out;
}

TEST(Digits, a_sample_depends_on_seed_split_and_index_alone) {
  const data::Digits once = digits(), again = digits();
  const Image late = image(once, 54321), early = image(once, 3);
  EXPECT_EQ(image(again, 3), early);  // read in a different order, from another object
  EXPECT_EQ(image(again, 54321), late);
  EXPECT_NE(early, image(digits(2), 3));
  EXPECT_NE(early, image(digits(1, false), 3));
}

TEST(Digits, every_ten_samples_hold_each_digit_once_in_changing_order) {
  const data::Digits set = digits();
  std::set<std::vector<int>> orders;
  for (std::size_t block = 0; block < 200; ++block) {
    std::vector<int> order;
    for (std::size_t i = 0; i < 10; ++i) order.push_back(set.label(10 * block + i));
    orders.insert(order);
    std::sort(order.begin(), order.end());
    EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9})) << "block " << block;
  }
  // 200 of 10! orders: any collision has probability 200^2 / 2 / 3628800 < 0.6 %; the seed is fixed.
  EXPECT_EQ(orders.size(), 200U);
}

TEST(Digits, no_two_samples_are_alike) {
  const data::Digits train = digits(), test = digits(1, false);
  std::set<Image> seen;
  for (std::size_t i = 0; i < 500; ++i) {
    seen.insert(image(train, i));
    seen.insert(image(test, i));
  }
  EXPECT_EQ(seen.size(), 1000U);
}

TEST(Digits, ink_lies_in_the_frame_between_0_and_1) {
  const data::Digits set = digits();
  double rim = 0;
  for (std::size_t i = 0; i < 1000; ++i) {
    const Image picture = image(set, i);
    for (std::size_t p = 0; p < data::image_pixels; ++p) {
      EXPECT_TRUE(picture[p] >= 0 && picture[p] <= 1);
      const std::size_t row = p / 28, column = p % 28;
      if (row == 0 || row == 27 || column == 0 || column == 27) rim += picture[p];
    }
  }
  EXPECT_LT(rim / (1000 * 108),
            0.03);  // noise (clipped at 0, mean below 0.06 / sqrt(2 pi)) and a few stray strokes
}

TEST(Digits, brightness_is_that_of_mnist) {
  const data::Digits set = digits();
  std::vector<double> tokens(data::image_pixels);
  double sum = 0, squares = 0;
  constexpr int samples = 1000;
  for (std::size_t i = 0; i < samples; ++i) {
    set.tokens(i, tokens.data());
    for (const double x : tokens) sum += x, squares += x * x;
  }
  const double mean = sum / (samples * data::image_pixels);
  EXPECT_NEAR(mean, 0, 0.1);
  EXPECT_NEAR(std::sqrt(squares / (samples * data::image_pixels) - mean * mean), 1, 0.1);
}

/// Digits match their labels if a simple classifier can tell them apart: the nearest of 1500 other digits
/// (squared distance, no learning) has the right label nine times in ten; guessing would be right once in
/// ten.
TEST(Digits, the_nearest_neighbour_tells_the_label) {
  const data::Digits train = digits(), test = digits(1, false);
  constexpr std::size_t known = 1500, asked = 100;
  std::vector<Image> pictures;
  for (std::size_t i = 0; i < known; ++i) pictures.push_back(image(train, i));
  int right = 0;
  for (std::size_t i = 0; i < asked; ++i) {
    const Image picture = image(test, i);
    double least = 1e300;
    int answer = -1;
    for (std::size_t k = 0; k < known; ++k) {
      double distance = 0;
      for (std::size_t p = 0; p < data::image_pixels && distance < least; ++p) {
        distance += (picture[p] - pictures[k][p]) * (picture[p] - pictures[k][p]);
      }
      if (distance < least) least = distance, answer = train.label(k);
    }
    right += answer == test.label(i) ? 1 : 0;
  }
  EXPECT_GE(right, 9 * static_cast<int>(asked) / 10);
}

/// The digits of a 5 x 7 dot-matrix display, row by row.
constexpr std::array<std::string_view, 10> display = {
    ".###.#...##...##...##...##...#.###.", "..#...##....#....#....#....#...###.",
    ".###.#...#....#...#...#...#...#####", ".###.#...#....#..##.....##...#.###.",
    "...#...##..#.#.#..#.#####...#....#.", "######....####.....#....##...#.###.",
    "..##..#...#....####.#...##...#.###.", "#####....#...#...#...#....#....#...",
    ".###.#...##...#.###.#...##...#.###.", ".###.#...##...#.####....#...#..##..",
};

using Cloud = std::vector<data::PenPoint>;

/// Dots normalised in position, slant and height: mean 0, x and y uncorrelated, y of deviation 1.
Cloud upright(Cloud dots) {
  const double n = static_cast<double>(dots.size());
  double x = 0, y = 0, xy = 0, yy = 0;
  for (const data::PenPoint& dot : dots) x += dot.x / n, y += dot.y / n;
  for (data::PenPoint& dot : dots) {
    dot.x -= x, dot.y -= y;
    xy += dot.x * dot.y / n, yy += dot.y * dot.y / n;
  }
  for (data::PenPoint& dot : dots) dot.x = (dot.x - xy / yy * dot.y) / std::sqrt(yy), dot.y /= std::sqrt(yy);
  return dots;
}

/// The dots of a picture where `ink(place)` holds.
template <class Ink>
Cloud dots_of(std::size_t places, std::size_t columns, Ink ink) {
  Cloud dots;
  for (std::size_t p = 0; p < places; ++p) {
    if (ink(p)) dots.push_back({static_cast<double>(p % columns), static_cast<double>(p / columns)});
  }
  return upright(std::move(dots));
}

/// Mean squared distance from a dot of `from` to the nearest of `to`.
double distance(const Cloud& from, const Cloud& to) {
  double sum = 0;
  for (const data::PenPoint& a : from) {
    double least = 1e300;
    for (const data::PenPoint& b : to)
      least = std::min(least, (a.x - b.x) * (a.x - b.x) + (a.y - b.y) * (a.y - b.y));
    sum += least;
  }
  return sum / static_cast<double>(from.size());
}

/// More of 50 pictures of a digit are classified correctly than as any other digit.
TEST(Digits, are_read_as_their_label_by_someone_who_knows_a_dot_matrix_display) {
  const data::Digits set = digits();
  std::vector<Cloud> known;
  for (const std::string_view digit : display) {
    known.push_back(dots_of(digit.size(), 5, [&](std::size_t p) { return digit[p] == '#'; }));
  }
  std::array<std::array<int, 10>, 10> answers{};  // [label][answer]
  for (std::size_t i = 0; i < 500; ++i) {
    const Image picture = image(set, i);
    const Cloud dots = dots_of(data::image_pixels, 28, [&](std::size_t p) { return picture[p] > 0.5; });
    std::array<double, 10> apart{};
    for (std::size_t d = 0; d < 10; ++d) apart[d] = distance(dots, known[d]) + distance(known[d], dots);
    const auto answer = std::min_element(apart.begin(), apart.end()) - apart.begin();
    ++answers[set.label(i)][answer];
  }
  for (std::size_t label = 0; label < 10; ++label) {
    const auto& given = answers[label];
    EXPECT_EQ(std::max_element(given.begin(), given.end()) - given.begin(),
              static_cast<std::ptrdiff_t>(label))
        << label << " was read as " << testing::PrintToString(given);
  }
}

TEST(Digits, the_factory_makes_both_splits_without_a_folder) {
  for (const auto& [split, size] : {std::pair<const char*, std::size_t>{"train", 60000}, {"test", 10000}}) {
    const auto set = data::make_dataset({.directory = "/nowhere", .split = split, .tokens = "rows"});
    EXPECT_EQ(set->name(), "digits");
    EXPECT_EQ(set->size(), size);
    EXPECT_EQ(set->tokens_x(), 28);
    EXPECT_EQ(set->tokens_y(), 1);
    EXPECT_EQ(set->features(), 28);
    EXPECT_EQ(set->classes(), 10);
    EXPECT_THROW(set->label(size), std::out_of_range);
  }
  EXPECT_EQ(data::make_dataset({.tokens = "pixels", .at_most = 5})->size(), 5U);
}

TEST(DigitStrokes, strokes_fill_the_unit_box_in_every_style) {
  for (int digit = 0; digit < 10; ++digit) {
    ASSERT_GE(data::digit_styles(digit), 2) << digit;
    for (int style = 0; style < data::digit_styles(digit); ++style) {
      double top = 0, bottom = 0, widest = 0;
      for (const data::PenStroke& stroke : data::digit_strokes(digit, style)) {
        ASSERT_GE(stroke.size(), 2U);
        for (const data::PenPoint& point : stroke) {
          top = std::min(top, point.y), bottom = std::max(bottom, point.y);
          widest = std::max(widest, std::abs(point.x));
        }
      }
      EXPECT_NEAR(top, -1, 0.08) << digit << " style " << style;
      EXPECT_NEAR(bottom, 1, 0.12) << digit << " style " << style;
      EXPECT_LE(widest, 0.65) << digit << " style " << style;
    }
    EXPECT_THROW(data::digit_strokes(digit, data::digit_styles(digit)), std::out_of_range);
  }
}

}  // namespace
}  // namespace fluxformer::test
