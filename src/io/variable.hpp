#pragma once

// The contents of a file, defined once, as constants next to the code that computes them. The file, the
// description of the format (--describe=json, docs/output-format.md) and the axis labels of figures are
// derived from them.

#include <string>
#include <utility>
#include <vector>

namespace fluxformer::io {

/// An array of numbers with named axes.
struct Variable {
  std::string name;  ///< last part of its path
  std::vector<std::string> axes =
      {};                      ///< coordinates along its dimensions, slowest first; for a coordinate, itself
  std::string unit = {};       ///< "" for a pure number
  std::string long_name = {};  ///< meaning of the numbers
  bool whole_numbers = false;  ///< true if they are stored as 64-bit integers
};

/// A word or number that belongs to a whole group or dataset. Converts to its name.
struct Attribute {
  std::string name;
  std::string meaning;
  std::string unit = {};
  operator const std::string&() const { return name; }  // NOLINT(google-explicit-constructor)
};

/// A related measure <name>_<suffix> with the same axes and unit.
inline Variable variant(Variable of, const std::string& suffix, std::string long_name) {
  of.name += "_" + suffix;
  of.long_name = std::move(long_name);
  return of;
}

/// A related measure with one more axis in front; `prefix` is prepended to its name, `when` appended to its
/// long name.
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
/// A coordinate of whole numbers.
inline Variable index(const std::string& name, std::string long_name) {
  return {name, {name}, "", std::move(long_name), true};
}

/// One dataset or attribute of a Description. `<...>` in a path stands for a part that varies.
struct Described {
  std::string path;               ///< absolute; for an attribute, object@name
  std::vector<std::string> axes;  ///< empty for a scalar or an attribute
  std::string unit;               ///< "" for a pure number or a text
  std::string meaning;
};

/// The contents of an experiment's files as a list, for --describe=json and the documents. Filled by the
/// `describe` function of an experiment; needs no file. std::logic_error if a path is described twice.
class Description {
 public:
  /// Adds datasets of `group` ("/" or "/a/b").
  void variables(const std::string& group, const std::vector<Variable>& list);
  /// Adds attributes of a group or dataset.
  void attributes(const std::string& object, const std::vector<Attribute>& list);
  const std::vector<Described>& entries() const { return entries_; }

 private:
  void add(Described entry);
  std::vector<Described> entries_;
};

}  // namespace fluxformer::io
