#include "analysis/derivatives/lyapunov.hpp"

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
    const auto of_sample = start.item(static_cast<std::uint64_t>(samples[static_cast<std::size_t>(b)]));
    MatrixXd& directions = directions_.emplace_back(take_sample(context, in_.data(), b).size(), exponents);
    for (int j = 0; j < exponents; ++j)
      directions.col(j) = random_direction(of_sample.item(static_cast<std::uint64_t>(j)), directions.rows());
  }
  growth_.assign(directions_.size(), VectorXd::Zero(exponents));
  orthonormalise();
  start_counting();
}

void LyapunovMeter::advance(const SlabMap& derivative) {
  for (Eigen::Index j = 0; j < growth_.front().size(); ++j) {
    for (int b = 0; b < context_.samples; ++b)
      put_sample(context_, directions_[static_cast<std::size_t>(b)].col(j), b, in_.data());
    derivative(in_.data(), out_.data());
    for (int b = 0; b < context_.samples; ++b)
      directions_[static_cast<std::size_t>(b)].col(j) = take_sample(context_, out_.data(), b);
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

}  // namespace fluxformer::derivatives
