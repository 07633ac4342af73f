#pragma once

// One option: what it is called, holds and allows, when it counts, what it is for; and its values as text.

#include <limits>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace fluxformer {

/// A flag, an integer, a real number or a word; the alternative in use is the type of the option.
using OptionValue = std::variant<bool, long, double, std::string>;

/// What an option is for. It decides whether a continued run may change it.
enum class Role {
  run,        ///< part of the problem: must agree with the checkpoint
  model,      ///< the same, and decided by the file of model.file where one is given
  data,       ///< the same, and decides what the tokens of a data set are
  output,     ///< where, when and what is written; may change when a run continues
  free,       ///< may change too: ranks, folders, limits
  permission  ///< what the user allows: may change, and is not taken from stored settings
};

/// One option, "section.key". The type of `fallback` is the type of the option.
struct Option {
  std::string name;
  OptionValue fallback;   ///< the default
  std::string doc;        ///< one sentence
  std::string unit = {};  ///< "" for a pure number or a word
  double minimum = -std::numeric_limits<double>::infinity();
  double maximum = std::numeric_limits<double>::infinity();
  bool above_minimum = false;             ///< the minimum itself is not allowed
  std::vector<std::string> choices = {};  ///< for words; empty: any
  std::string when = {};  ///< the condition under which it counts (base/condition.hpp); "": always
  Role role = Role::run;
};

/// `text` as a value of the option's type. Throws BadInput "name = text: must be ..." if it is not of that
/// type, not finite, out of range, or none of the choices. Not collective.
OptionValue parse_value(const Option& option, const std::string& text);

/// "" if the option allows `value` (of its own type), else what is allowed, as in "must be >= 0 (metres)".
std::string objection(const Option& option, const OptionValue& value);

/// The shortest text that `parse_value` turns into the same bits.
std::string value_text(const OptionValue& value);

/// The allowed range: "", ">= 0", "> 0 and <= 1", ...
std::string range_text(const Option& option);

/// The one of `known` with the smallest edit distance to `word`; "" if none is close.
std::string nearest_word(std::string_view word, const std::vector<std::string>& known);

}  // namespace fluxformer
