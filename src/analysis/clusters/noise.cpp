#include "analysis/clusters/noise.hpp"

#include <Eigen/Core>
#include <algorithm>
#include <boost/math/tools/minima.hpp>
#include <boost/math/tools/toms748_solve.hpp>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace fluxformer::clusters {
namespace {

constexpr double least_order = 1e-4;  // M_1 below it is 0
constexpr double most_order = 0.9999;

/// A zero between two places of different signs.
template <class F>
double zero_between(double below, double above, F&& f) {
  std::uintmax_t most = 200;
  const auto [low, high] =
      boost::math::tools::toms748_solve(f, below, above, boost::math::tools::eps_tolerance<double>(48), most);
  return (low + high) / 2;
}

/// pi^{-1/2} int e^{-u^2} f(u^2) du by the trapezoidal rule: to round-off where f is analytic for |Im u| < 0.8.
template <class F>
double gaussian_mean(F&& f) {
  constexpr double width = 0.125;
  double sum = f(0.0);
  for (int j = 1; j <= 52; ++j) {
    const double square = width * j * width * j;
    sum += 2 * std::exp(-square) * f(square);
  }
  return sum * width / std::sqrt(std::numbers::pi);
}

/// The density exp(exponent potential) / mean on the half circle, whose mean cosine is given.
struct Fitted {
  double exponent;
  Eigen::ArrayXd share;  // of each angle, together 1
  double log_mean;
};
/// `exponent`: near the one that is sought; potentials are at most 0.
Fitted fit(const Eigen::ArrayXd& weight, const Eigen::ArrayXd& potential, const Eigen::ArrayXd& cosine,
           double order, double exponent) {
  Fitted found{exponent, {}, 0};
  for (int k = 0; k < 50; ++k) {
    found.share = weight * (found.exponent * potential).exp();
    const double mean = found.share.sum();
    found.share /= mean;
    found.log_mean = std::log(mean);
    // The mean cosine rises with the exponent: its derivative is a covariance.
    const double reached = (found.share * cosine).sum();
    const double rise = (found.share * cosine * potential).sum() - reached * (found.share * potential).sum();
    const double change = std::clamp((order - reached) / rise, -found.exponent / 2, found.exponent);
    if (std::abs(order - reached) <= 4e-16 || std::abs(change) <= 1e-14 * found.exponent) break;
    found.exponent += change;
  }
  return found;
}

}  // namespace

double beta_of_jump(int dimension) {
  return beta_of_ratio(dimension, 1.0 / dimension);
}

double mean_cosine(int dimension, const NoisySteps& steps) {
  // (1 + a X)^{-1/2} = pi^{-1/2} int e^{-u^2 (1 + a X)} du, and E e^{-t chi^2} = (1 + 2t)^{-(d-1)/2}
  const double spread = 4 * steps.noise * steps.step, power = -(dimension - 1) / 2.0;
  return gaussian_mean([&](double square) { return std::pow(1 + spread * square, power); });
}

double critical_noise_of_steps(double critical, double step) {
  // As above, (1 + a X)^{-3/2} = 2 pi^{-1/2} int u^2 e^{-u^2 (1 + a X)} du.
  return zero_between(critical / 2, 4 * critical, [&](double noise) {
    const double spread = 4 * noise * step;
    const double response =
        gaussian_mean([&](double square) { return 2 * square / std::sqrt(1 + spread * square); });
    return 1 - mean_cosine(2, {step, noise}) - critical * step * response;
  });
}

void take_noisy_step(std::span<double> angles, std::span<const double> velocity, const NoisySteps& steps,
                     const RandomStream& random, std::uint64_t first) {
  const double spread = std::sqrt(2 * steps.noise * steps.step);
  for (std::size_t j = 0; j < angles.size(); ++j)
    angles[j] += std::atan(steps.step * velocity[j] + spread * random.normal(first + j));
}

NoisyCluster::NoisyCluster(double beta, Weights weights)
    : beta_(beta),
      weights_(weights),
      kernel_(beta),
      critical_(critical_noise({.beta = beta, .weights = weights})),
      survival_(critical_),
      order_at_survival_(0) {
  if (weights == Weights::softmax || beta <= beta_of_jump(2)) return;
  const auto [order, noise] = boost::math::tools::brent_find_minima(
      [this](double at_order) { return -at(at_order).noise; }, least_order, most_order, 26);
  order_at_survival_ = order;
  survival_ = -noise;
}

NoisyCluster::State NoisyCluster::at(double order) const {
  const int waves = kernel_.order();
  // The density and its moments are resolved: it is about sqrt(2 (1 - M_1)) wide.
  const int half = waves + 1 + static_cast<int>(8 / std::sqrt(2 * (1 - order)));
  Eigen::ArrayXd weight = Eigen::ArrayXd::Constant(half + 1, 1.0 / half);
  weight(0) = weight(half) = 0.5 / half;
  Eigen::MatrixXd cosines(half + 1, waves);
  Eigen::VectorXd rise(waves), moments(waves);
  for (int k = 1; k <= waves; ++k) {
    for (int m = 0; m <= half; ++m) cosines(m, k - 1) = std::cos(std::numbers::pi * m * k / half);
    rise(k - 1) = 2 * kernel_.value[k];
    moments(k - 1) = std::pow(order, k * k);  // of a normal density around the circle
  }
  const Eigen::ArrayXd cosine = cosines.col(0);
  Fitted found{1 / (critical_ * beta_), {}, 0};
  Eigen::ArrayXd h;
  double top = 0;
  // Each round takes the kernel's h of the last density. It contracts: at worst, soft-max attention and beta = 100, by 0.98.
  for (int round = 0; round < 10000; ++round) {
    h = kernel_.value[0] + (cosines * rise.cwiseProduct(moments)).array();
    // Roundings of h matter only where there are no tokens.
    Eigen::ArrayXd potential = weights_ == Weights::softmax ? h.max(1e-17).log().eval() : h;
    top = potential.maxCoeff();
    potential -= top;
    found = fit(weight, potential, cosine, order, found.exponent);
    const Eigen::VectorXd next = cosines.transpose() * found.share.matrix();
    const double change = (next - moments).cwiseAbs().maxCoeff();
    moments = next;
    if (change <= 1e-14) break;
  }
  const double noise = 1 / (found.exponent * beta_), mean = (found.share * h).sum();
  // log(2 pi rho) = exponent (h - top) - log_mean
  const double entropy = found.exponent * (mean - top) - found.log_mean;
  return {noise, noise * entropy - (mean - kernel_.value[0]) / (2 * beta_)};
}

double NoisyCluster::order(double noise) const {
  const double low = std::max(order_at_survival_, least_order);
  const auto excess = [&](double order) { return at(order).noise - noise; };
  if (noise >= survival_ || excess(low) <= 0) return 0;
  // Attention draws tokens to their mean at a rate of 1 at most: 1 - M_1 is half the noise or more.
  return zero_between(low, 1 - noise / 4, excess);
}

double NoisyCluster::equal_free_energy() const {
  if (order_at_survival_ == 0) return critical_;
  // The jump is so small that roundings hide it.
  if (at(order_at_survival_).free_energy <= 0) return survival_;
  return at(zero_between(order_at_survival_, most_order,
                         [this](double order) { return at(order).free_energy; }))
      .noise;
}

}  // namespace fluxformer::clusters
