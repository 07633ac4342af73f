#pragma once

// The settings of an experiment from the text of a deck.

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/settings.hpp"
#include "drivers/registry.hpp"

namespace fluxformer::test {

/// Settings of the experiment `name`; `given` are like words on the command line: "mesh.layers=3".
inline Settings plan(const std::string& name, const std::vector<std::string>& given) {
  const auto entry = std::ranges::find(experiments(), name, &ExperimentEntry::name);
  if (entry == experiments().end()) throw std::logic_error("no experiment " + name);
  return {std::make_shared<const Options>(entry->declare), "", given};
}

/// The words of `first`, then those of `second`.
inline std::vector<std::string> joined(std::vector<std::string> first,
                                       const std::vector<std::string>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

}  // namespace fluxformer::test
