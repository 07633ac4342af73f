#pragma once

// The variables that an optimiser updates: the flat parameter vector, except that kappa and nu are kept
// positive by kappa = softplus(raw) = log(1 + exp raw).

#include <span>
#include <vector>

#include "base/index.hpp"
#include "model/parameters.hpp"

namespace fluxformer {

/// The coefficients of the equation that are trained besides the weights. kappa and nu can only be trained if
/// they are > 0 at the start.
struct TrainedCoefficients {
  bool kappa = false, alpha = false, rho = false, nu = false;
};

/// Upper limits of coefficients that are trained.
struct CoefficientLimits {
  double kappa = 1e300, nu = 1e300;
};

/// The map between the variables of an optimiser and the parameters: which entries of the flat vector are
/// trained, and as what variable.
class Trainable {
 public:
  /// Throws BadInput if kappa or nu is to be trained and some is 0.
  Trainable(const Parameters& parameters, const TrainedCoefficients& which);

  /// Number of entries of the flat vector.
  Index size() const { return std::ssize(kinds_); }
  /// Number of trained entries.
  Index trained() const;
  /// True if the entry is trained.
  bool moves(Index entry) const { return kinds_[entry] != EntryKind::frozen; }
  /// The entries that are frozen or have another variable, in increasing order.
  const std::vector<std::size_t>& special() const { return special_; }
  /// True if weight decay applies to the entry: to matrices, not to biases, LayerNorm, positions and
  /// coefficients.
  bool decays(Index entry) const { return kinds_[entry] == EntryKind::weight; }

  /// The variables that belong to these parameter values.
  std::vector<double> raw(std::span<const double> values) const;
  /// values := the parameter values of the variables `raw`; entries that are not trained do not change. kappa
  /// and nu are limited to `largest`, and their variables with them.
  void apply(std::span<double> raw, std::span<double> values, const CoefficientLimits& largest) const;
  /// Turns the gradient with respect to the values into that with respect to the variables; 0 for entries
  /// that are not trained.
  void pull(std::span<const double> values, std::span<double> gradient) const;
  /// (d2 value / d variable2) times the gradient with respect to the values: what the Hessian over the
  /// variables has on its diagonal beside that over the values; 0 for plain entries.
  std::vector<double> curvature(std::span<const double> values, std::span<const double> gradient) const;

 private:
  enum class EntryKind : char { frozen, plain, weight, kappa, nu };
  /// True if the entry is the softplus of its variable.
  static bool is_softplus(EntryKind kind) { return kind == EntryKind::kappa || kind == EntryKind::nu; }
  std::vector<EntryKind> kinds_;
  std::vector<std::size_t> special_;  // entries that are frozen or have another variable
};

}  // namespace fluxformer
