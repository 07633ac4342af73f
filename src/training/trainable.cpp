#include "training/trainable.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"

namespace fluxformer {
namespace {

double softplus(double raw) {
  return raw > 0 ? raw + std::log1p(std::exp(-raw)) : std::log1p(std::exp(raw));
}
/// log(exp(value) - 1), value > 0.
double softplus_inverse(double value) {
  return value + std::log(-std::expm1(-value));
}

}  // namespace

Trainable::Trainable(const Parameters& parameters, const TrainedCoefficients& which)
    : kinds_(parameters.layout.size(), Kind::plain) {
  const auto set = [&](const ParameterView& view, Kind kind) {
    std::fill_n(kinds_.begin() + view.offset, view.size(), kind);
  };
  for (const auto& view : parameters.layout.views()) {
    if (view.name == "kappa") {
      set(view, which.kappa ? Kind::softplus : Kind::frozen);
      const auto values = parameters.view(view.path());
      if (which.kappa && std::any_of(values.begin(), values.end(), [](double kappa) { return !(kappa > 0); }))
        throw BadInput(
            "train.coefficients: kappa can only be trained if all of it starts from equation.kappa > 0");
    } else if (view.name == "alpha") {
      set(view, which.alpha ? Kind::plain : Kind::frozen);
    } else if (view.name == "rho") {
      set(view, which.rho ? Kind::plain : Kind::frozen);
    } else if (view.shape.size() == 2 && view.name != "position" && view.name != "segment") {
      set(view, Kind::weight);
    }
  }
  for (std::size_t j = 0; j < kinds_.size(); ++j)
    if (kinds_[j] == Kind::frozen || kinds_[j] == Kind::softplus) special_.push_back(j);
}

std::size_t Trainable::trained() const {
  return kinds_.size() - static_cast<std::size_t>(std::count(kinds_.begin(), kinds_.end(), Kind::frozen));
}

std::vector<double> Trainable::raw(std::span<const double> values) const {
  std::vector<double> variables(values.begin(), values.end());
  for (std::size_t j = 0; j < variables.size(); ++j)
    if (kinds_[j] == Kind::softplus) variables[j] = softplus_inverse(values[j]);
  return variables;
}

void Trainable::apply(std::span<double> raw, std::span<double> values, double largest_kappa) const {
  const auto at = [](std::size_t entry) { return static_cast<std::ptrdiff_t>(entry); };
  std::size_t from = 0;
  for (const std::size_t j : special_) {
    std::copy(raw.begin() + at(from), raw.begin() + at(j), values.begin() + at(from));
    from = j + 1;
    if (kinds_[j] == Kind::frozen) continue;
    values[j] = softplus(raw[j]);
    if (values[j] <= largest_kappa) continue;
    raw[j] = softplus_inverse(largest_kappa);
    values[j] = std::min(largest_kappa, softplus(raw[j]));  // what a restart makes of the variable
  }
  std::copy(raw.begin() + at(from), raw.end(), values.begin() + at(from));
}

void Trainable::pull(std::span<const double> values, std::span<double> gradient) const {
  for (const std::size_t j : special_) {
    if (kinds_[j] == Kind::frozen) gradient[j] = 0;
    // d softplus / d raw = 1 / (1 + exp(-raw)) = 1 - exp(-kappa)
    if (kinds_[j] == Kind::softplus) gradient[j] *= -std::expm1(-values[j]);
  }
}

std::vector<double> Trainable::curvature(std::span<const double> values,
                                         std::span<const double> gradient) const {
  std::vector<double> diagonal(values.size(), 0.0);
  for (const std::size_t j : special_) {
    if (kinds_[j] != Kind::softplus) continue;
    const double slope = -std::expm1(-values[j]);  // the sigmoid of the variable; its slope is s (1 - s)
    diagonal[j] = slope * std::exp(-values[j]) * gradient[j];
  }
  return diagonal;
}

}  // namespace fluxformer
