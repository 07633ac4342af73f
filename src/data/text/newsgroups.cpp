#include "data/text/newsgroups.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <optional>
#include <tuple>
#include <utility>

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

/// Names the cache of scikit-learn in `directory`, for a message; empty if it is not there.
std::string cache_in(const fs::path& directory) {
  std::error_code ignored;
  for (const fs::path& folder : {directory, directory / "20news"}) {
    for (const char* name : {"20news-bydate_py3.pkz", "20news-bydate.pkz"}) {
      if (fs::exists(folder / name, ignored))
        return "; " + (folder / name).string() +
               " is the cache of scikit-learn, which is not read: four lines of Python in docs/guide/data.md "
               "(\"Folders of data sets\") unpack these folders from it";
    }
  }
  return {};
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
                 wanted + ", there and in its folder 20news" + cache_in(directory) + advice);
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

namespace {

constexpr std::string_view blanks = " \t\r\n\v\f";

bool is_digit(std::uint8_t c) {
  return c >= '0' && c <= '9';
}

/// In ISO 8859-1: 0xD7 and 0xF7 are the signs of multiplication and division; 0xAA, 0xB5 and 0xBA are
/// letters.
bool is_letter(std::uint8_t c) {
  if (c < 0x80) return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  return (c >= 0xC0 && c != 0xD7 && c != 0xF7) || c == 0xAA || c == 0xB5 || c == 0xBA;
}

/// Appends the lower-cased letter in UTF-8.
void append_lower(std::uint8_t c, std::string& word) {
  const bool upper = (c >= 'A' && c <= 'Z') || (c >= 0xC0 && c <= 0xDE);  // 0xDF is sharp s
  if (upper) c = static_cast<std::uint8_t>(c + 0x20);
  if (c < 0x80) {
    word += static_cast<char>(c);
  } else {
    word += static_cast<char>(0xC0U | c >> 6U);
    word += static_cast<char>(0x80U | (c & 0x3FU));
  }
}

/// Cuts the first line, its end included, from `text`.
std::string_view next_line(std::string_view& text) {
  const auto end = text.find('\n');
  const std::string_view line = text.substr(0, end == std::string_view::npos ? end : end + 1);
  text.remove_prefix(line.size());
  return line;
}

bool only(std::string_view line, std::string_view allowed) {
  return line.find_first_not_of(allowed) == std::string_view::npos;
}

bool is_quoted(std::string_view line) {
  constexpr std::array<std::string_view, 5> marks{"writes:", "wrote:", "says:", "said:", "writes in"};
  const auto first = line.find_first_not_of(blanks);
  if (first == std::string_view::npos) return false;
  const std::string_view words = line.substr(first);
  return words.front() == '>' || words.front() == '|' || words.starts_with("In article") ||
         std::any_of(marks.begin(), marks.end(),
                     [&](std::string_view mark) { return words.find(mark) != std::string_view::npos; });
}

}  // namespace

void for_each_word(std::string_view text, const std::function<bool(std::string_view)>& visit) {
  std::string word;
  for (std::size_t i = 0; i < text.size();) {
    const auto at = [&](std::size_t place) { return static_cast<std::uint8_t>(text[place]); };
    word.clear();
    if (is_digit(at(i))) {
      while (i < text.size() && is_digit(at(i))) word += text[i++];
    } else if (is_letter(at(i))) {
      while (i < text.size() && is_letter(at(i))) append_lower(at(i++), word);
    } else {
      ++i;
      continue;
    }
    if (!visit(word)) return;
  }
}

std::string_view without_header(std::string_view post) {
  while (!post.empty()) {
    if (only(next_line(post), blanks)) return post;
  }
  return post;
}

std::string without_quotes(std::string_view body) {
  std::string kept;
  while (!body.empty()) {
    const std::string_view line = next_line(body);
    if (!is_quoted(line)) kept += line;
  }
  return kept;
}

std::string_view without_footer(std::string_view body) {
  const auto first = body.find_first_not_of(blanks);
  if (first == std::string_view::npos) return body;
  const auto last = body.find_last_not_of(blanks);
  std::size_t end = body.size();
  for (std::size_t place = 0; place <= last;) {
    std::string_view rest = body.substr(place);
    const std::string_view line = next_line(rest);
    if (place > first && only(line, " \t\r\n\v\f-")) end = place;
    place += line.size();
  }
  return body.substr(0, end);
}

std::string kept_text(std::string_view post, bool headers, bool quotes, bool footers) {
  std::string_view body = without_header(post);
  const std::string_view header = post.substr(0, post.size() - body.size());
  if (!footers) body = without_footer(body);
  std::string text(headers ? header : std::string_view{});
  return quotes ? text.append(body) : text.append(without_quotes(body));
}

namespace {

struct Post {
  int label = 0;
  long id = 0;
  std::vector<std::uint32_t> words;
};

/// The posts of a split with the `number` of each of their first words.
template <class Number>
std::vector<Post> read_posts(const NewsgroupFiles& files, bool train, const DatasetSpec& spec,
                             Number number) {
  std::vector<Post> posts;
  files.for_each(train, [&](int label, long id, const std::string& text) {
    Post post{label, id, {}};
    for_each_word(kept_text(text, spec.keep_headers, spec.keep_quotes, spec.keep_footers),
                  [&](std::string_view word) {
                    post.words.push_back(number(word));
                    return spec.whole || post.words.size() < static_cast<std::size_t>(spec.length);
                  });
    post.words.shrink_to_fit();
    posts.push_back(std::move(post));
  });
  return posts;
}

}  // namespace

Newsgroups::Newsgroups(const DatasetSpec& spec) : Newsgroups(load(spec)) {}

Newsgroups::Newsgroups(Contents contents)
    : TextDataset(std::move(contents.vocabulary), contents.longest),
      labels_(std::move(contents.labels)),
      starts_(std::move(contents.starts)),
      words_(std::move(contents.words)) {}

Newsgroups::Contents Newsgroups::load(const DatasetSpec& spec) {
  check_text(spec);
  const NewsgroupFiles files(spec.directory);
  const bool train = spec.split == "train";
  std::optional<Vocabulary> vocabulary;
  std::vector<Post> posts;
  if (!spec.words.empty()) {
    vocabulary.emplace(spec.words);
  } else {
    Lexicon lexicon;
    posts = read_posts(files, true, spec, [&](std::string_view word) { return lexicon.number(word); });
    for (const Post& post : posts) lexicon.count(post.words);
    vocabulary = lexicon.vocabulary(spec.vocabulary, spec.least_count);
    const auto indices = lexicon.indices(*vocabulary);
    for (Post& post : posts) {
      for (std::uint32_t& word : post.words) word = indices[word];
    }
  }
  if (!train || !spec.words.empty()) {
    posts = read_posts(files, train, spec, [&](std::string_view word) { return vocabulary->index(word); });
  }
  std::sort(posts.begin(), posts.end(),
            [](const Post& a, const Post& b) { return std::tie(a.label, a.id) < std::tie(b.label, b.id); });

  Contents contents{std::move(*vocabulary), spec.length, {}, {0}, {}};
  const std::size_t kept = std::min(spec.at_most, posts.size());
  for (std::size_t i = 0; i < kept; ++i) {
    Post& post = posts[i * posts.size() / kept];
    if (post.words.empty()) post.words.push_back(Vocabulary::unknown);
    if (spec.whole) contents.longest = std::max(contents.longest, static_cast<int>(post.words.size()));
    contents.labels.push_back(post.label);
    contents.words.insert(contents.words.end(), post.words.begin(), post.words.end());
    contents.starts.push_back(contents.words.size());
  }
  return contents;
}

int Newsgroups::classes() const {
  return static_cast<int>(newsgroup_names.size());
}

int Newsgroups::label(std::size_t index) const {
  require(index);
  return labels_[index];
}

int Newsgroups::length(std::size_t index) const {
  require(index);
  return static_cast<int>(starts_[index + 1] - starts_[index]);
}

std::vector<std::uint32_t> Newsgroups::text(std::size_t index) const {
  require(index);
  const auto at = [&](std::size_t place) { return words_.begin() + place; };
  return {at(starts_[index]), at(starts_[index + 1])};
}

}  // namespace fluxformer::data
