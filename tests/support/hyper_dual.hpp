#pragma once

// Hyper-dual numbers f + f1 e1 + f2 e2 + f12 e1 e2 with e1^2 = e2^2 = 0 (Fike and Alonso 2011): a function
// evaluated at x + u e1 + v e2 has f12 = u^T H v, exact to round-off, with no step size. A reference for
// Hessians that knows nothing but the function.

#include <cmath>
#include <vector>

#include <Eigen/Core>

namespace fluxformer::test {

struct HyperDual {
  double f = 0, f1 = 0, f2 = 0, f12 = 0;

  HyperDual() = default;
  HyperDual(double value) : f(value) {}  // NOLINT(google-explicit-constructor): constants mix with numbers
  HyperDual(double value, double by_1, double by_2, double by_12)
      : f(value), f1(by_1), f2(by_2), f12(by_12) {}

  HyperDual& operator+=(const HyperDual& b) { return *this = {f + b.f, f1 + b.f1, f2 + b.f2, f12 + b.f12}; }
};

inline HyperDual operator+(HyperDual a, const HyperDual& b) {
  return a += b;
}
inline HyperDual operator-(const HyperDual& a) {
  return {-a.f, -a.f1, -a.f2, -a.f12};
}
inline HyperDual operator-(const HyperDual& a, const HyperDual& b) {
  return a + -b;
}
inline HyperDual operator*(const HyperDual& a, const HyperDual& b) {
  return {a.f * b.f, a.f * b.f1 + a.f1 * b.f, a.f * b.f2 + a.f2 * b.f,
          a.f * b.f12 + a.f1 * b.f2 + a.f2 * b.f1 + a.f12 * b.f};
}
/// g(a) from g, g' and g'' at a.f.
inline HyperDual composed(const HyperDual& a, double g, double slope, double curvature) {
  return {g, slope * a.f1, slope * a.f2, slope * a.f12 + curvature * a.f1 * a.f2};
}
inline HyperDual operator/(const HyperDual& a, const HyperDual& b) {
  const double r = 1 / b.f;
  return a * composed(b, r, -r * r, 2 * r * r * r);
}
inline HyperDual exp(const HyperDual& a) {
  const double y = std::exp(a.f);
  return composed(a, y, y, y);
}
inline HyperDual log(const HyperDual& a) {
  return composed(a, std::log(a.f), 1 / a.f, -1 / (a.f * a.f));
}
inline HyperDual sqrt(const HyperDual& a) {
  const double y = std::sqrt(a.f);
  return composed(a, y, 0.5 / y, -0.25 / (a.f * y));
}
inline HyperDual tanh(const HyperDual& a) {
  const double y = std::tanh(a.f);
  return composed(a, y, 1 - y * y, -2 * y * (1 - y * y));
}
inline double value_of(double a) {
  return a;
}
inline double value_of(const HyperDual& a) {
  return a.f;
}

/// Derivatives of loss(outputs(theta)) from hyper-dual numbers.
struct NumericDerivatives {
  double loss = 0;
  Eigen::VectorXd gradient;
  Eigen::MatrixXd hessian;  ///< p x p
  Eigen::MatrixXd outer;    ///< J^T (d2 loss / d outputs^2) J, the Gauss-Newton part
};

/// The Hessian of `f`, from a vector of hyper-dual numbers to one, and its value and gradient. p^2 / 2 calls.
template <class F>
NumericDerivatives numeric_derivatives(const F& f, const Eigen::VectorXd& theta) {
  const Eigen::Index p = theta.size();
  std::vector<HyperDual> at(theta.data(), theta.data() + p);
  NumericDerivatives all{0, Eigen::VectorXd::Zero(p), Eigen::MatrixXd::Zero(p, p), {}};
  for (Eigen::Index a = 0; a < p; ++a) {
    for (Eigen::Index b = 0; b <= a; ++b) {
      at[static_cast<std::size_t>(a)].f1 = 1;
      at[static_cast<std::size_t>(b)].f2 = 1;
      const HyperDual y = f(at);
      at[static_cast<std::size_t>(a)].f1 = at[static_cast<std::size_t>(b)].f2 = 0;
      all.hessian(a, b) = all.hessian(b, a) = y.f12;
      all.gradient(a) = y.f1;
      all.loss = y.f;
    }
  }
  return all;
}

/// Value, gradient, Hessian and Gauss-Newton part of loss(outputs(theta)), for `outputs` from a vector to a
/// vector and `loss` from that vector to a number.
template <class Outputs, class Loss>
NumericDerivatives numeric_derivatives(const Outputs& outputs, const Loss& loss,
                                       const Eigen::VectorXd& theta) {
  auto all = numeric_derivatives([&](const auto& at) { return loss(outputs(at)); }, theta);
  std::vector<HyperDual> at(theta.data(), theta.data() + theta.size());
  const auto y = outputs(at);
  Eigen::VectorXd point(static_cast<Eigen::Index>(y.size()));
  for (std::size_t i = 0; i < y.size(); ++i) point(static_cast<Eigen::Index>(i)) = y[i].f;
  Eigen::MatrixXd j(point.size(), theta.size());
  for (Eigen::Index a = 0; a < theta.size(); ++a) {
    at[static_cast<std::size_t>(a)].f1 = 1;
    const auto dot = outputs(at);
    at[static_cast<std::size_t>(a)].f1 = 0;
    for (std::size_t i = 0; i < y.size(); ++i) j(static_cast<Eigen::Index>(i), a) = dot[i].f1;
  }
  const Eigen::MatrixXd curved = numeric_derivatives(loss, point).hessian * j;
  all.outer = j.transpose() * curved;
  return all;
}

}  // namespace fluxformer::test
