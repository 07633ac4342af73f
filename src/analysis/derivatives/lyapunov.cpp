#include "analysis/derivatives/lyapunov.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "analysis/dense_matrices.hpp"
#include "analysis/state_examples.hpp"
#include "base/error.hpp"

namespace fluxformer::derivatives {

using Eigen::MatrixXd;
using Eigen::VectorXd;

LyapunovMeter::LyapunovMeter(const SlabContext& context, int exponents, const RandomStream& start,
                             std::span<const long> samples)
    : context_(context), in_(context.size()), out_(context.size()) {
  need_whole_line(*context.line, "Lyapunov exponents");
  if (exponents < 1 || exponents > context.width)
    throw BadInput(std::to_string(exponents) + " Lyapunov exponents: 1 to model.width = " +
                   std::to_string(context.width) + " are possible");
  for (int b = 0; b < context.samples; ++b) {
    const auto of_sample = start.item(samples[b]);
    MatrixXd& directions = directions_.emplace_back(take_sample(context, in_.data(), b).size(), exponents);
    for (int j = 0; j < exponents; ++j)
      directions.col(j) = random_direction(of_sample.item(j), directions.rows());
  }
  growth_.assign(directions_.size(), VectorXd::Zero(exponents));
  orthonormalise();
  start_counting();
}

void LyapunovMeter::advance(const SlabMap& derivative) {
  for (Eigen::Index j = 0; j < growth_.front().size(); ++j) {
    for (int b = 0; b < context_.samples; ++b) put_sample(context_, directions_[b].col(j), b, in_.data());
    derivative(in_.data(), out_.data());
    for (int b = 0; b < context_.samples; ++b) directions_[b].col(j) = take_sample(context_, out_.data(), b);
  }
  orthonormalise();
}

void LyapunovMeter::orthonormalise() {
  for (std::size_t b = 0; b < directions_.size(); ++b) {
    MatrixXd& directions = directions_[b];
    if (directions.rows() == 0) continue;
    ThinQr qr = thin_qr(directions);
    growth_[b] += qr.diagonal.cwiseAbs().array().log().matrix();
    directions = std::move(qr.q);
  }
}

void LyapunovMeter::start_counting() {
  for (auto& growth : growth_) growth.setZero();
}

VectorXd LyapunovMeter::exponents(int sample, double length) const {
  const auto b = static_cast<std::size_t>(sample);
  if (directions_[b].rows() == 0)
    return VectorXd::Constant(growth_[b].size(), std::numeric_limits<double>::quiet_NaN());
  return growth_[b] / length;
}

namespace {

/// The change of each exponent; 0 of one that stays minus infinity.
VectorXd change_of(const VectorXd& from, const VectorXd& to) {
  return (from.array() == to.array()).select(0.0, (to - from).cwiseAbs());
}

}  // namespace

std::vector<SweptExponents> sweep_exponents(LyapunovMeter& meter, const std::function<void()>& forwards,
                                            const std::function<void()>& backwards, const SweepPlan& plan) {
  meter.start_counting();
  forwards();
  std::vector<SweptExponents> found;
  for (int b = 0; b < meter.samples(); ++b) {
    const VectorXd value = meter.exponents(b, plan.length);
    found.push_back({value, VectorXd::Constant(value.size(), std::numeric_limits<double>::quiet_NaN()), 0});
  }
  // Numbers that are not defined do not become so by sweeps.
  const auto done = [&](const SweptExponents& one) {
    return one.value.hasNaN() || (one.sweeps > 0 && (one.change.array() < plan.tolerance).all());
  };
  for (int sweep = 1; sweep <= plan.most && !std::ranges::all_of(found, done); ++sweep) {
    backwards();
    meter.start_counting();
    forwards();
    for (int b = 0; b < meter.samples(); ++b) {
      auto& one = found[b];
      if (done(one)) continue;
      const VectorXd value = meter.exponents(b, plan.length);
      one = {value, change_of(one.value, value), sweep};
    }
  }
  return found;
}

}  // namespace fluxformer::derivatives
