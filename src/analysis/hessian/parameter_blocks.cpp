#include "analysis/hessian/parameter_blocks.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace fluxformer::hessian {
namespace {

/// Kind of a parameter array; "" if it is in no block. The word head of a classifier does not act on its
/// loss.
std::string kind_of(const ParameterView& view, bool classifier) {
  if (view.group == "embedding") return view.name == "W" || view.name == "words" ? "embedding" : "";
  if (view.group == (classifier ? "head" : "word_head")) return view.name == "W" ? "head" : "";
  if (view.name == "W_Q" || view.name == "W_K" || view.name == "W_V" || view.name == "W_O")
    return view.name.substr(2);
  return view.name == "W_1" || view.name == "W_G" || view.name == "W_2" ? view.name : "";
}

// The group "layers/2" is set 2.
int set_of(const ParameterView& view) {
  const std::string layers = "layers/";
  return view.group.starts_with(layers) ? std::stoi(view.group.substr(layers.size())) : 0;
}

spectra::IndexRange range_of(const ParameterView& view) {
  const PetscInt first = view.offset, size = view.size();
  return {first, first + size};
}

}  // namespace

std::vector<NamedBlock> parameter_blocks(const ParameterLayout& layout, const std::vector<std::string>& kinds,
                                         const std::string& key) {
  for (const auto& kind : kinds)
    if (std::ranges::find(block_kinds, kind) == block_kinds.end()) {
      std::string known;
      for (const auto& one : block_kinds) known += (known.empty() ? "" : ", ") + one;
      throw BadInput(key + ": there is no block '" + kind + "'; there are " + known);
    }
  const bool classifier = layout.has("head/W");
  std::vector<NamedBlock> blocks;
  for (const auto& view : layout.views()) {
    const auto kind = kind_of(view, classifier);
    if (std::ranges::find(kinds, kind) == kinds.end()) continue;
    blocks.push_back({kind, set_of(view), {range_of(view)}});
  }
  return blocks;
}

spectra::Block trained_entries(const Trainable& trainable) {
  spectra::Block entries;
  const PetscInt size = trainable.size();
  for (PetscInt j = 0; j < size; ++j) {
    if (!trainable.moves(j)) continue;
    // An entry next to the last range makes it longer, any other begins a new one.
    if (!entries.empty() && entries.back().end == j)
      entries.back().end = j + 1;
    else
      entries.push_back({j, j + 1});
  }
  return entries;
}

}  // namespace fluxformer::hessian
