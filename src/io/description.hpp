#pragma once

// The contents of an experiment's files as a list, for --describe=json and the documents.

#include <string>
#include <vector>

#include "io/variable.hpp"

namespace fluxformer::io {

/// One dataset or attribute. `<...>` in a path stands for a part that varies.
struct Described {
  std::string path;               ///< absolute; of an attribute, object@name
  std::vector<std::string> axes;  ///< none for a scalar or an attribute
  std::string unit;               ///< "" for a pure number or a text
  std::string meaning;
};

/// Filled by the `describe` function of an experiment; needs no file.
class Description {
 public:
  /// Datasets of `group` ("/" or "/a/b").
  void variables(const std::string& group, const std::vector<Variable>& list);
  /// Attributes of a group or dataset.
  void attributes(const std::string& object, const std::vector<Attribute>& list);
  const std::vector<Described>& entries() const { return entries_; }

 private:
  void add(Described entry);
  std::vector<Described> entries_;
};

}  // namespace fluxformer::io
