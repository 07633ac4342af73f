#pragma once

// The text of --help.

#include <string>

#include "base/options.hpp"

namespace fluxformer {

/// Section by section, one option after the other: name, default, sentence, allowed values, unit, and when it
/// counts. At most 100 columns wide.
std::string options_help(const Options& options);

}  // namespace fluxformer
