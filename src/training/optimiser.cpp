#include "training/optimiser.hpp"

#include <cmath>
#include <stdexcept>

#include "base/error.hpp"
#include "base/index.hpp"

namespace fluxformer {

Optimiser::Optimiser(const OptimiserSettings& settings, std::vector<char> decays)
    : settings_(settings), decays_(std::move(decays)) {
  state_.first.assign(decays_.size(), 0.0);
  if (settings_.method != Method::sgd) state_.second.assign(decays_.size(), 0.0);
}

void Optimiser::step(double rate, std::span<const double> gradient, std::span<double> x, double factor) {
  const auto& s = settings_;
  const long t = ++state_.steps;
  const Index n = decays_.size();
  double* __restrict m = state_.first.data();
  double* __restrict value = x.data();
  const double* __restrict g = gradient.data();
  const char* __restrict decays = decays_.data();
  if (s.method == Method::sgd) {
    // b := m b + g + w x,  x := x - l b.  b is 0 before the first step.
    const double momentum = t == 1 ? 0 : s.momentum;
    for (Index j = 0; j < n; ++j) {
      m[j] = momentum * m[j] + factor * g[j] + s.decay * decays[j] * value[j];
      value[j] -= rate * m[j];
    }
    return;
  }
  double* __restrict v = state_.second.data();
  // adam adds the decay to the gradient, adamw shrinks x by it. `first` is the learning rate over 1 - b1^t,
  // `second` is 1 / sqrt(1 - b2^t): moments that start from 0 are biased towards 0.
  const double coupled = s.method == Method::adam ? s.decay : 0;
  const double decoupled = s.method == Method::adamw ? rate * s.decay : 0;
  const double first = rate / (1 - std::pow(s.beta1, t));
  const double second = 1 / std::sqrt(1 - std::pow(s.beta2, t));
  for (Index j = 0; j < n; ++j) {
    // m := b1 m + (1 - b1) g,  v := b2 v + (1 - b2) g^2,  x := x - l m_hat / (sqrt(v_hat) + eps)
    const double slope = factor * g[j] + coupled * decays[j] * value[j];
    value[j] -= decoupled * decays[j] * value[j];
    m[j] = s.beta1 * m[j] + (1 - s.beta1) * slope;
    v[j] = s.beta2 * v[j] + (1 - s.beta2) * slope * slope;
    value[j] -= first * m[j] / (std::sqrt(v[j]) * second + s.epsilon);
  }
}

std::vector<double> Optimiser::preconditioner() const {
  if (settings_.method == Method::sgd || state_.steps == 0) return {};
  // D = sqrt(v_hat) + eps,  v_hat = v / (1 - b2^t)
  const double correction = 1 - std::pow(settings_.beta2, state_.steps);
  std::vector<double> diagonal;
  diagonal.reserve(state_.second.size());
  for (const double v : state_.second) diagonal.push_back(std::sqrt(v / correction) + settings_.epsilon);
  return diagonal;
}

double Optimiser::stability_threshold() const {
  const auto& s = settings_;
  // Beyond this value of rate times lambda_max, gradient descent with momentum m, or Adam, is unstable on a
  // quadratic loss (docs/model.md, section 9).
  return s.method == Method::sgd ? 2 * (1 + s.momentum) : 2 * (1 + s.beta1) / (1 - s.beta1);
}

void Optimiser::restore(State state) {
  if (state.first.size() != state_.first.size() || state.second.size() != state_.second.size())
    throw std::invalid_argument("the optimiser's state has a different size or method");
  state_ = std::move(state);
}

Method method_named(const std::string& word) {
  if (word == "sgd") return Method::sgd;
  if (word == "adam") return Method::adam;
  if (word == "adamw") return Method::adamw;
  throw BadInput("train.optimiser = " + word + ": sgd, adam or adamw");
}

}  // namespace fluxformer
