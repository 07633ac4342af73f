#include "model/heads.hpp"

#include <algorithm>
#include <set>

#include "model/initialise.hpp"

namespace fluxformer {
namespace {

/// "embedding", "layers", ...: groups, with all layers as one.
std::string group_of(const ParameterView& view) {
  return view.group.substr(0, view.group.find('/'));
}

std::string listed(const std::set<std::string>& names) {
  std::string text;
  for (const auto& name : names) text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? "nothing" : text;
}

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
  std::set<std::string> kept, fresh, left;
  const ParameterLayout before(from.spec), after(spec);  // of the whole models
  for (const auto& view : after.views()) {
    const bool keep = same(before, after, view);
    (keep ? kept : fresh).insert(group_of(view));
    if (keep && to.layout.has(view.path()))
      std::ranges::copy(from.view(view.path()), to.view(view.path()).begin());
  }
  for (const auto& view : before.views())
    if (!same(before, after, view)) left.insert(group_of(view));
  kept.erase("equation");
  if (!fresh.empty() || !left.empty())
    made.report = "kept: " + listed(kept) + "; new: " + listed(fresh) + "; left out: " + listed(left);
  return made;
}

}  // namespace fluxformer
