#include "training/trainable.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"

namespace fluxformer {
namespace {

/// log(1 + exp(raw)) = raw + log(1 + exp(-raw)): the exponential never exceeds 1.
double softplus(double raw) {
  return raw > 0 ? raw + std::log1p(std::exp(-raw)) : std::log1p(std::exp(raw));
}
/// log(exp(value) - 1) = value + log(1 - exp(-value)), value > 0, without overflow.
double softplus_inverse(double value) {
  return value + std::log(-std::expm1(-value));
}

}  // namespace

Trainable::Trainable(const Parameters& parameters, const TrainedCoefficients& which)
    : kinds_(parameters.layout.size(), EntryKind::plain) {
  const auto set = [&](const ParameterView& view, EntryKind kind) {
    std::fill_n(kinds_.begin() + view.offset, view.size(), kind);
  };
  for (const auto& view : parameters.layout.views()) {
    if (view.name == "kappa" || view.name == "nu") {
      const bool trained = view.name == "nu" ? which.nu : which.kappa;
      set(view, !trained ? EntryKind::frozen : view.name == "nu" ? EntryKind::nu : EntryKind::kappa);
      if (trained &&
          std::ranges::any_of(parameters.view(view.path()), [](double value) { return !(value > 0); }))
        throw BadInput("train.coefficients: " + view.name +
                       " can only be trained if all of it starts from equation." + view.name + " > 0");
    } else if (view.name == "alpha") {
      set(view, which.alpha ? EntryKind::plain : EntryKind::frozen);
    } else if (view.name == "rho") {
      set(view, which.rho ? EntryKind::plain : EntryKind::frozen);
    } else if (view.shape.size() == 2 && view.name != "position" && view.name != "segment") {
      set(view, EntryKind::weight);
    }
  }
  for (Index j = 0; j < std::ssize(kinds_); ++j)
    if (kinds_[j] == EntryKind::frozen || is_softplus(kinds_[j])) special_.push_back(j);
}

Index Trainable::trained() const {
  return size() - std::count(kinds_.begin(), kinds_.end(), EntryKind::frozen);
}

std::vector<double> Trainable::raw(std::span<const double> values) const {
  std::vector<double> variables(values.begin(), values.end());
  for (Index j = 0; j < std::ssize(variables); ++j)
    if (is_softplus(kinds_[j])) variables[j] = softplus_inverse(values[j]);
  return variables;
}

void Trainable::apply(std::span<double> raw, std::span<double> values,
                      const CoefficientLimits& largest) const {
  Index from = 0;
  for (const Index j : special_) {
    std::copy(raw.begin() + from, raw.begin() + j, values.begin() + from);
    from = j + 1;
    if (kinds_[j] == EntryKind::frozen) continue;
    values[j] = softplus(raw[j]);
    // The value stays at its limit, and the variable does not run away beyond it.
    const double limit = kinds_[j] == EntryKind::nu ? largest.nu : largest.kappa;
    if (values[j] <= limit) continue;
    raw[j] = softplus_inverse(limit);
    values[j] = std::min(limit, softplus(raw[j]));  // what a restart makes of the variable
  }
  std::copy(raw.begin() + from, raw.end(), values.begin() + from);
}

void Trainable::pull(std::span<const double> values, std::span<double> gradient) const {
  // dJ/dr = dJ/dtheta dtheta/dr, entry by entry
  for (const Index j : special_) {
    if (kinds_[j] == EntryKind::frozen) gradient[j] = 0;
    // d softplus / d raw = 1 / (1 + exp(-raw)) = 1 - exp(-kappa)
    if (is_softplus(kinds_[j])) gradient[j] *= -std::expm1(-values[j]);
  }
}

std::vector<double> Trainable::curvature(std::span<const double> values,
                                         std::span<const double> gradient) const {
  std::vector<double> diagonal(values.size(), 0.0);
  for (const Index j : special_) {
    if (!is_softplus(kinds_[j])) continue;
    // kappa = softplus(r): dkappa/dr = s = 1 - exp(-kappa), the sigmoid of r, and d2kappa/dr2 = s (1 - s).
    // diagonal = d2kappa/dr2 dJ/dkappa (docs/model.md, section 9)
    const double slope = -std::expm1(-values[j]);
    diagonal[j] = slope * std::exp(-values[j]) * gradient[j];
  }
  return diagonal;
}

}  // namespace fluxformer
