#pragma once

// The options of an experiment, each declared once. Parsing, --help, --validate, hints on misspelled keys,
// the refusal of keys that do not count, restart checks and the settings in the output file all follow from
// it.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/option.hpp"

namespace fluxformer {

/// All options of an experiment, in the order of declaration. Not collective: every rank declares the same.
class Options {
 public:
  /// Function that declares some options, such as those of a family.
  using Declare = std::function<void(Options&)>;

  /// Options that `declare` declares. Throws std::logic_error as `declare` below, and for a condition on a
  /// key that is not declared, now or later, or on a value that the key cannot have.
  explicit Options(const Declare& declare);

  /// Adds an option; only while the constructor runs. Throws std::logic_error if the name is declared twice,
  /// or if the default is out of range or cannot be written in a deck.
  void declare(Option option);
  /// Adds an option with a name, a default and a sentence, and `more` of it: `{.unit = "s", .minimum = 0}`.
  void declare(std::string name, OptionValue fallback, std::string doc, Option more = {});
  /// Adds the options that `declare` declares; they count only where `condition` holds, too.
  void declare_when(const Condition& condition, const Declare& declare);

  /// All options, in the order of declaration.
  const std::vector<Option>& all() const { return options_; }
  /// The option of this name; nullptr if there is none.
  const Option* find(std::string_view name) const;
  /// The option of this name. Throws std::logic_error if there is none.
  const Option& at(std::string_view name) const;
  /// Declared name closest to a misspelled one; "" if none is close.
  std::string nearest(std::string_view name) const;

 private:
  std::vector<Option> options_;
  Condition scope_;        // condition of the enclosing calls of declare_when
  bool complete_ = false;  // the constructor has run
};

/// Text of --help: section by section, one option after the other, with name, default, sentence, allowed
/// values, unit, and when it counts. At most 100 columns wide.
std::string options_help(const Options& options);

}  // namespace fluxformer
