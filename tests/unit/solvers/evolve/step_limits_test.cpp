// Step limits of explicit methods: the documented limits against a scan of their stability functions,
// refusals that name the largest step, and growth just beyond it.

#include <gtest/gtest.h>

#include <complex>
#include <functional>
#include <numbers>
#include <string>

#include "base/error.hpp"
#include "base/handle.hpp"
#include "solvers/evolve/step_limits.hpp"
#include "tests/support/reached.hpp"
#include "tests/unit/solvers/evolve/upwind_symbol.hpp"

namespace fluxformer {
namespace {

using namespace test;
using StabilityFunction = std::function<Complex(Complex)>;

Complex power(Complex z, int n) {
  return n == 0 ? Complex(1) : z * power(z, n - 1);
}

/// Ketcheson 2008: s stages of Euler steps dt/(s-1), averaged with the start.
StabilityFunction rks2(int s) {
  return
      [s](Complex z) { return (1.0 + (s - 1.0) * power(1.0 + z / (s - 1.0), s)) / static_cast<double>(s); };
}
/// Ketcheson 2008, n = 3: nine stages of Euler steps dt/6, one weighted mean in between.
Complex rks3(Complex z) {
  const Complex euler = 1.0 + z / 6.0;
  return power(euler, 3) * (3.0 * power(euler, 1) + 2.0 * power(euler, 6)) / 5.0;
}
/// Ketcheson 2008: ten stages, order 4.
Complex rk104(Complex z) {
  const Complex euler = 1.0 + z / 6.0, first = power(euler, 5);
  const Complex q2 = 1.0 / 25 + 9.0 / 25 * first, q1 = 15.0 * q2 - 5.0 * first;
  const Complex last = power(euler, 4) * q1;
  return q2 + 0.6 * last + 0.1 * z * last;
}
/// 1 + z b^T (I - z A)^{-1} 1 of PETSc's own tableau, stage by stage.
StabilityFunction runge_kutta(const std::string& variant) {
  TSHandle ts;
  check(TSCreate(MPI_COMM_SELF, ts.out()));
  check(TSSetType(ts, TSRK));
  check(TSRKSetType(ts, variant.c_str()));
  PetscInt stages = 0;
  const PetscReal *a = nullptr, *b = nullptr;
  check(TSRKGetTableau(ts, &stages, &a, &b, nullptr, nullptr, nullptr, nullptr, nullptr));
  const auto s = static_cast<std::size_t>(stages);
  return [s, rows = std::vector<double>(a, a + s * s), last = std::vector<double>(b, b + s)](Complex z) {
    std::vector<Complex> stage(s);
    Complex sum = 1;
    for (std::size_t i = 0; i < s; ++i) {
      stage[i] = 1;
      for (std::size_t j = 0; j < i; ++j) stage[i] += z * rows[i * s + j] * stage[j];
      sum += z * last[i] * stage[i];
    }
    return sum;
  };
}

/// Largest |R| over all waves: transport number nu of order 1 or 2, diffusion number mu (2 epsilon dt/h^2).
double largest_amplification(const StabilityFunction& r, int order, double nu, double mu) {
  double largest = 0;
  constexpr int waves = 2000;
  for (int k = 0; k <= waves; ++k) {
    const double theta = std::numbers::pi * k / waves;  // the other half is the conjugate
    largest = std::max(largest, std::abs(r(-nu * upwind_symbol(order, theta) - mu * (1 - std::cos(theta)))));
  }
  return largest;
}

MethodLimits limits_of(const std::string& type, const std::string& variant, DepthScheme scheme) {
  TSHandle ts;
  check(TSCreate(MPI_COMM_SELF, ts.out()));
  check(TSSetType(ts, type.c_str()));
  if (type == TSSSP) check(TSSSPSetType(ts, variant.c_str()));
  if (type == TSRK) check(TSRKSetType(ts, variant.c_str()));
  return method_limits(ts, scheme);
}

struct Method {
  std::string type, variant;
  StabilityFunction r;
};

std::vector<Method> methods() {
  std::vector<Method> all{{TSEULER, "", runge_kutta("1fe")},
                          {TSSSP, "rks2", rks2(5)},
                          {TSSSP, "rks3", rks3},
                          {TSSSP, "rk104", rk104}};
  for (const char* variant : {"2a", "2b", "3", "3bs", "4", "5f", "5dp", "5bs", "6vr", "7vr", "8vr"})
    all.push_back({TSRK, variant, runge_kutta(variant)});
  return all;
}

TEST(StabilityFunctions, have_the_orders_of_their_methods) {
  // Otherwise the scan would be of different methods: R(z) - exp(z) shrinks by 2^(p+1) when z is halved.
  for (const auto& [r, order] :
       {std::pair<StabilityFunction, int>{rks2(5), 2}, {rks3, 3}, {rk104, 4}, {runge_kutta("5dp"), 5}}) {
    const auto error = [&, f = r](double z) { return std::abs(f(z) - std::exp(z)); };
    EXPECT_NEAR(std::log2(error(-0.1) / error(-0.05)), order + 1, 0.15);
  }
}

TEST(StepLimits, are_stable_for_every_wave_and_every_share_of_transport_and_diffusion) {
  for (const auto& method : methods())
    for (const auto scheme : {DepthScheme::upwind, DepthScheme::upwind2}) {
      if (scheme == DepthScheme::upwind2 && method.type == TSEULER) continue;
      const auto limits = limits_of(method.type, method.variant, scheme);
      EXPECT_FALSE(limits.implicit_terms);
      for (int share = 0; share <= 50; ++share) {
        const double nu = limits.transport * share / 50, mu = limits.diffusion * (50 - share) / 50;
        const int order = scheme == DepthScheme::upwind ? 1 : 2;
        EXPECT_LE(reached("amplification at the step limits - 1",
                          largest_amplification(method.r, order, nu, mu) - 1),
                  1e-12)
            << method.type << ' ' << method.variant << ' ' << to_word(scheme) << ", transport share "
            << share / 50.0;
      }
    }
}

TEST(StepLimits, of_second_order_upwind_are_where_the_scan_puts_them) {
  // Five per cent beyond the limit some wave grows (for rk of order 3 and more: that of order 3).
  for (const auto& [type, variant, r] : {Method{TSSSP, "rks2", rks2(5)},
                                         {TSSSP, "rks3", rks3},
                                         {TSRK, "2a", runge_kutta("2a")},
                                         {TSRK, "3", runge_kutta("3")}}) {
    const double limit = limits_of(type, variant, DepthScheme::upwind2).transport;
    EXPECT_GT(largest_amplification(r, 2, 1.05 * limit, 0), 1 + 1e-6) << type << ' ' << variant;
  }
  EXPECT_THROW(limits_of(TSEULER, "", DepthScheme::upwind2), BadInput);
  EXPECT_THROW(limits_of(TSRK, "1fe", DepthScheme::upwind2), BadInput);
  for (const double nu : {0.5, 0.1, 0.01})
    EXPECT_GT(largest_amplification(runge_kutta("1fe"), 2, nu, 0), 1) << nu;
}

TEST(StepLimits, of_implicit_explicit_methods_count_explicit_terms) {
  const auto limits = limits_of(TSARKIMEX, "", DepthScheme::upwind);
  EXPECT_TRUE(limits.implicit_terms);
  EXPECT_DOUBLE_EQ(largest_stable_step(limits, {2, 0}), 0.5);
}

}  // namespace
}  // namespace fluxformer
