#pragma once

// A separate folder for each test, removed afterwards.

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>

namespace fluxformer::test {

class InAFolder : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::temp_directory_path() / ("fluxformer-" + std::string(test->name()));
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string file(const std::string& name) const { return (folder_ / name).string(); }
  bool exists(const std::string& name) const { return std::filesystem::exists(folder_ / name); }

  // Bytes that a file occupies on the disk beyond its length. Its last block may be part full, and a file
  // system may add blocks for its index: kilobytes, where the archive reserves megabytes to be able to close
  // a file.
  long surplus(const std::string& name) const {
    struct stat found {};
    EXPECT_EQ(::stat(file(name).c_str(), &found), 0) << name;
    return found.st_blocks * 512 - found.st_size;
  }
  static constexpr long little = 64 << 10;

  std::filesystem::path folder_;
};

/// The message of the `Failure` that `work` throws; "" if it does not throw.
template <class Failure, class Work>
std::string complaint(const Work& work) {
  try {
    work();
  } catch (const Failure& failure) {
    return failure.what();
  }
  return "";
}

}  // namespace fluxformer::test
