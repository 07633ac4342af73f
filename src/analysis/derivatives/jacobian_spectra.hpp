#pragma once

// Spectra of linear maps that act on each sample of a slab separately, as the derivative of a layer does:
// singular values and Lyapunov exponents, from products with the map and its transpose alone. A sample is one
// vector, its real tokens 0 .. length - 1 with all channels.

#include <Eigen/Core>
#include <functional>
#include <span>
#include <vector>

#include "base/random.hpp"
#include "operators/slab.hpp"

namespace fluxformer::derivatives {

/// Linear map out := A v on slabs of a context; sample b of `out` depends on sample b of v only. v and out do
/// not overlap.
using SlabMap = std::function<void(const double* v, double* out)>;

/// Vector of sample b, [token][channel]; empty for a sample of length 0. Not collective; needs all tokens on
/// this rank.
Eigen::VectorXd take_sample(const SlabContext& context, const double* slab, int b);
/// Writes the vector of sample b into a slab; the padding of the sample becomes 0.
void put_sample(const SlabContext& context, const Eigen::VectorXd& numbers, int b, double* slab);

/// Vector of standard normal numbers, each keyed by its index: independent of padding.
Eigen::VectorXd random_direction(const RandomStream& of_sample, Index size);

// Largest and smallest singular values by Golub-Kahan-Lanczos bidiagonalisation,
//
//   A V = U B,     A^T U = V B^T + beta_k v_{k+1} e_k^T,     B upper bidiagonal, k x k
//
// with full reorthogonalisation. The singular values of B lie within those of A. A singular value sigma of B
// with the left vector p has the residual beta_k |p_k| / sqrt(2) as an eigenvalue of [0 A; A^T 0]: a singular
// value of A is that close to sigma. Sources: Golub and Kahan 1965; Golub and Van Loan, Matrix Computations,
// section 10.4.

/// Bounds of the singular values of the map of one sample: the largest one is >= `largest`, the smallest one
/// <= `smallest`, and within each error there is a singular value of the map (up to its round-off). Small
/// singular values that are close together take many steps; the error shows it.
struct SingularRange {
  double largest = 0, largest_error = 0;
  double smallest = 0, smallest_error = 0;
  int steps = 0;  ///< steps taken; fewer than asked for if these are already exact
};

/// Singular values of each sample of the context, from k = `steps` applications of `map` and of `transposed`
/// to all samples together. Each sample has its own random start, keyed by its global index `samples[b]`;
/// padding does not count. NaN for a sample of length 0, and if the map gives numbers that are not finite.
/// Memory: 2 k slabs. Cost besides the maps: k^2 operations for each number of a slab. Not collective. Throws
/// BadInput for steps < 1 and for tokens that are distributed over ranks.
std::vector<SingularRange> singular_ranges(const SlabContext& context, const SlabMap& map,
                                           const SlabMap& transposed, int steps, const RandomStream& start,
                                           std::span<const long> samples);

// Leading Lyapunov exponents of a sequence of maps u_{i+1} = G_i(u_i). k orthonormal tangent vectors are
// propagated by the derivatives and orthonormalised after each map,
//
//   DG_i Q_i = Q_{i+1} R_i,     exponent j = (1/length) sum_i ln (R_i)_jj
//
// Over a finite length they depend on the initial directions: for random ones the leading exponents are too
// low, by (1/length) times the logarithm of their distance from the directions of largest growth. Propagating
// the directions back by the transposed maps, in reverse order, and forward again is a step of subspace
// iteration: when it is repeated, exponent j tends to (1/length) ln sigma_j, with sigma_j the singular values
// of the whole product. Each sweep leaves the fraction r = (sigma_{j+1} / sigma_j)^4 of the error of exponent
// j, or that of the pair j-1, j if it is larger (of the error of the directions: the square root). After a
// change by x the error is therefore about x r / (1 - r): much more than x if singular values are nearly
// equal. The sum over k = n directions is (1/length) ln |det| of the product for any directions. Sources:
// Benettin, Galgani, Giorgilli, Strelcyn 1980; Shimada and Nagashima 1979.

/// Follows k directions of every sample of a slab through a sequence of maps; only real tokens count. Not
/// collective.
class LyapunovDirections {
 public:
  /// Starts from k = `exponents` random directions keyed by the global index `samples[b]`. `context` is
  /// borrowed; its lengths must not change. Memory: 2 k slabs. Throws BadInput unless 1 <= k <= the width (so
  /// that every sample has k directions), and for tokens that are distributed over ranks.
  LyapunovDirections(const SlabContext& context, int exponents, const RandomStream& start,
                     std::span<const long> samples);

  /// Applies the derivative of the next map, or its transpose on the way back, to the k directions.
  void advance(const SlabMap& derivative);
  /// Counts growth from here on; the directions are kept.
  void start_counting();
  /// The k exponents of a sample per unit of length; `length` (> 0) is that of the maps since start_counting.
  /// Minus infinity for a direction that vanished; NaN for a sample of length 0.
  Eigen::VectorXd exponents(int sample, double length) const;
  int samples() const { return context_.samples; }

 private:
  void orthonormalise();
  const SlabContext& context_;
  std::vector<Eigen::MatrixXd> directions_;  // [sample]: Q_i, [number][direction]
  std::vector<Eigen::VectorXd> growth_;      // [sample]: sum_i ln |(R_i)_jj|
  std::vector<double> in_, out_;
};

/// Sweeps by which exponents are found.
struct SweepPlan {
  double length = 1;     ///< length of all maps together
  int most = 0;          ///< largest number of sweeps, each backwards and forwards through all maps
  double tolerance = 0;  ///< a sample is done once none of its exponents changes by as much in a sweep
};

/// Exponents of one sample.
struct SweptExponents {
  Eigen::VectorXd value;   ///< exponents per unit of length
  Eigen::VectorXd change;  ///< change of each exponent in the last sweep; NaN without sweeps
  int sweeps = 0;          ///< number of sweeps until the sample was done; of all sweeps if it never was
};

/// Exponents of every sample of the directions. `forwards` and `backwards` advance them through all maps and
/// are called until all samples are done. The exponents of a sample depend on that sample alone: they are those
/// of the sweep in which it was done, however many the others need. Not collective.
std::vector<SweptExponents> sweep_exponents(LyapunovDirections& directions,
                                            const std::function<void()>& forwards,
                                            const std::function<void()>& backwards, const SweepPlan& plan);

}  // namespace fluxformer::derivatives
