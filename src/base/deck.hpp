#pragma once

// The text of an input deck, read by Boost.Program_options: INI sections, "key = value", comments from # to
// the end of the line; what the keys mean is none of its business.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fluxformer {

/// The keys ("section.key") and values of a deck in its order, without comments and outer blanks. Throws
/// BadInput with `name` for a line that is none of the above, which it shows, and for a key given twice. Not
/// collective.
std::vector<std::pair<std::string, std::string>> read_deck(std::string_view text, const std::string& name);

/// Whether `read_deck` gives `value` back as it is: no #, no line break, no outer blanks.
bool deck_can_hold(std::string_view value);

}  // namespace fluxformer
