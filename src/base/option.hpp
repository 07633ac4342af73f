#pragma once

// One option: what it is called, holds and allows, when it counts, what it is for; and its values as text.

#include <initializer_list>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace fluxformer {

/// Flag, whole number, real number or word, or a list of one of the last three; the alternative in use is the
/// type of the option.
using OptionValue = std::variant<bool, long, double, std::string, std::vector<long>, std::vector<double>,
                                 std::vector<std::string>>;

/// A value that a key must not have, in a clause: `When{"train.optimiser", Not{"sgd"}}`.
struct Not {
  explicit Not(OptionValue other) : value(std::move(other)) {}
  OptionValue value;
};

/// Clause of a condition, about one key. Values have the type of the key.
struct When {
  /// `When{"distill.teacher"}`: the word is not empty, the flag is on.
  explicit When(std::string name) : key(std::move(name)) {}
  /// `When{"train.gradient", "adjoint"}`: the key has this value.
  When(std::string name, OptionValue value) : key(std::move(name)), values{std::move(value)} {}
  /// `When{"data.set", {"20news", "topics"}}`: the key has one of these values.
  When(std::string name, std::initializer_list<OptionValue> any) : key(std::move(name)), values(any) {}
  /// `When{"train.optimiser", Not{"sgd"}}`: the key has another value.
  When(std::string name, Not no) : key(std::move(name)), values{std::move(no.value)}, equal(false) {}

  std::string key;
  std::vector<OptionValue> values;  ///< empty: the key alone
  bool equal = true;                ///< false: none of the values

  /// True if the clause holds where the key has this value.
  bool holds(const OptionValue& value) const;
  /// The clause as messages and --help print it: "data.set = 20news or topics".
  std::string text() const;
};

/// Condition under which an option counts: all clauses hold; without clauses always.
struct Condition {
  Condition() = default;
  Condition(When clause) { clauses.push_back(std::move(clause)); }  // NOLINT(google-explicit-constructor)
  std::vector<When> clauses;
  /// The clauses as text, joined by "and".
  std::string text() const;
};

/// Condition that holds where both do: `When{"train.gradient", "adjoint"} && When{"adjoint.keep", "disk"}`.
Condition operator&&(Condition one, const Condition& other);

/// Purpose of an option. It decides whether a continued run may change it: options of the problem must agree
/// with the checkpoint.
enum class Role {
  run,        ///< part of the problem
  model,      ///< part of the problem, decided by the file of model.file where one is given
  data,       ///< part of the problem: decides what the tokens of a data set are
  output,     ///< output: place, times and contents; may change when a run continues
  free,       ///< ranks, folders, limits: may change when a run continues
  permission  ///< permission given by the user: may change, and is not taken from stored settings
};

/// One option, "section.key". The type of `fallback` is the type of the option. Range and choices hold for
/// each item of a list, which has no item twice.
struct Option {
  std::string name = {};
  OptionValue fallback = {};  ///< the default
  std::string doc = {};       ///< help text, one sentence
  std::string unit = {};      ///< "" for a pure number or a word
  double minimum = -std::numeric_limits<double>::infinity();
  double maximum = std::numeric_limits<double>::infinity();
  bool above_minimum = false;             ///< the minimum itself is not allowed
  std::vector<std::string> choices = {};  ///< allowed words; empty: any
  bool not_empty = false;                 ///< a list has at least one item
  Condition when = {};                    ///< condition under which the option counts
  Role role = Role::run;
};

/// Reads a value of the option's type; commas and blanks separate the items of a list. Throws BadInput "name
/// = text: must be ..." (for an item "name = text: 'item' must be ...") if the text is not of that type, not
/// finite, out of range, or none of the choices, and if a list has an item twice or lacks the item that it
/// must have. Not collective.
OptionValue parse_value(const Option& option, const std::string& text);

/// Returns "" if the option allows `value` (of its own type), else what is allowed: "must be >= 0 (metres)".
std::string objection(const Option& option, const OptionValue& value);

/// Shortest text that `parse_value` turns into the same bits; items of a list are separated by ", ".
std::string value_text(const OptionValue& value);

/// Allowed range: "", ">= 0", "> 0 and <= 1", ...
std::string range_text(const Option& option);

/// Word of `known` with the smallest edit distance to `word`; "" if none is close.
std::string nearest_word(std::string_view word, const std::vector<std::string>& known);

}  // namespace fluxformer
