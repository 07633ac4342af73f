#pragma once

// The record in a model file of the run that wrote it.

#include <map>
#include <optional>
#include <string>

#include "base/settings.hpp"
#include "io/archive_reader.hpp"

namespace fluxformer {

/// The settings of the run of `train` that wrote a model file, and how far it came.
class ModelOrigin {
 public:
  /// Reads the record. Collective over the reader's communicator.
  explicit ModelOrigin(const io::ArchiveReader& file);

  /// True if `train` wrote the file; if not, everything below is unknown.
  bool trained() const { return trained_; }
  /// The value of a key of that run; "" if unknown.
  std::string value(const std::string& key) const;
  /// The value of a key as a number; throws BadInput if it is none.
  double number(const std::string& key) const;
  /// A short description of the origin.
  std::string text() const;
  /// Values of kappa, alpha and rho at the start of the training.
  struct Coefficients {
    double kappa = 0, alpha = 1, rho = 1;
  };
  /// Coefficients at the start of the training, from its settings; std::nullopt if they are unknown or came
  /// from a file.
  std::optional<Coefficients> starting_coefficients() const;
  bool distilled() const { return !value("distill.teacher").empty(); }

  /// Throws BadInput, beginning with `what`, if the training did not complete, or if its model was not the
  /// map used in comparisons: the layer map from cell to cell with c = 1 on a lattice that is not periodic.
  void require_comparable(const std::string& what) const;
  /// Throws BadInput for a model that was trained on tokens other than those of `settings` (data.*).
  void require_data(const std::string& what, const Settings& settings) const;

 private:
  std::string file_;
  bool trained_ = false;
  std::string status_;
  std::map<std::string, std::string> settings_;
};

}  // namespace fluxformer
