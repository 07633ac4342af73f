#include "model/heads.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "model/initialise.hpp"

namespace fluxformer {
namespace {

/// "embedding", "layers", ...: groups, with all layers as one.
std::string group_of(const ParameterView& view) {
  return view.group.substr(0, view.group.find('/'));
}

std::string size_text(const std::vector<int>& shape) {
  std::string text;
  for (const int extent : shape) text += (text.empty() ? "" : " x ") + std::to_string(extent);
  return text;
}

/// The fate of an array in a new model.
enum class Fate { kept, fresh, left };

/// Lists groups whose arrays all have one fate by their names, and else the arrays. An array of another size
/// than before is new; it is not listed among those left out, too.
class FateLists {
 public:
  void add(const ParameterView& view, Fate fate, const std::string& note = "") {
    if (view.group == "equation") return;
    auto& group = groups_[group_of(view)];
    group.arrays[static_cast<std::size_t>(fate)].insert(view.path() + note);
    group.by_array = group.by_array || !note.empty();
  }
  std::string text(Fate fate) const {
    std::string text;
    const auto append = [&](const std::string& name) { text += (text.empty() ? "" : ", ") + name; };
    for (const auto& [name, group] : groups_) {
      const auto& arrays = group.arrays[static_cast<std::size_t>(fate)];
      const auto fates = std::ranges::count_if(group.arrays, [](const auto& some) { return !some.empty(); });
      if (arrays.empty()) continue;
      if (fates == 1 && !group.by_array)
        append(name);
      else
        std::ranges::for_each(arrays, append);
    }
    return text.empty() ? "nothing" : text;
  }

 private:
  struct Group {
    std::array<std::set<std::string>, 3> arrays;  ///< by their fate
    bool by_array = false;                        ///< some array has a note
  };
  std::map<std::string, Group> groups_;
};

bool same(const ParameterLayout& a, const ParameterLayout& b, const ParameterView& view) {
  return a.has(view.path()) && b.has(view.path()) && a.at(view.path()).shape == b.at(view.path()).shape;
}

}  // namespace

AdaptedModel with_heads(const Parameters& from, int classes, const WordHead& word_head, std::uint64_t seed) {
  ModelSpec spec = from.spec;
  spec.final_norm = from.spec.has_final_norm();
  spec.classes = classes;
  if (classes == 0) spec.head_transform = {};
  if (word_head.present != spec.word_head.present) spec.word_head = word_head;
  AdaptedModel made{Parameters(spec, from.layout.share()), ""};
  auto& to = made.parameters;
  // All arrays are drawn first; those that are kept are then copied over them.
  initialise_standard(to, seed, 0, 1, 1);
  FateLists lists;
  bool changed = false;
  const ParameterLayout before(from.spec), after(spec);  // of the whole models
  for (const auto& view : after.views()) {
    const bool keep = same(before, after, view);
    changed = changed || !keep;
    const bool resized = !keep && before.has(view.path());
    lists.add(view, keep ? Fate::kept : Fate::fresh,
              resized ? " (" + size_text(view.shape) + " instead of " +
                            size_text(before.at(view.path()).shape) + ")"
                      : "");
    if (keep && to.layout.has(view.path()))
      std::ranges::copy(from.view(view.path()), to.view(view.path()).begin());
  }
  for (const auto& view : before.views()) {
    if (after.has(view.path())) continue;
    changed = true;
    lists.add(view, Fate::left);
  }
  if (changed)
    made.report = "kept: " + lists.text(Fate::kept) + "; new: " + lists.text(Fate::fresh) +
                  "; left out: " + lists.text(Fate::left);
  return made;
}

}  // namespace fluxformer
