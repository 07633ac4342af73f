#pragma once

// When an option counts. The condition is written in words that a program can read too:
//   train.gradient = adjoint                         the key has this value
//   data.set = 20news | topics                       it has one of these
//   train.optimiser != sgd                           it has another one
//   distill.teacher                                  the word is not empty, the flag is on
//   train.gradient = adjoint and adjoint.keep = disk all of these hold

#include <string>
#include <string_view>
#include <vector>

#include "base/option.hpp"

namespace fluxformer {

class Options;

/// What a condition says about one key.
struct Clause {
  std::string key;
  bool equal = true;                ///< false: !=
  std::vector<OptionValue> values;  ///< none: the key alone
  /// Whether it holds if the key has this value.
  bool holds(const OptionValue& value) const;
  /// As messages and --help say it: "data.set = 20news or topics".
  std::string text() const;
};

/// All clauses must hold; none: always.
using Condition = std::vector<Clause>;

/// Throws std::logic_error for text that is no condition, a key that `options` does not have, and a value that
/// the key does not allow.
Condition parse_condition(std::string_view text, const Options& options);

/// The clauses in words, joined by "and".
std::string condition_text(const Condition& condition);

}  // namespace fluxformer
