#pragma once

// The Jacobian J = dz/du_0 of the logits with respect to the embedded input, of each sample. It has one row
// per class, each the cost of a backward pass for all samples of a batch. Its singular values are the square
// roots of the eigenvalues of the C x C matrix J J^T: the largest is exact up to round-off, the others have
// an error of about 1e-8 times the largest.

#include <Eigen/Core>
#include <vector>

#include "analysis/accumulator.hpp"
#include "analysis/model_input.hpp"

namespace fluxformer::derivatives {

/// Of one batch at a time. Not collective: a sample is whole on one rank.
class LogitJacobian {
 public:
  /// `input` is borrowed. The Jacobian is that of the embedded input in both input spaces.
  explicit LogitJacobian(ModelInput& input) : input_(input) {}

  /// Computes it for the batch of the input, unperturbed. Cost: a forward and C backward passes; memory: C
  /// slabs.
  void set();

  /// Of the last `set`, [sample][class].
  const std::vector<double>& logits() const { return logits_; }
  /// Of a sample, in descending order; empty for a filler.
  const Eigen::VectorXd& singular_values(int sample) const { return values_[sample]; }
  /// v := the slab of the right singular vectors of the largest singular value: norm 1 for each sample, with
  /// the sign along which the cross entropy increases; 0 on fillers, on padding, and where J = 0.
  void worst_direction(std::vector<double>& v) const;

 private:
  ModelInput& input_;
  std::vector<double> logits_;
  std::vector<std::vector<double>> rows_;  // [class]: a slab
  std::vector<Eigen::VectorXd> values_;    // [sample]
  std::vector<Eigen::VectorXd> left_;      // [sample]: left singular vector of the largest
};

/// Accumulates singular values: means over samples. Only `reduce` is collective.
class JacobianMeter : public Accumulator {
 public:
  explicit JacobianMeter(int classes) : Accumulator(static_cast<std::size_t>(classes) + 3) {}

  /// Adds the samples of the batch that `jacobian` was computed for.
  void add(const ModelInput& input, const LogitJacobian& jacobian);

  /// Samples added, over all ranks.
  long samples() const;
  /// The largest first, logits per unit of u_0; NaN without samples.
  std::vector<double> singular_values() const;
  /// Relative sensitivity in the worst direction: the largest singular value times |u_0| / |z|, mean over the
  /// samples whose logits are not 0.
  double worst_sensitivity() const;
};

}  // namespace fluxformer::derivatives
