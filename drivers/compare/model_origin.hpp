#pragma once

// What a model file says of the run that wrote it.

#include <map>
#include <string>

#include "base/settings.hpp"
#include "io/archive_reader.hpp"

namespace fluxformer {

class ModelOrigin {
 public:
  /// Collective over the reader's communicator.
  explicit ModelOrigin(const io::ArchiveReader& file);

  /// Whether `train` wrote it; if not, nothing below is known.
  bool trained() const { return trained_; }
  /// A key of that run; "" if it is not known.
  std::string value(const std::string& key) const;
  /// In words.
  std::string text() const;
  bool distilled() const { return !value("distill.teacher").empty(); }

  /// Throws BadInput, beginning with `what`, for a training that did not end well, or in which the model was
  /// another map than the one that is compared: the layer map from cell to cell, c = 1, on a lattice with
  /// ends.
  void require_comparable(const std::string& what) const;
  /// Throws BadInput for a model that was trained on other tokens than `settings` (data.*) give.
  void require_data(const std::string& what, const Settings& settings) const;

 private:
  bool trained_ = false;
  std::string status_;
  std::map<std::string, std::string> settings_;
};

}  // namespace fluxformer
