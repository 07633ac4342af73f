#pragma once

// Options as data: every key is declared once, with type, default, range or choices, unit and one sentence;
// from that come parsing, --help, --validate, hints on misspelled keys and what the output file records.

#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace fluxformer {

using OptionValue = std::variant<bool, long, double, std::string>;

/// One key, "section.name". The type of `fallback` is the type of the key.
struct Option {
  std::string name;
  OptionValue fallback;
  std::string doc;        ///< one sentence
  std::string unit = {};  ///< "" for a pure number or a word
  double minimum = -std::numeric_limits<double>::infinity();
  double maximum = std::numeric_limits<double>::infinity();
  bool above_minimum = false;             ///< the minimum itself is not allowed
  std::vector<std::string> choices = {};  ///< for words; empty: any
};

/// The keys an experiment knows.
class Schema {
 public:
  /// Throws std::logic_error if the name is declared twice, or the default is out of range or no deck can
  /// hold it.
  void declare(Option option);
  const Option* find(std::string_view name) const;
  /// The declared name with the smallest edit distance; "" if none is near.
  std::string nearest(std::string_view name) const;
  const std::vector<Option>& options() const { return options_; }
  /// The text of --help: sections, names, units, defaults, allowed values, docs.
  std::string help() const;

 private:
  std::vector<Option> options_;
};

/// A value for every declared key, and who gave it.
class Settings {
 public:
  /// Reads an INI deck (may be empty) and then overrides "section.key=value" (which win). Throws BadInput
  /// that names the key, the value, what is allowed and the nearest known name, also for a value that no deck
  /// can hold (see `deck_can_hold`). Keys of section [petsc] are kept apart, see `petsc`. Not collective:
  /// pure text in, values out, the same on every rank.
  Settings(const Schema& schema, const std::string& deck, const std::vector<std::string>& overrides,
           const std::string& deck_name = "deck");

  bool flag(std::string_view name) const;
  long integer(std::string_view name) const;
  /// An integer key as an int. Throws BadInput if it does not fit.
  int count(std::string_view name) const;
  double real(std::string_view name) const;
  const std::string& word(std::string_view name) const;
  /// Whether the deck or the command line gave the key.
  bool given(std::string_view name) const;
  /// [petsc] keys: name without dash, value ("" for a flag).
  const std::vector<std::pair<std::string, std::string>>& petsc() const { return petsc_; }
  /// Another file (a model's) decides this key: unless it was given, `resolved` leaves it out.
  void leave_to_file(std::string_view name);
  /// All resolved settings as an INI deck that reproduces them (defaults included, full precision).
  std::string resolved() const;

 private:
  struct Entry {
    OptionValue value;
    bool given;
    bool elsewhere = false;  // another file of the run decides
  };
  const Entry& entry(std::string_view name) const;
  std::map<std::string, Entry, std::less<>> entries_;
  std::vector<std::pair<std::string, std::string>> petsc_;
};

}  // namespace fluxformer
