#pragma once

// The Jacobian of the logits with respect to the embedded input, dz/du_0, of each sample: C rows, as many as
// there are classes, each one backward pass for all samples of a batch. Its singular values are the roots of
// the eigenvalues of the C x C matrix J J^T: the largest to round-off, the others to about 1e-8 of it.

#include <Eigen/Core>
#include <vector>

#include "analysis/accumulator.hpp"
#include "analysis/model_input.hpp"

namespace fluxformer::derivatives {

class LogitJacobian {
 public:
  /// `input` is borrowed, embedded or not: it is the embedded input that counts.
  explicit LogitJacobian(ModelInput& input) : input_(input) {}

  /// For the batch of the input, where it is clean. Cost: a forward and C backward passes; memory: C slabs.
  void set();

  /// Of the last `set`, [sample][class].
  const std::vector<double>& logits() const { return logits_; }
  /// Of a sample, falling; none for a filler.
  const Eigen::VectorXd& singular_values(int sample) const {
    return values_[static_cast<std::size_t>(sample)];
  }
  /// v := the slab of the right singular vectors of the largest singular value: of norm 1 for each sample, of
  /// the sign along which the cross entropy rises; 0 on fillers, padding, and where J = 0.
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

  /// The samples of the batch of which `jacobian` is.
  void add(const ModelInput& input, const LogitJacobian& jacobian);

  long samples() const;
  /// The largest first, logits per unit of u_0; NaN without samples.
  std::vector<double> singular_values() const;
  /// The largest times |u_0| / |z|: the relative sensitivity in the worst direction; means over the samples
  /// with logits that are not 0.
  double worst_sensitivity() const;
};

}  // namespace fluxformer::derivatives
