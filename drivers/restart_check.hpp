#pragma once

// Whether a checkpoint belongs to the settings at hand.

#include <string>
#include <vector>

#include "base/options.hpp"

namespace fluxformer {

/// How a key that shapes the solution differs between `now` and the resolved settings in `file`, as a
/// message; empty if none does. Keys that begin with one of `free` may differ.
std::string difference(const Schema& schema, const Settings& now, const std::string& resolved,
                       const std::string& file, const std::vector<std::string>& free);

}  // namespace fluxformer
