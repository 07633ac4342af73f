#pragma once

// The smallest slab term with all derivatives, for the conformance suite: number by number,
//
//   value     f = kappa u^3                      tangent   3 kappa u^2 u_dot + kappa_dot u^3
//   adjoint   u_bar = 3 kappa u^2 w              kappa_bar = sum u^3 w
//
//   along a direction   u_bar_dot = 6 kappa u u_dot w + 3 kappa_dot u^2 w + 3 kappa u^2 w_dot
//                       kappa_bar_dot = sum (3 u^2 u_dot w + u^3 w_dot)
//
// It keeps nothing: u is all that its derivatives need.

#include "operators/slab_term.hpp"

namespace fluxformer::test {

/// The term kappa u^3 with one kappa. Not collective.
template <class T>
class CubicTerm final : public SlabTerm<T> {
 public:
  /// `context` is borrowed.
  explicit CubicTerm(const SlabContext& context) : context_(context) {}

  std::unique_ptr<TermTape> make_tape(Order) const override { return nullptr; }
  void apply(const LayerWeights<const T>& theta, const double* u, Sum out, TermTape*) override {
    const double kappa = theta.diffusion.kappa[0];
    set(out, [&](Index i) { return kappa * u[i] * u[i] * u[i]; });
  }
  void push(const LayerWeights<const T>& theta, const LayerWeights<const T>* theta_dot, fluxformer::Point at,
            Sum out, TermTape*) override {
    const double kappa = theta.diffusion.kappa[0];
    const double kappa_dot = theta_dot != nullptr ? theta_dot->diffusion.kappa[0] : 0;
    set(out, [&](Index i) {
      return 3 * kappa * at.u[i] * at.u[i] * at.u_dot[i] + kappa_dot * at.u[i] * at.u[i] * at.u[i];
    });
  }
  void pull(const LayerWeights<const T>& theta, const double* u, const double* w, Sum u_bar,
            const LayerWeights<double>* gradient, TermTape*) override {
    const double kappa = theta.diffusion.kappa[0];
    if (gradient != nullptr)
      for (Index i = 0; i < context_.size(); ++i)
        gradient->diffusion.kappa[0] += u_bar.scale * u[i] * u[i] * u[i] * w[i];
    set(u_bar, [&](Index i) { return 3 * kappa * u[i] * u[i] * w[i]; });
  }
  void pull_along(const LayerWeights<const T>& theta, const LayerWeights<const T>& theta_dot,
                  fluxformer::Point at, Cotangent w, Sum u_bar_dot, const LayerWeights<double>& gradient_dot,
                  TermTape*) override {
    const double kappa = theta.diffusion.kappa[0], kappa_dot = theta_dot.diffusion.kappa[0];
    const auto *u = at.u, *u_dot = at.u_dot;
    for (Index i = 0; i < context_.size(); ++i)
      gradient_dot.diffusion.kappa[0] +=
          u_bar_dot.scale * u[i] * u[i] * (3 * u_dot[i] * w.w[i] + u[i] * w.w_dot[i]);
    set(u_bar_dot, [&](Index i) {
      return 6 * kappa * u[i] * u_dot[i] * w.w[i] +
             3 * u[i] * u[i] * (kappa_dot * w.w[i] + kappa * w.w_dot[i]);
    });
  }

 private:
  template <class Value>
  void set(Sum out, Value&& value) const {
    for (Index i = 0; i < context_.size(); ++i) out.out[i] = out.base[i] + out.scale * value(i);
  }
  const SlabContext& context_;
};

}  // namespace fluxformer::test
