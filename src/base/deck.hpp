#pragma once

// The text of an input deck: INI sections, "key = value", comments; what the keys mean is none of its
// business.

#include <string>
#include <string_view>
#include <vector>

namespace fluxformer {

/// One "key = value" of a deck.
struct DeckLine {
  std::string key;    ///< "section.key"
  std::string value;  ///< without comment, outer blanks and quotes
  int number = 0;     ///< counted from 1
};

/// Reads a deck. A comment begins with # or ;, at the beginning of a line or behind a blank. A value that
/// begins or ends with a blank, holds a comment sign behind a blank, or begins with a double quote is written
/// in double quotes, where \" \\ \n and \r stand for themselves. In section [petsc] a key may stand alone (a
/// flag). Throws BadInput with `name`, the number of the line and what was expected there, also for a key
/// given twice. Not collective.
std::vector<DeckLine> read_deck(std::string_view text, const std::string& name);

/// `value` as `read_deck` takes it back: in quotes where it needs them.
std::string deck_value(const std::string& value);

}  // namespace fluxformer
