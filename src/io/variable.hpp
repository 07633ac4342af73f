#pragma once

// What a file holds, written once, as constants beside the code that computes it: from these come the file, the
// description of the format (--describe=json, docs/output-format.md) and what figures call an axis.

#include <string>
#include <utility>
#include <vector>

namespace fluxformer::io {

/// An array of numbers with named axes.
struct Variable {
  std::string name;  ///< last part of its path
  std::vector<std::string>
      axes;                    ///< coordinates along its dimensions, slowest first; of a coordinate, itself
  std::string unit;            ///< "" for a pure number
  std::string long_name;       ///< what the numbers are
  bool whole_numbers = false;  ///< stored as 64-bit integers
};

/// A word or number that belongs to a group as a whole. Stands for its name where a name is asked for.
struct Attribute {
  std::string name;
  std::string meaning;
  std::string unit = {};
  operator const std::string&() const { return name; }  // NOLINT(google-explicit-constructor)
};

/// The same measure of something else: <name>_<suffix>, on the same axes, in the same unit.
inline Variable variant(Variable of, const std::string& suffix, std::string long_name) {
  of.name += "_" + suffix;
  of.long_name = std::move(long_name);
  return of;
}

/// The same measure over one more axis, in front of its own; `prefix` goes before its name and `when` behind
/// its long name.
inline Variable along(const Variable& axis, const std::string& prefix, Variable of, const std::string& when) {
  of.name = prefix + of.name;
  of.axes.insert(of.axes.begin(), axis.name);
  of.long_name += when;
  return of;
}

/// A coordinate: a variable that is its own axis.
inline Variable coordinate(const std::string& name, std::string unit, std::string long_name) {
  return {name, {name}, std::move(unit), std::move(long_name)};
}
/// The same of whole numbers.
inline Variable index(const std::string& name, std::string long_name) {
  return {name, {name}, "", std::move(long_name), true};
}

}  // namespace fluxformer::io
