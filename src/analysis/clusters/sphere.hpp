#pragma once

// Tokens on the unit sphere of any dimension: attention between all pairs, in O(n^2 d), by the kernel of the model's attention.
//
//   k(x, y) = e^{beta (<x, y> - 1)},    z_i = sum_j k(x_i, x_j),    y_i = sum_j k(x_i, x_j) x_j / Z_i
//   dx_i/dt = P_i y_i,    P_i = I - x_i x_i^T,    Z_i = z_i of soft-max attention, n of unnormalised
//
// States u are vectors with the directions x = u / |u|, du/dt = |u| P y: directions move as they do on the sphere, whatever an integrator
// does to lengths.

#include <mpi.h>

#include <array>
#include <optional>
#include <span>
#include <vector>

#include "analysis/clusters/evenly_spread.hpp"
#include "analysis/clusters/growth_rates.hpp"
#include "analysis/clusters/soft_numbers.hpp"
#include "base/handle.hpp"
#include "mesh/token_line.hpp"
#include "operators/attention/head_kernel.hpp"
#include "operators/attention/token_ring.hpp"

namespace fluxformer::clusters {

/// Attention between tokens that the ranks share, in their order and as evenly as possible; with more ranks than tokens the last ones have
/// none. Blocks of tokens travel around a ring; no matrix of pairs is formed.
class SphereAttention {
 public:
  /// `tokens`: n on all ranks together; `dimension`: d, of the space of the sphere. Collective.
  SphereAttention(Index tokens, int dimension, double beta, MPI_Comm comm,
                  Weights normalisation = Weights::softmax);
  SphereAttention(const SphereAttention&) = delete;
  SphereAttention& operator=(const SphereAttention&) = delete;

  /// The first of this rank's tokens, and how many it has. Spans below are [token][channel] of these.
  Index first() const { return first_; }
  Index count() const { return count_; }

  /// rate := du/dt. Collective.
  void velocity(std::span<const double> u, std::span<double> rate);
  /// Numbers of clusters, energy and dissipation. Collective.
  SoftNumbers sums(std::span<const double> u);

 private:
  /// Sets x_, and, as [token] and [channel][token], the sums of the attention of this rank's tokens.
  void attend(std::span<const double> u);
  /// rate := P_i y_i of the sums.
  void project(double* rate) const;
  /// z_i, and its ratio to Z_i.
  double denominator(Index i) const;
  double share(Index i) const;

  Index tokens_, first_ = 0, count_ = 0, dimension_, stride_ = 0;
  double beta_;
  Weights normalisation_;
  MPI_Comm comm_;
  std::optional<TokenLine> line_;  // of the ranks with tokens
  std::optional<TokenRing<double>> ring_;
  HeadKernel<double> kernel_;
  std::vector<double> x_, queries_, shift_;  // [token][channel], [channel][token], -beta of each key
  std::vector<double> top_, sum_, mix_;      // z_i = sum e^top, y_i = mix / sum
  std::vector<int> index_;
};

/// The powers of degrees 1 and 2 of this and all other ranks' tokens, unit vectors: |mean x|^2 and (d |C|^2 - 1) / (d - 1) with
/// C = mean x x^T; 0 for tokens that are spread evenly, 1 for equal ones, d > 1. Cost: n d^2. Collective.
std::array<double, 2> degree_powers(const Tokens& tokens, MPI_Comm comm);

}  // namespace fluxformer::clusters
