#include "analysis/clusters/circle_density.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <numbers>
#include <unsupported/Eigen/FFT>

namespace fluxformer::clusters {
namespace {

using Complex = std::complex<double>;
constexpr int watched = 6;           // of the last coefficients
constexpr double unresolved = 1e-8;  // size of one of them

Complex coefficient(std::span<const double> state, int k) {
  return {state[2 * k - 2], state[2 * k - 1]};
}

}  // namespace

/// sum_k f_k e^{i k theta_m} at theta_m = 2 pi m / M, and back, of real functions: k = 0 .. M/2.
struct CircleDensity::Transform {
  explicit Transform(std::size_t angles) : waves(angles / 2 + 1) {
    fft.SetFlag(Eigen::FFT<double>::HalfSpectrum);
    fft.SetFlag(Eigen::FFT<double>::Unscaled);
  }
  void to(std::vector<double>& values) { fft.inv(values.data(), waves.data(), std::ssize(values)); }
  /// M f_k
  void from(const std::vector<double>& values) { fft.fwd(waves.data(), values.data(), std::ssize(values)); }
  Eigen::FFT<double> fft;
  std::vector<Complex> waves;
};

CircleDensity::CircleDensity(int coefficients, double beta, Weights normalisation, double noise)
    : waves_(coefficients / 2 - 1),
      kernel_(beta),
      normalisation_(normalisation),
      noise_(noise),
      transform_(std::make_unique<Transform>(3 * coefficients / 2)),
      density_(3 * coefficients / 2),
      h_(density_.size()),
      slope_(density_.size()) {}

CircleDensity::~CircleDensity() = default;

std::vector<double> CircleDensity::wave(int waves, double amplitude) const {
  std::vector<double> state(2 * waves_, 0.0);
  state[2 * waves - 2] = amplitude / 2;
  return state;
}

void CircleDensity::at_angles(std::span<const double> state) {
  auto& waves = transform_->waves;
  const int heard = std::min(waves_, kernel_.order());
  const auto fill = [&](Complex mean, int count, auto&& of) {
    std::ranges::fill(waves, Complex(0));
    waves[0] = mean;
    for (int k = 1; k <= count; ++k) waves[k] = of(k) * coefficient(state, k);
  };
  fill(1, waves_, [](int) { return 1.0; });
  transform_->to(density_);
  fill(kernel_.value[0], heard, [&](int k) { return kernel_.value[k]; });
  transform_->to(h_);
  fill(0, heard, [&](int k) { return Complex(0, kernel_.slope[k]); });
  transform_->to(slope_);
}

void CircleDensity::rate(std::span<const double> state, std::span<double> rate) {
  at_angles(state);
  for (std::size_t m = 0; m < h_.size(); ++m) density_[m] *= slope_[m] / denominator(m);
  transform_->from(density_);
  for (int k = 1; k <= waves_; ++k) {
    const Complex flux = transform_->waves[k] / static_cast<double>(density_.size());
    const double damping = noise_ * k * k;
    rate[2 * k - 2] = k * flux.imag() - damping * state[2 * k - 2];
    rate[2 * k - 1] = -k * flux.real() - damping * state[2 * k - 1];
  }
}

SoftNumbers CircleDensity::sums(std::span<const double> state) {
  at_angles(state);
  double pairs = 0, logarithm = 0, dissipation = 0;
  for (std::size_t m = 0; m < h_.size(); ++m) {
    pairs += density_[m] * h_[m];
    logarithm += density_[m] * std::log(h_[m]);
    dissipation += density_[m] * slope_[m] * slope_[m] / denominator(m);
  }
  const auto angles = static_cast<double>(h_.size());
  return {.number_2 = angles / pairs,
          .number_1 = std::exp(-logarithm / angles),
          .energy = pairs / angles / (2 * kernel_.beta),
          .dissipation = dissipation / angles};
}

std::vector<double> CircleDensity::shares(std::span<const double> state, int bins) const {
  std::vector<double> found(bins, 1.0 / bins);
  const double width = 2 * std::numbers::pi / bins;
  for (int k = 1; k <= waves_; ++k) {
    // The mean of e^{ik theta} over a bin is that over the bin around 0, turned to its middle.
    const Complex here = 2.0 / bins * std::sin(k * width / 2) / (k * width / 2) * coefficient(state, k);
    for (int b = 0; b < bins; ++b) found[b] += (here * std::polar(1.0, k * width * (b + 0.5))).real();
  }
  return found;
}

std::vector<double> CircleDensity::moments(std::span<const double> state, int count) const {
  std::vector<double> found;
  for (int k = 1; k <= count; ++k) found.push_back(std::abs(coefficient(state, k)));
  return found;
}

bool CircleDensity::resolved(std::span<const double> state, int waves) const {
  for (int k = std::max(1, waves_ - std::max(watched, waves) + 1); k <= waves_; ++k)
    if (!(std::abs(coefficient(state, k)) <= unresolved)) return false;
  return true;
}

}  // namespace fluxformer::clusters
