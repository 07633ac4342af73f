#pragma once

// A density of infinitely many tokens on the circle, by Fourier coefficients (Galerkin):
//
//   2 pi rho(theta) = sum_k rho_k e^{i k theta},  rho_{-k} = conj(rho_k),  |k| < N/2,  rho_0 = 1,  M_k = conj(rho_k)
//   d rho_k / dt = -i k (rho V)_k - kappa_s k^2 rho_k,    V = h' / (beta Z),    h = k * rho:  h_k = c_k rho_k
//
// with the kernel of analysis/clusters/circle.hpp, Z = h of soft-max attention, 1 of unnormalised, and v = 1. Products are taken at 3N/2 angles,
// so that those of two waves do not come back as a third. Without noise the density tends to points, which no N resolves for long. Not
// collective.

#include <memory>
#include <span>
#include <vector>

#include "analysis/clusters/circle.hpp"

namespace fluxformer::clusters {

/// The equation of a density; its states are Re rho_1, Im rho_1, Re rho_2, ...
class CircleDensity {
 public:
  /// `coefficients`: N, even, at least 16; `noise`: kappa_s.
  CircleDensity(int coefficients, double beta, Weights normalisation = Weights::softmax, double noise = 0);
  ~CircleDensity();

  /// Waves of a state: N/2 - 1.
  int waves() const { return waves_; }
  /// The state of 1 + amplitude cos(waves theta); waves < N/2.
  std::vector<double> wave(int waves, double amplitude) const;
  /// rate := d/dt of a state. O(N log N).
  void rate(std::span<const double> state, std::span<double> rate);
  /// N_2 = 1 / int rho h, N_1 = exp(-int rho log h), E = int rho h / (2 beta), dE/dt = int rho Z V^2 by attention.
  SoftNumbers sums(std::span<const double> state);
  /// Share of the tokens in each of equal bins of angles, from 0 on.
  std::vector<double> shares(std::span<const double> state, int bins) const;
  /// |M_1| .. |M_count|; count < N/2.
  std::vector<double> moments(std::span<const double> state, int count) const;
  /// Whether none of the last 6 coefficients is larger than 1e-8; of a density with so many equal waves, whose other coefficients are 0, none of
  /// the last `waves`.
  bool resolved(std::span<const double> state, int waves = 1) const;

 private:
  /// 2 pi rho, h and h' / beta at the 3N/2 angles.
  void at_angles(std::span<const double> state);

  /// Z at one of the angles.
  double denominator(std::size_t angle) const { return normalisation_ == Weights::softmax ? h_[angle] : 1; }

  int waves_;
  CircleKernel kernel_;
  Weights normalisation_;
  double noise_;
  struct Transform;
  std::unique_ptr<Transform> transform_;
  std::vector<double> density_, h_, slope_;
};

}  // namespace fluxformer::clusters
