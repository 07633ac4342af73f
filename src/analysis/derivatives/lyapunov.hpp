#pragma once

// Leading Lyapunov exponents of a sequence of maps u_{i+1} = G_i(u_i). k orthonormal tangent vectors are
// propagated by the derivatives and orthonormalised after each map,
//
//   DG_i Q_i = Q_{i+1} R_i,     exponent j = (1/length) sum_i ln (R_i)_jj
//
// Over a finite length they depend on the initial directions: for random ones the leading exponents are too
// low, by (1/length) times the logarithm of their distance from the directions of largest growth. Propagating
// the directions back by the transposed maps, in reverse order, and forward again is a step of subspace
// iteration: when it is repeated, exponent j tends to (1/length) ln sigma_j, with sigma_j the singular values
// of the whole product. Each sweep leaves the fraction r = (sigma_{j+1} / sigma_j)^4 of its error, or
// that of the pair j-1, j if larger (of the error of the directions: the square root). After a change by x the
// error is therefore about x r / (1 - r): much more than x where singular values are nearly equal. The sum
// over k = n directions is (1/length) ln |det| of the product for any directions. Sources: Benettin,
// Galgani, Giorgilli, Strelcyn 1980; Shimada and Nagashima 1979.

#include <Eigen/Core>
#include <functional>
#include <span>
#include <vector>

#include "analysis/derivatives/sample_vectors.hpp"

namespace fluxformer::derivatives {

/// For all samples of a slab at once; only real tokens count. Not collective.
class LyapunovMeter {
 public:
  /// k = `exponents`, from random directions keyed by the global index `samples[b]`. `context` is borrowed;
  /// its lengths must not change. Memory: 2 k slabs. Throws BadInput unless 1 <= k <= the width (so that
  /// every sample has k directions), and for tokens spread over ranks.
  LyapunovMeter(const SlabContext& context, int exponents, const RandomStream& start,
                std::span<const long> samples);

  /// Applies the derivative of the next map, or its transpose on the way back, to the k directions.
  void advance(const SlabMap& derivative);
  /// Growth is counted from here on; the directions are kept.
  void start_counting();
  /// The k exponents of a sample per unit of length; `length` (> 0) is that of the maps since start_counting.
  /// Minus infinity for a direction that vanished; NaN for a sample of length 0.
  Eigen::VectorXd exponents(int sample, double length) const;
  int samples() const { return context_.samples; }

 private:
  void orthonormalise();
  const SlabContext& context_;
  std::vector<Eigen::MatrixXd> directions_;  // of each sample, [number][direction]
  std::vector<Eigen::VectorXd> growth_;      // of each sample, sum of ln R_jj
  std::vector<double> in_, out_;
};

/// How exponents are found by sweeps.
struct SweepPlan {
  double length = 1;     ///< of the maps from the first to the last
  int most = 0;          ///< sweeps, each backwards and forwards through all maps
  double tolerance = 0;  ///< a sample is done once none of its exponents changes by as much in a sweep
};

/// Of one sample.
struct SweptExponents {
  Eigen::VectorXd value;   ///< per unit of length
  Eigen::VectorXd change;  ///< of each in the last sweep; NaN without sweeps
  int sweeps = 0;          ///< until it was done, or all
};

/// The exponents of every sample of the meter. `forwards` and `backwards` advance it through all maps; they are
/// called until all samples are done. What a sample gets depends on that sample alone: its exponents are those
/// of the sweep in which it was done, whatever the others need. Not collective.
std::vector<SweptExponents> sweep_exponents(LyapunovMeter& meter, const std::function<void()>& forwards,
                                            const std::function<void()>& backwards, const SweepPlan& plan);

}  // namespace fluxformer::derivatives
