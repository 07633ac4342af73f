#pragma once

// What the logits do when the input is perturbed, level by level. Noise, sign steps and the worst direction
// of one level move the embedded input by about the same part of its norm, so that their curves lie over the
// same axis.

#include <vector>

#include "analysis/model_input.hpp"

namespace fluxformer::perturbation {

/// One number per level, means over samples. The norms are Euclidean, u_0 over the real tokens of the sample.
struct ResponseMeasures {
  std::vector<double> accuracy;      ///< share whose most likely class is the label
  std::vector<double> loss;          ///< cross entropy
  std::vector<double> input_change;  ///< |du_0| / |u_0|
  std::vector<double> sensitivity;   ///< (|dz| / |z|) / (|du_0| / |u_0|), z the clean logits
  std::vector<long> not_finite;      ///< samples whose logits are not finite: wrong, and not in the loss
  std::vector<long> insensible;      ///< samples without a sensitivity (nothing moved, z = 0, not finite)
  long samples = 0;
};

/// Accumulates ResponseMeasures. Not collective: samples may be spread over ranks.
class ResponseMeter {
 public:
  ResponseMeter(int levels, int classes);

  /// The samples of the input's batch at one level: u_0 and logits [sample][class] after the perturbation,
  /// and the logits before it. Fillers are left out.
  void add(int level, const ModelInput& input, const std::vector<double>& u, const double* logits,
           const double* clean_logits);

  /// The state, additive: that of two meters summed is that of their samples together (to round-off).
  std::vector<double>& sums() { return sums_; }

  /// What has been added so far; NaN where there is nothing to take a mean of.
  ResponseMeasures measures() const;

 private:
  int classes_;
  std::vector<double> sums_;
};

}  // namespace fluxformer::perturbation
