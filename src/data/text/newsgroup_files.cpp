#include "data/text/newsgroup_files.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <optional>

#include "base/error.hpp"
#include "data/files/packed_file.hpp"

namespace fluxformer::data {
namespace {

namespace fs = std::filesystem;

/// The number of a post; nothing for any other file (a note, a hidden file).
std::optional<long> post_id(const std::string& file) {
  constexpr std::size_t most_digits = 18;
  if (file.empty() || file.size() > most_digits) return {};
  if (!std::all_of(file.begin(), file.end(), [](char c) { return c >= '0' && c <= '9'; })) return {};
  return std::stol(file);
}

std::optional<int> group_label(const std::string& group) {
  const auto found = std::find(newsgroup_names.begin(), newsgroup_names.end(), group);
  if (found == newsgroup_names.end()) return {};
  return static_cast<int>(found - newsgroup_names.begin());
}

std::string unknown_group(const std::string& group) {
  return "holds the group '" + group + "', which is not one of the 20 newsgroups";
}

}  // namespace

NewsgroupFiles::NewsgroupFiles(const fs::path& directory) {
  const std::string wanted =
      "20news-bydate.tar.gz, or the folders 20news-bydate-train and 20news-bydate-test";
  const std::string advice = "; set data.directory to their folder, or use data.set = topics";
  std::error_code ignored;
  if (directory.empty()) throw BadInput("data.set = 20news needs data.directory, the folder with " + wanted);
  if (!fs::is_directory(directory, ignored)) {
    throw BadInput("data.directory = " + directory.string() + " is not a folder; looked there for " + wanted +
                   advice);
  }
  for (const fs::path& folder : {directory, directory / "20news"}) {
    if (fs::is_directory(folder / "20news-bydate-train", ignored)) {
      place_ = folder;
      return;
    }
    if (fs::exists(folder / "20news-bydate.tar.gz", ignored)) {
      place_ = folder / "20news-bydate.tar.gz";
      packed_ = true;
      return;
    }
  }
  throw BadInput("data.directory = " + directory.string() + " does not hold the 20 newsgroups: looked for " +
                 wanted + ", there and in its folder 20news" + advice);
}

void NewsgroupFiles::for_each(bool train, const Visit& visit) const {
  const std::string split = train ? "20news-bydate-train" : "20news-bydate-test";
  std::array<std::size_t, newsgroup_names.size()> posts{};
  const Visit counted = [&](int label, long id, const std::string& text) {
    ++posts[label];
    visit(label, id, text);
  };
  try {
    packed_ ? for_each_packed(split, counted) : for_each_unpacked(split, counted);
  } catch (const fs::filesystem_error& e) {
    throw BadInput(e.path1().string() + " cannot be read: " + e.code().message());
  }
  const auto missing = std::find(posts.begin(), posts.end(), 0U);
  if (missing != posts.end()) {
    throw BadInput(place_.string() + " holds no posts of the group " +
                   std::string(newsgroup_names[missing - posts.begin()]) + ": looked for " + split +
                   "/<group>/<number>");
  }
}

void NewsgroupFiles::for_each_packed(const std::string& split, const Visit& visit) const {
  PackedFile archive(place_, PackedFile::Kind::tar_gz);
  while (archive.next()) {
    const auto parts = path_parts(archive.name());
    if (parts.size() < 3 || parts[parts.size() - 3] != split) continue;
    const auto id = post_id(parts.back());
    if (!id) continue;
    const auto label = group_label(parts[parts.size() - 2]);
    if (!label) archive.refuse(unknown_group(parts[parts.size() - 2]));
    visit(*label, *id, archive.read());
  }
}

void NewsgroupFiles::for_each_unpacked(const std::string& split, const Visit& visit) const {
  std::error_code ignored;
  const fs::path tree = place_ / split;
  if (!fs::is_directory(tree, ignored)) throw BadInput(tree.string() + " is not a folder");
  for (const auto& group : fs::directory_iterator(tree)) {
    if (!group.is_directory()) continue;
    const auto label = group_label(group.path().filename().string());
    if (!label) throw BadInput(tree.string() + " " + unknown_group(group.path().filename().string()));
    for (const auto& file : fs::directory_iterator(group)) {
      const auto id = post_id(file.path().filename().string());
      if (!id || !file.is_regular_file()) continue;
      if (file.file_size() > PackedFile::largest) {
        throw BadInput(file.path().string() + " is not a post: it has more than " +
                       std::to_string(PackedFile::largest) + " bytes");
      }
      std::ifstream stream(file.path(), std::ios::binary);
      const std::string text(std::istreambuf_iterator<char>(stream), {});
      if (!stream.is_open() || stream.bad()) throw BadInput(file.path().string() + " cannot be read");
      visit(*label, *id, text);
    }
  }
}

}  // namespace fluxformer::data
