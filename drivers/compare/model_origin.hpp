#pragma once

// What a model file records about the run that wrote it.

#include <map>
#include <optional>
#include <string>

#include "base/settings.hpp"
#include "io/archive_reader.hpp"

namespace fluxformer {

/// The settings of the run of `train` that wrote a model file, and how far it came.
class ModelOrigin {
 public:
  /// Collective over the reader's communicator.
  explicit ModelOrigin(const io::ArchiveReader& file);

  /// Whether `train` wrote it; if not, everything below is unknown.
  bool trained() const { return trained_; }
  /// The value of a key of that run; "" if unknown.
  std::string value(const std::string& key) const;
  /// The same as a number; BadInput if it is none.
  double number(const std::string& key) const;
  /// A short description.
  std::string text() const;
  /// kappa, alpha and rho that its training started from; none if it is not known, or they came from a file.
  struct Coefficients {
    double kappa = 0, alpha = 1, rho = 1;
  };
  /// From the settings of that run; see Coefficients.
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
