#pragma once

// The variables that an optimiser updates: the flat parameter vector, except that kappa is kept positive by
// kappa = softplus(raw) = log(1 + exp raw).

#include <span>
#include <vector>

#include "model/parameters.hpp"

namespace fluxformer {

/// Which coefficients of the equation are trained besides the weights. kappa can only be trained if it is > 0
/// at the start.
struct TrainedCoefficients {
  bool kappa = false, alpha = false, rho = false;
};

/// Decides which entries of the flat vector are trained, and as what variable.
class Trainable {
 public:
  /// Throws BadInput if kappa is to be trained and some is 0.
  Trainable(const Parameters& parameters, const TrainedCoefficients& which);

  std::size_t size() const { return kinds_.size(); }
  /// Number of trained entries.
  std::size_t trained() const;
  bool moves(std::size_t entry) const { return kinds_[entry] != Kind::frozen; }
  /// Whether weight decay applies: to matrices, not to biases, LayerNorm, positions and coefficients.
  bool decays(std::size_t entry) const { return kinds_[entry] == Kind::weight; }

  /// The variables for these parameter values.
  std::vector<double> raw(std::span<const double> values) const;
  /// values := the parameter values of the variables; entries that are not trained do not change. kappa is
  /// limited to `largest_kappa`.
  void apply(std::span<double> raw, std::span<double> values, double largest_kappa) const;
  /// Turns the gradient with respect to the values into that with respect to the variables; 0 for entries
  /// that are not trained.
  void pull(std::span<const double> values, std::span<double> gradient) const;
  /// (d2 value / d variable2) times the gradient with respect to the values: what the Hessian over the
  /// variables has on its diagonal beside that over the values; 0 for plain entries.
  std::vector<double> curvature(std::span<const double> values, std::span<const double> gradient) const;

 private:
  enum class Kind : char { frozen, plain, weight, softplus };
  std::vector<Kind> kinds_;
  std::vector<std::size_t> special_;  // entries that are frozen or have another variable
};

}  // namespace fluxformer
