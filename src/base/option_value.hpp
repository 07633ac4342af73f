#pragma once

// One value of one option: from text, to text, and what is allowed in words.

#include <string>
#include <string_view>
#include <vector>

#include "base/options.hpp"

namespace fluxformer {

/// `text` as a value of the option's type. Throws BadInput "name = text: must be ..." if it is not of that
/// type, not finite, out of range, or none of the choices. Not collective.
OptionValue parse_value(const Option& option, const std::string& text);

/// "" if the option allows `value` (of its own type), else what is allowed, as in "must be >= 0 (metres)".
std::string objection(const Option& option, const OptionValue& value);

/// The shortest text that `parse_value` turns into the same bits.
std::string value_text(const OptionValue& value);

/// What the range admits: "", ">= 0", "> 0 and <= 1", ...
std::string range_text(const Option& option);

/// The one of `known` nearest to `word`, counting inserted, dropped, changed and swapped letters; "" if none
/// is near.
std::string nearest_word(std::string_view word, const std::vector<std::string>& known);

}  // namespace fluxformer
