#pragma once

// Finds the posts of the 20 Newsgroups "bydate" collection, in the archive or in its unpacked tree.

#include <array>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

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

/// The files below `directory`, or below `directory`/20news: 20news-bydate-train/<group>/<id> and
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

}  // namespace fluxformer::data
