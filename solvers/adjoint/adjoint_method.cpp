#include "solvers/adjoint/adjoint_method.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"

namespace fluxformer {
namespace {

constexpr const char* runge_kutta_names[] = {"1fe", "2a",  "2b",  "3",   "3bs", "4",
                                             "5f",  "5dp", "5bs", "6vr", "7vr", "8vr"};
constexpr const char* implicit_names[] = {"beuler", "cn", "theta"};

bool is_among(std::span<const char* const> names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string all_names() {
  std::string list;
  for (const auto* name : runge_kutta_names) list += std::string(name) + ", ";
  return list + "beuler, cn, theta";
}

}  // namespace

AdjointMethod::AdjointMethod(const AdjointSettings& settings)
    : name_(settings.method), theta_(settings.theta), runge_kutta_(is_among(runge_kutta_names, name_)) {
  if (!runge_kutta_ && !is_among(implicit_names, name_))
    throw BadInput("adjoint.method = " + name_ +
                   ": a gradient needs a method with a discrete adjoint: " + all_names());
  if (name_ == "theta" && !(theta_ > 0 && theta_ <= 1))
    throw BadInput("adjoint.theta = " + std::to_string(theta_) + ": must be in (0, 1]");
  if (name_ == "beuler") theta_ = 1;
}

void AdjointMethod::set(TS ts) {
  if (!runge_kutta_) {
    check(TSSetType(ts, name_.c_str()));
    if (name_ == "theta") check(TSThetaSetTheta(ts, theta_));
    if (name_ == "cn") theta_ = 0.5;
    shares_ = {0, theta_, 1};
    return;
  }
  check(TSSetType(ts, TSRK));
  check(TSRKSetType(ts, name_.c_str()));
  PetscInt stages = 0, order = 0;
  const PetscReal *b = nullptr, *c = nullptr;
  PetscBool same_stage = PETSC_FALSE;
  check(TSRKGetTableau(ts, &stages, nullptr, &b, &c, nullptr, &order, nullptr, &same_stage));
  weights_.assign(b, b + stages);
  shares_.assign(c, c + stages);
  reuses_last_stage_ = same_stage == PETSC_TRUE;
}

double AdjointMethod::stage_factor(int stage) const {
  const double b = weights_[stage];
  return b != 0 ? b : 1;
}

double AdjointMethod::parameter_factor(double share) const {
  if (name_ != "cn") return 1;  // one stage
  return share == 0 ? 1 - theta_ : theta_;
}

double AdjointMethod::exact_share(double share) const {
  for (const double exact : shares_)
    if (std::abs(share - exact) < 1e-9) return exact;
  return share;
}

}  // namespace fluxformer
