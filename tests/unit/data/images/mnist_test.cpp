#include "data/images/mnist.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "data/make_dataset.hpp"
#include "tests/unit/data/images/idx_writer.hpp"

namespace fluxformer::test {
namespace {

namespace fs = std::filesystem;

std::unique_ptr<data::Dataset> load(const fs::path& folder, const char* split = "train",
                                    const char* tokens = "patches",
                                    std::size_t at_most = data::every_sample) {
  return data::make_dataset(
      {.name = "mnist", .directory = folder.string(), .split = split, .tokens = tokens, .at_most = at_most});
}

std::string complaint_about(const fs::path& folder, const char* split = "train") {
  return complaint([&] { load(folder, split); });
}

/// A tiny MNIST of `images` images and `labels` labels (0, 1, 2, ... 9, 0, ...).
void write_set(const fs::path& folder, std::uint32_t images, std::uint32_t labels,
               const std::string& part = "train") {
  Bytes digits(labels);
  for (std::size_t i = 0; i < labels; ++i) digits[i] = static_cast<std::uint8_t>(i % 10);
  write(folder / (part + "-images-idx3-ubyte"), idx({images, 28, 28}, ramp(images * 784U)));
  write_gzip(folder / (part + "-labels-idx1-ubyte.gz"), idx({labels}, digits));
}

TEST(Mnist, pixels_are_scaled_by_the_mean_and_deviation_of_the_training_set) {
  const TemporaryFolder folder;
  write_set(folder.path(), 12, 12);
  const auto set = load(folder.path());
  EXPECT_EQ(set->name(), "mnist");
  EXPECT_EQ(set->size(), 12U);
  EXPECT_EQ(set->classes(), 10);
  EXPECT_EQ(set->tokens_x(), 7);
  EXPECT_EQ(set->tokens_y(), 7);
  EXPECT_EQ(set->features(), 16);
  EXPECT_EQ(set->length(11), 49);
  const Bytes pixels = ramp(12 * 784);
  std::vector<double> out(784);
  for (const std::size_t sample : {0U, 5U, 11U}) {
    EXPECT_EQ(set->label(sample), static_cast<int>(sample % 10));
    set->tokens(sample, out.data());
    // Token (x 2, y 3), row 1, column 2 of the patch is pixel row 13, column 10.
    const double pixel = pixels[sample * 784 + 13 * 28 + 10];
    EXPECT_DOUBLE_EQ(out[(3 * 7 + 2) * 16 + 1 * 4 + 2], (pixel / 255 - 0.1307) / 0.3081);
  }
  EXPECT_THROW(set->tokens(12, out.data()), std::out_of_range);
  EXPECT_THROW(set->label(12), std::out_of_range);
}

TEST(Mnist, at_most_keeps_the_first_samples_unchanged) {
  const TemporaryFolder folder;
  write_set(folder.path(), 12, 12, "t10k");
  const auto whole = load(folder.path(), "test", "rows"), part = load(folder.path(), "test", "rows", 3);
  ASSERT_EQ(part->size(), 3U);
  std::vector<double> a(784), b(784);
  whole->tokens(2, a.data());
  part->tokens(2, b.data());
  EXPECT_EQ(a, b);
  EXPECT_EQ(whole->label(2), part->label(2));
  EXPECT_THROW(part->label(3), std::out_of_range);
  EXPECT_EQ(load(folder.path(), "test", "rows", 100)->size(), 12U);
}

TEST(Mnist, is_found_in_the_folder_or_its_folder_mnist_under_either_spelling) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "mnist");
  write_set(folder / "mnist", 3, 3);
  EXPECT_EQ(load(folder.path())->size(), 3U);
  fs::rename(folder / "mnist" / "train-images-idx3-ubyte", folder / "mnist" / "train-images.idx3-ubyte");
  EXPECT_EQ(load(folder / "mnist")->size(), 3U);
}

TEST(Mnist, is_found_where_torchvision_and_kaggle_put_it) {
  const TemporaryFolder folder;
  const auto raw = folder / "MNIST" / "raw";
  fs::create_directories(raw);
  write_set(raw, 3, 3);
  for (const auto& place : {folder.path(), folder / "MNIST", raw})
    EXPECT_EQ(load(place)->size(), 3U) << place;
  const std::string name = "train-images-idx3-ubyte";
  fs::rename(raw / name, folder / "images");
  fs::create_directory(raw / name);
  fs::rename(folder / "images", raw / name / name);
  EXPECT_EQ(load(folder.path())->size(), 3U);
}

TEST(Mnist, other_sets_are_found_by_what_their_files_begin_with) {
  const TemporaryFolder folder;
  const auto raw = folder / "EMNIST" / "raw";
  fs::create_directories(raw);
  write_set(raw, 3, 3, "emnist-letters-train");
  write(raw / "emnist-letters-test-images-idx3-ubyte", idx({2, 28, 28}, ramp(2 * 784)));
  write(raw / "emnist-letters-test-labels-idx1-ubyte", idx({2}, {26, 1}));
  EXPECT_EQ(load(folder.path())->classes(), 27);  // the test split has a label 26
  EXPECT_EQ(load(folder.path(), "test")->label(0), 26);
  write_set(raw, 4, 4, "emnist-digits-train");
  const auto message = complaint_about(folder.path());
  EXPECT_NE(message.find("several sets"), std::string::npos) << message;
  EXPECT_NE(message.find("emnist-letters"), std::string::npos) << message;
  EXPECT_EQ(load(raw / "emnist-digits")->size(), 4U);
}

TEST(Mnist, a_missing_folder_or_file_is_named_with_what_was_looked_for) {
  const TemporaryFolder folder;
  const auto expect = [&](const fs::path& place, const std::string& what) {
    const std::string message = complaint_about(place);
    for (const std::string& part :
         {std::string("data.directory"), place.string(), what,
          std::string("train-images-idx3-ubyte[.gz] and train-labels-idx1-ubyte[.gz]")}) {
      EXPECT_NE(message.find(part), std::string::npos) << "'" << part << "' not in: " << message;
    }
  };
  expect("", "needs data.directory");
  expect(folder / "nowhere", "is not a folder");
  expect(folder.path(), "does not hold the MNIST files");
  write_set(folder.path(), 3, 3);
  EXPECT_EQ(complaint_about(folder.path()), "");
  EXPECT_NE(complaint_about(folder.path(), "test").find("t10k-images-idx3-ubyte"), std::string::npos);
  fs::remove(folder / "train-labels-idx1-ubyte.gz");
  expect(folder.path(), "does not hold the MNIST labels");
}

TEST(Mnist, files_that_do_not_belong_together_are_refused) {
  const TemporaryFolder folder;
  write_set(folder.path(), 5, 4);
  std::string message = complaint_about(folder.path());
  EXPECT_NE(message.find("holds 5 images but"), std::string::npos) << message;
  EXPECT_NE(message.find("holds 4 labels"), std::string::npos) << message;

  write_set(folder.path(), 4, 4);
  write(folder / "train-images-idx3-ubyte", idx({4, 20, 28}, ramp(4 * 20 * 28)));
  message = complaint_about(folder.path());
  EXPECT_NE(message.find("images of 20 x 28 pixels where 28 x 28"), std::string::npos) << message;

  write_set(folder.path(), 4, 4);
  write_gzip(folder / "train-labels-idx1-ubyte.gz", idx({4}, {0, 9, 200, 1}));
  message = complaint_about(folder.path());
  EXPECT_NE(message.find("label 2 is 200, expected 0 to 9"), std::string::npos) << message;
}

/// The real files: $FLUXFORMER_DATA/mnist.
fs::path real_files() {
  const char* given = std::getenv("FLUXFORMER_DATA");
  if (given == nullptr) return {};
  const fs::path folder = fs::path(given) / "mnist";
  return fs::is_directory(folder) ? folder : fs::path();
}

class RealMnist : public testing::TestWithParam<std::pair<const char*, std::vector<int>>> {};

TEST_P(RealMnist, holds_the_well_known_number_of_each_digit) {
  if (real_files().empty())
    GTEST_SKIP() << "no MNIST files: set FLUXFORMER_DATA to the folder that holds mnist/";
  const auto& [split, expected] = GetParam();
  const auto set = load(real_files(), split);
  std::vector<int> count(10);
  for (std::size_t i = 0; i < set->size(); ++i) ++count[set->label(i)];
  EXPECT_EQ(count, expected);
}

INSTANTIATE_TEST_SUITE_P(Splits, RealMnist,
                         testing::Values(std::pair{"train", std::vector<int>{5923, 6742, 5958, 6131, 5842,
                                                                             5421, 5918, 6265, 5851, 5949}},
                                         std::pair{"test", std::vector<int>{980, 1135, 1032, 1010, 982, 892,
                                                                            958, 1028, 974, 1009}}));

TEST(RealMnistPixels, have_mean_0_and_variance_1_after_scaling) {
  if (real_files().empty())
    GTEST_SKIP() << "no MNIST files: set FLUXFORMER_DATA to the folder that holds mnist/";
  const auto set = load(real_files());
  ASSERT_EQ(set->size(), 60000U);
  std::vector<double> tokens(784);
  double sum = 0, squares = 0;
  for (std::size_t i = 0; i < set->size(); ++i) {
    set->tokens(i, tokens.data());
    for (const double x : tokens) sum += x, squares += x * x;
  }
  const double mean = sum / (60000.0 * 784);
  // Mean and standard deviation are known to four decimals: an error of up to 0.00005 / 0.3081 standard
  // deviations.
  EXPECT_NEAR(mean, 0, 1.7e-4);
  EXPECT_NEAR(std::sqrt(squares / (60000.0 * 784) - mean * mean), 1, 1.7e-4);
  EXPECT_EQ(set->label(0), 5);  // the first training digits: 5 0 4 1 9
  EXPECT_EQ(set->label(1), 0);
  EXPECT_EQ(set->label(4), 9);
}

}  // namespace
}  // namespace fluxformer::test
