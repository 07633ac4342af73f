#pragma once

// Leading Lyapunov exponents of a sequence of maps u_{i+1} = G_i(u_i): k orthonormal tangent vectors go
// through the derivatives, and after each map become orthonormal again,
//
//   DG_i Q_i = Q_{i+1} R_i,     exponent j = (1/length) sum_i ln (R_i)_jj
//
// Over a finite length they depend on the directions at its beginning: of k random ones the leading exponents
// come out too low by (1/length) times the logarithm of how far these are from the directions that grow most.
// Taking the directions back through the transposed maps, last one first, and forward again, is a step of
// subspace iteration: repeated, exponent j tends to (1/length) ln sigma_j, with sigma_j the singular values
// of the whole product. The sum over k = n directions is (1/length) ln |det| of the product whatever these
// are. Sources: Benettin, Galgani, Giorgilli, Strelcyn 1980; Shimada and Nagashima 1979.

#include <Eigen/Core>
#include <span>
#include <vector>

#include "analysis/derivatives/sample_vectors.hpp"

namespace fluxformer::derivatives {

/// The samples of a slab side by side; only real tokens count. Not collective.
class LyapunovMeter {
 public:
  /// k = `exponents`, from random directions keyed by the global index `samples[b]`. `context` is borrowed,
  /// its lengths stay as they are. Memory: 2 k slabs. Throws BadInput unless 1 <= k <= the width (so that any
  /// sample has as many directions), and for tokens spread over ranks.
  LyapunovMeter(const SlabContext& context, int exponents, const RandomStream& start,
                std::span<const long> samples);

  /// The next map: k applications of its derivative, or of the transpose of that on the way back.
  void advance(const SlabMap& derivative);
  /// Growth counts from here on; the directions stay.
  void start_counting();
  /// The k exponents of a sample per unit of length, `length` (> 0) that of the maps since. Minus infinity
  /// for a direction that vanished; NaN for a sample of length 0.
  Eigen::VectorXd exponents(int sample, double length) const;

 private:
  void orthonormalise();
  const SlabContext& context_;
  std::vector<Eigen::MatrixXd> directions_;  // of each sample, [number][direction]
  std::vector<Eigen::VectorXd> growth_;      // of each sample, sum of ln R_jj
  std::vector<double> in_, out_;
};

}  // namespace fluxformer::derivatives
