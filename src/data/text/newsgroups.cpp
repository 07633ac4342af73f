#include "data/text/newsgroups.hpp"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "data/text/newsgroup_files.hpp"
#include "data/text/post_text.hpp"

namespace fluxformer::data {
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
                    return post.words.size() < static_cast<std::size_t>(spec.length);
                  });
    post.words.shrink_to_fit();
    posts.push_back(std::move(post));
  });
  return posts;
}

}  // namespace

Newsgroups::Newsgroups(const DatasetSpec& spec) : Newsgroups(load(spec), spec.length) {}

Newsgroups::Newsgroups(Contents contents, int longest)
    : TextDataset(std::move(contents.vocabulary), longest),
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

  Contents contents{std::move(*vocabulary), {}, {0}, {}};
  const std::size_t kept = std::min(spec.at_most, posts.size());
  for (std::size_t i = 0; i < kept; ++i) {
    Post& post = posts[i * posts.size() / kept];
    if (post.words.empty()) post.words.push_back(Vocabulary::unknown);
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
