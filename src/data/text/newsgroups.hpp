#pragma once

// 20 Newsgroups: Usenet posts of 1993, classified by newsgroup. Sources: Lang, "NewsWeeder: learning to
// filter netnews", ICML 1995; the "bydate" version of J. Rennie, whose test posts are later than its training
// posts.

#include <array>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "data/dataset_spec.hpp"
#include "data/text/text_dataset.hpp"

namespace fluxformer::data {

/// The groups in alphabetical order; the label of a post is the index of its group.
inline constexpr std::array<std::string_view, 20> newsgroup_names = {
    "alt.atheism",
    "comp.graphics",
    "comp.os.ms-windows.misc",
    "comp.sys.ibm.pc.hardware",
    "comp.sys.mac.hardware",
    "comp.windows.x",
    "misc.forsale",
    "rec.autos",
    "rec.motorcycles",
    "rec.sport.baseball",
    "rec.sport.hockey",
    "sci.crypt",
    "sci.electronics",
    "sci.med",
    "sci.space",
    "soc.religion.christian",
    "talk.politics.guns",
    "talk.politics.mideast",
    "talk.politics.misc",
    "talk.religion.misc",
};

/// The posts below `directory`, or below `directory`/20news: 20news-bydate-train/<group>/<id> and
/// 20news-bydate-test/<group>/<id>, as folders or in 20news-bydate.tar.gz (folders are preferred).
class NewsgroupFiles {
 public:
  /// Throws BadInput if neither exists.
  explicit NewsgroupFiles(const std::filesystem::path& directory);

  /// Calls visit(label, id, text) for every post of a split, in stored order. Posts of the other split are
  /// not unpacked; files whose name is not a number are skipped. Throws BadInput, naming the archive or
  /// folder, for damage, an unknown group and a group without posts.
  using Visit = std::function<void(int label, long id, const std::string& text)>;
  void for_each(bool train, const Visit& visit) const;

 private:
  void for_each_packed(const std::string& split, const Visit& visit) const;
  void for_each_unpacked(const std::string& split, const Visit& visit) const;

  std::filesystem::path place_;  ///< the archive, or the folder that holds the two trees
  bool packed_ = false;
};

/// Calls visit(word) for every word in order, until it returns false. A word is a maximal run of letters
/// (those of Latin-1 included), lower-cased and given in UTF-8, or a maximal run of digits. All other
/// characters separate words: an address user@host.edu gives user, host and edu, and "386sx" gives 386 and
/// sx, so that posts from the same institution or about the same product have words in common.
void for_each_word(std::string_view text, const std::function<bool(std::string_view)>& visit);

// Three parts of a post that give its group away. Without them a classifier has to rely on the text itself.
// Source of the idea: the argument `remove` of scikit-learn's fetch_20newsgroups.

/// The part of a post after the first blank line; empty if there is no blank line.
std::string_view without_header(std::string_view post);
/// The body without quoted lines and their introductions: lines that begin with '>' or '|' (blanks before it
/// allowed) or with "In article", or contain "writes:", "wrote:", "says:", "said:" or "writes in".
std::string without_quotes(std::string_view body);
/// The part of the body before the last line that is blank or consists of dashes; all of `body` if there is
/// nothing before it. Blank lines at the ends of `body` do not count. The last paragraph of a post is usually
/// its signature.
std::string_view without_footer(std::string_view body);

/// The post without the parts that are not to be kept: header, footer and quotes are removed in this order. A
/// header that is kept is not changed.
std::string kept_text(std::string_view post, bool headers, bool quotes, bool footers);

/// Posts of the training or the test split, as indices of their words.
class Newsgroups final : public TextDataset {
 public:
  /// Reads the posts of `spec.split` below `spec.directory` (see NewsgroupFiles); only the indices of their
  /// first `spec.length` words are kept, or (`spec.whole`) of all words (4 bytes each). The vocabulary is `spec.words`. If that is empty, it
  /// is built from the training split (which is then read for a test split as well): of the words that are
  /// kept, those that occur in the most posts (see Lexicon). Samples are ordered by group, then by number; if
  /// there are more than `spec.at_most`, that many are kept, evenly spaced. A post without words becomes a
  /// single <unk>. Throws BadInput for numbers out of range, a bad vocabulary and missing or damaged files.
  explicit Newsgroups(const DatasetSpec& spec);

  std::string name() const override { return "20news"; }
  std::size_t size() const override { return labels_.size(); }
  int classes() const override;
  int label(std::size_t index) const override;
  int length(std::size_t index) const override;
  std::vector<std::uint32_t> text(std::size_t index) const override;

 private:
  struct Contents {
    Vocabulary vocabulary;
    int longest;  ///< tokens of a sample
    std::vector<int> labels;
    std::vector<std::size_t> starts;  ///< offsets into `words`, [sample], and the end
    std::vector<std::uint32_t> words;
  };
  static Contents load(const DatasetSpec& spec);
  explicit Newsgroups(Contents contents);

  std::vector<int> labels_;           ///< [sample]
  std::vector<std::size_t> starts_;   ///< offsets into words_, [sample], and the end
  std::vector<std::uint32_t> words_;  ///< the words of sample i are starts_[i] .. starts_[i + 1] - 1
};

}  // namespace fluxformer::data
