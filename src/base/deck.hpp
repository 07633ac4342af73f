#pragma once

// Syntax of input decks, as Boost.Program_options reads them: INI sections, "key = value", comments from # to
// the end of the line.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fluxformer {

/// Reads the keys ("section.key") and values of a deck, in order, without comments and surrounding blanks.
/// Throws BadInput, beginning with `name`, for a line that is none of the above and for a key given twice.
/// Not collective.
std::vector<std::pair<std::string, std::string>> read_deck(std::string_view text, const std::string& name);

/// Returns "" if a value means what its writer meant, else what is wrong: it begins or ends with a quotation
/// mark, which would be part of it (an apostrophe may end it), or begins with ~, which only a shell replaces
/// by a folder. Not collective.
std::string shell_spelling(std::string_view value);

/// True if `read_deck` returns `value` unchanged: no #, no line break, no surrounding blanks.
bool deck_can_hold(std::string_view value);

}  // namespace fluxformer
