#pragma once

// A value for every option of an experiment, and whether the user gave it.

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/options.hpp"
#include "base/petsc_options.hpp"

namespace fluxformer {

/// Origin of settings: a deck that somebody wrote, or the settings stored in a file of the program.
enum class Origin { deck, stored };

/// Value of every option of an experiment. Copies share their Options. Nothing here is collective: it is the
/// same on every rank.
class Settings {
 public:
  /// Names of options with their new values.
  using Changes = std::vector<std::pair<std::string, OptionValue>>;

  /// Reads an INI deck (may be empty), then `overrides`, each "section.key=value", which win. `source` names
  /// the deck in messages. Throws BadInput that names the key, the value, what is allowed and the nearest
  /// known name, also for a value that cannot be written in a deck (see `deck_can_hold`) or, except in stored
  /// settings, is not meant literally (see `shell_spelling`). Keys of section [petsc] are kept apart, see
  /// `petsc`; what cannot stand in a file (petsc_options.hpp) is refused in a deck, and left out of stored
  /// settings.
  Settings(std::shared_ptr<const Options> options, const std::string& deck,
           const std::vector<std::string>& overrides, const std::string& source = "deck",
           Origin origin = Origin::deck);

  /// Declarations of the options; never null.
  const std::shared_ptr<const Options>& options() const { return options_; }

  /// Value of a flag, given or default. Throws std::logic_error, as the functions below, for a name that was
  /// not declared, or not as this type.
  bool flag(std::string_view name) const;
  /// Value of a whole number.
  long integer(std::string_view name) const;
  /// Value of a whole number as an int. Throws BadInput if it does not fit.
  int count(std::string_view name) const;
  /// Value of a real number.
  double real(std::string_view name) const;
  /// Value of a word.
  const std::string& word(std::string_view name) const;
  /// Items of a list of whole numbers.
  const std::vector<long>& integers(std::string_view name) const;
  /// Items of a list of real numbers.
  const std::vector<double>& reals(std::string_view name) const;
  /// Items of a list of words.
  const std::vector<std::string>& words(std::string_view name) const;
  /// Value of an option of any type.
  const OptionValue& value(std::string_view name) const;
  /// True if deck, command line or `with` gave the option.
  bool given(std::string_view name) const;
  /// True if the condition of the option holds (Option::when). What another file decides (`leave_to_file`) is
  /// not known here: a clause about it counts as true.
  bool counts(std::string_view name) const;
  /// Options of section [petsc]: name without dash, value ("" for a flag).
  const SolverOptions& petsc() const { return petsc_; }
  /// Names of stored options that were left out.
  const std::vector<std::string>& left_out() const { return left_out_; }

  /// Copy in which these options are given new values. Throws std::logic_error for a name that was not
  /// declared, or not as this type; BadInput for a value that is not allowed.
  Settings with(const Changes& changes) const;
  /// Copy in which these options are back at their defaults, not given.
  Settings without(const std::vector<std::string>& names) const;
  /// Notes that another file decides this key: unless it was given, `resolved` leaves it out.
  void leave_to_file(std::string_view name);
  /// True if another file decides this key and it was not given.
  bool left_to_file(std::string_view name) const;

  /// Throws BadInput "NAME: needs CONDITION" for a value other than the default where it does not count: the
  /// deck means something else than it does. (Resolved settings hold all keys, so the default is no offence.)
  void refuse_idle_keys() const;
  /// Difference from `earlier` in what may not change when a run continues (roles run, model
  /// and data), as a message "NAME = value: SOURCE was made with value"; "" if they do not.
  std::string difference(const Settings& earlier) const;
  /// All values as a deck that reproduces them (defaults included, full precision).
  std::string resolved() const;

 private:
  struct Entry {
    OptionValue value;
    bool given = false;
    bool elsewhere = false;  // another file of the run decides
  };
  void take(const std::string& name, const std::string& text, const std::string& source);
  void take_petsc(const std::string& key, const std::string& text);
  void take_override(const std::string& text);
  const Entry& entry(std::string_view name) const;
  Entry& entry(std::string_view name);
  bool holds(const When& clause) const;

  std::shared_ptr<const Options> options_;
  std::string source_;
  std::map<std::string, Entry, std::less<>> entries_;
  SolverOptions petsc_;
  std::vector<std::string> left_out_;
};

}  // namespace fluxformer
