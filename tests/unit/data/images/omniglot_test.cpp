#include "data/images/omniglot.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>

#include "data/make_dataset.hpp"
#include "tests/unit/data/files/archive_writer.hpp"
#include "tests/unit/data/images/idx_writer.hpp"

namespace fluxformer::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using Places = std::vector<std::pair<int, int>>;

/// In alphabetical order: the classes.
const std::vector<std::string> names = {"Greek/character01", "Greek/character02", "Hebrew/character01",
                                        "Latin/character07"};

std::string file_of(std::size_t character, int drawing) {
  const std::string number = std::to_string(drawing);
  return "images_background/" + names[character] + "/0042_" + (drawing < 10 ? "0" : "") + number + ".png";
}

/// One dot for the character and one for the drawing; their rows and columns are multiples of 15, where a
/// box of the small image begins (15 / 3.75 = 4).
Places dots(std::size_t character, int drawing) {
  return {{15 * static_cast<int>(character), 0}, {15 * (drawing / 6), 15 * (1 + drawing % 6)}};
}

/// Last character first, so that the order of the files is not that of the samples.
Members all_drawings() {
  Members members{{"images_background/README", "no picture"}, {"__MACOSX/x/y/._0042_01.png", "no picture"}};
  for (std::size_t character = names.size(); character-- > 0;) {
    for (int drawing = data::Omniglot::drawings; drawing > 0; --drawing) {
      members.emplace_back(file_of(character, drawing), png_of(105, 105, dots(character, drawing)));
    }
  }
  return members;
}

Members replaced(const std::string& file, const std::string& bytes) {
  Members members = all_drawings();
  for (auto& [name, old] : members) {
    if (name == file) old = bytes;
  }
  return members;
}

data::DatasetSpec spec(const fs::path& directory, const char* split = "train") {
  return {.name = "omniglot", .directory = directory.string(), .split = split};
}

std::string refusal(const data::DatasetSpec& asked) {
  return complaint([&] { data::make_dataset(asked); });
}

data::Omniglot omniglot(const data::DatasetSpec& asked) {
  return {asked, data::ImageTokens(data::TokenLayout::patches)};
}

std::vector<double> image(const data::ImageDataset& set, std::size_t index) {
  std::vector<double> out(data::image_pixels);
  set.image(index, out.data());
  return out;
}

TEST(Png, is_decoded_bit_by_bit) {
  const data::GreyImage image = data::decode_png(png_of(11, 3, {{0, 0}, {1, 10}, {2, 7}, {2, 8}}), "x.png");
  EXPECT_EQ(image.width, 11);
  EXPECT_EQ(image.height, 3);
  ASSERT_EQ(image.grey.size(), 33U);
  for (std::size_t p = 0; p < 33; ++p) {
    const bool ink = p == 0 || p == 11 + 10 || p == 22 + 7 || p == 22 + 8;
    EXPECT_EQ(image.grey[p], ink ? 0 : 255) << p;
  }
}

TEST(Png, a_damaged_one_is_refused_by_name) {
  const std::string good = png_of(105, 105, {{50, 50}, {51, 51}});
  const auto refused = [](const std::string& bytes) {
    return complaint([&] { data::decode_png(bytes, "some.zip: a/b.png"); });
  };
  EXPECT_EQ(refused(good), "");
  for (std::size_t kept = 0; kept < good.size(); kept += 5) {
    EXPECT_THAT(refused(good.substr(0, kept)), HasSubstr("some.zip: a/b.png is not a readable PNG ("))
        << kept;
  }
  // A text of 2 GB is announced before the pixels; libpng would allocate them.
  const std::string announced("\x7f\xff\xff\xfftEXt", 8);
  EXPECT_THAT(refused(std::string(good).insert(33, announced)), HasSubstr("it ends within its data"));
  EXPECT_THAT(refused("GIF89a and more of it"), HasSubstr("is not a readable PNG ("));
  EXPECT_THAT(refused(png_of(5000, 1, {})), HasSubstr("5000 x 1 pixels"));
}

TEST(Omniglot, boxes_are_averaged_exactly) {
  std::vector<std::uint8_t> ink(105 * 105, 1);
  EXPECT_THAT(data::Omniglot::shrink(ink), testing::Each(225));
  std::fill(ink.begin(), ink.end(), 0);
  ink[0] = 1;            // wholly in the first box: 4 x 4 quarters
  ink[3 * 105 + 3] = 1;  // 3/4 of it on one side of the border at 3.75, both ways
  const auto small = data::Omniglot::shrink(ink);
  EXPECT_EQ(small[0], 16 + 9);
  EXPECT_EQ(small[1], 3);
  EXPECT_EQ(small[28], 3);
  EXPECT_EQ(small[29], 1);
  EXPECT_EQ(std::accumulate(small.begin(), small.end(), 0), 32);
}

TEST(Omniglot, drawings_1_to_16_train_and_17_to_20_test) {
  const TemporaryFolder folder;
  write_archive(folder / "images_background.zip", all_drawings());
  for (const auto& [split, first, count] : {std::tuple{"train", 1, 16}, std::tuple{"test", 17, 4}}) {
    const data::Omniglot set = omniglot(spec(folder.path(), split));
    EXPECT_EQ(set.name(), "omniglot");
    EXPECT_EQ(set.classes(), 4);
    EXPECT_EQ(set.characters(), names);
    ASSERT_EQ(set.size(), static_cast<std::size_t>(4 * count));
    for (std::size_t i = 0; i < set.size(); ++i) {
      const std::size_t character = i % 4;
      EXPECT_EQ(set.label(i), static_cast<int>(character));
      std::vector<double> expected(data::image_pixels);
      for (const auto& [row, column] : dots(character, first + static_cast<int>(i / 4))) {
        expected[row / 15 * 4 * data::image_side + column / 15 * 4] = 16 / 225.0;
      }
      EXPECT_EQ(image(set, i), expected) << split << " " << i;
    }
    EXPECT_THROW(set.label(set.size()), std::out_of_range);
  }
  const auto set = data::make_dataset(spec(folder.path()));
  std::vector<double> tokens(data::image_pixels);
  set->tokens(0, tokens.data());
  EXPECT_DOUBLE_EQ(tokens[0], (16 / 225.0 - 0.1307) / 0.3081);
  EXPECT_EQ(set->vocabulary(), 0);
  EXPECT_TRUE(set->words().empty());
}

TEST(Omniglot, only_the_alphabets_and_samples_asked_for_are_decoded) {
  const TemporaryFolder folder;
  // The invalid drawing: character 2 (Hebrew), drawing 3.
  write_archive(folder / "omniglot" / "images_background.zip", replaced(file_of(2, 3), "no picture"));
  EXPECT_THAT(refusal(spec(folder.path())),
              AllOf(HasSubstr("images_background.zip: "), HasSubstr(file_of(2, 3)),
                    HasSubstr("is not a readable PNG")));
  EXPECT_EQ(refusal(spec(folder.path(), "test")), "");
  data::DatasetSpec asked = spec(folder.path());
  asked.alphabets = 1;
  EXPECT_EQ(data::make_dataset(asked)->classes(), 2);
  EXPECT_EQ(data::make_dataset(asked)->size(), 32U);
  asked.alphabets = 2;
  EXPECT_NE(refusal(asked), "");
  asked.at_most = 3 * 2;  // two drawings of each of three characters
  EXPECT_EQ(data::make_dataset(asked)->size(), 6U);
  EXPECT_EQ(data::make_dataset(asked)->label(5), 2);
  asked.alphabets = 4;
  EXPECT_THAT(refusal(asked), AllOf(HasSubstr("data.alphabets = 4"), HasSubstr("holds 3; 0 takes all")));
  asked.alphabets = -1;
  EXPECT_THAT(refusal(asked), HasSubstr("data.alphabets = -1"));
}

TEST(Omniglot, a_zip_that_is_wrong_is_refused) {
  const TemporaryFolder folder;
  const fs::path path = folder / "images_background.zip";
  const auto refused = [&](const Members& members) {
    write_archive(path, members);
    return refusal(spec(folder.path()));
  };
  EXPECT_THAT(refused({{"notes.txt", "x"}}), AllOf(HasSubstr(path.string()), HasSubstr("holds no drawings")));
  EXPECT_THAT(refused({{"a/b.png", "x"}}), AllOf(HasSubstr("holds 'a/b.png'"), HasSubstr("was expected")));
  EXPECT_THAT(refused({{"f/a/c/0001_21.png", "x"}}), HasSubstr("holds 'f/a/c/0001_21.png'"));
  EXPECT_THAT(refused({{"f/a/c/0001_07.png", "x"}}), HasSubstr("lacks drawing 1 of a/c"));
  Members lacking = all_drawings();
  lacking.pop_back();
  EXPECT_THAT(refused(lacking), HasSubstr("lacks drawing 1 of Greek/character01"));
  EXPECT_THAT(refused(replaced(file_of(1, 2), png_of(28, 105, {}))),
              AllOf(HasSubstr(file_of(1, 2)), HasSubstr("of 28 x 105 pixels where 105 x 105")));
}

TEST(Omniglot, a_truncated_or_damaged_zip_is_refused) {
  const TemporaryFolder folder;
  const fs::path path = folder / "images_background.zip";
  write_archive(path, all_drawings());
  const Bytes good = contents(path);
  for (const std::size_t kept : {std::size_t{10}, good.size() / 2, good.size() - 30}) {
    write(path, Bytes(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(kept)));
    EXPECT_THAT(refusal(spec(folder.path())), AllOf(HasSubstr(path.string()), HasSubstr("is "))) << kept;
  }
  // The first picture: a byte changed within its compressed bytes.
  const std::string name = file_of(0, 1);
  const auto found = std::search(good.begin(), good.end(), name.begin(), name.end());
  ASSERT_NE(found, good.end());
  Bytes bad = good;
  bad[static_cast<std::size_t>(found - good.begin()) + name.size() + 60] ^= 0x55U;
  write(path, bad);
  EXPECT_THAT(refusal(spec(folder.path())), AllOf(HasSubstr(path.string()), HasSubstr(name)));
  write(path, ramp(3000));
  EXPECT_THAT(refusal(spec(folder.path())), HasSubstr("truncated or not a zip archive"));
}

TEST(Omniglot, missing_files_are_named_with_what_was_looked_for) {
  const TemporaryFolder folder;
  EXPECT_THAT(refusal(spec("")), HasSubstr("data.set = omniglot needs data.directory"));
  EXPECT_THAT(refusal(spec(folder.path())),
              AllOf(HasSubstr(folder.path().string()), HasSubstr("images_background.zip")));
  data::DatasetSpec asked = spec(folder.path());
  asked.name = "omniglot_evaluation";
  EXPECT_THAT(refusal(asked), HasSubstr("images_evaluation.zip"));
  asked.name = "omniglot_small2";
  EXPECT_THAT(refusal(asked), HasSubstr("images_background_small2.zip"));
  asked.name = "omniglot_big";
  EXPECT_THAT(refusal(asked), HasSubstr("data.set = omniglot_big"));
}

/// The real drawings: $FLUXFORMER_DATA/omniglot. The numbers of black pixels in 105 x 105 (16 units each)
/// were counted with another PNG decoder.
TEST(RealOmniglot, holds_964_characters_and_every_drop_of_their_ink) {
  const char* given = std::getenv("FLUXFORMER_DATA");
  if (given == nullptr || !fs::exists(fs::path(given) / "omniglot" / "images_background.zip")) {
    GTEST_SKIP() << "no Omniglot files: set FLUXFORMER_DATA to the folder that holds omniglot/";
  }
  std::size_t drawings = 0;
  for (const auto& [split, pixels] : {std::pair{"train", 13324643L}, std::pair{"test", 3242364L}}) {
    const data::Omniglot set = omniglot(spec(given, split));
    EXPECT_EQ(set.classes(), 964);
    drawings += set.size();
    double ink = 0;
    for (std::size_t i = 0; i < set.size(); ++i) {
      const auto picture = image(set, i);
      ink += std::accumulate(picture.begin(), picture.end(), 0.0);
      EXPECT_TRUE(std::all_of(picture.begin(), picture.end(), [](double x) { return x >= 0 && x <= 1; }));
    }
    EXPECT_EQ(std::lround(ink * data::Omniglot::units), 16 * pixels);
  }
  EXPECT_EQ(drawings, 19280U);
}

}  // namespace
}  // namespace fluxformer::test
