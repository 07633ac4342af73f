#pragma once

// Change of the logits when the input is perturbed, by level. At the same level, noise, sign steps and the
// worst direction change the embedded input by about the same fraction of its norm, so that their curves can
// share an axis.

#include <vector>

#include "analysis/accumulator.hpp"
#include "analysis/model_input.hpp"

namespace fluxformer::perturbation {

/// One number per level, means over samples. The norms are Euclidean, u_0 over the real tokens of the sample.
struct ResponseMeasures {
  std::vector<double> accuracy;      ///< share of samples whose most likely class is the label
  std::vector<double> loss;          ///< cross entropy
  std::vector<double> input_change;  ///< |du_0| / |u_0|
  std::vector<double> sensitivity;  ///< (|dz| / |z|) / (|du_0| / |u_0|), z the clean logits; over the samples
                                    ///< that have one (something moved, z is finite and not 0)
  std::vector<long> not_finite;     ///< samples whose logits are not finite: wrong, and not in the loss
  long samples = 0;
};

/// Accumulates ResponseMeasures. Samples may be spread over ranks; only `reduce` is collective.
class ResponseMeter : public Accumulator {
 public:
  /// Sums for that many levels of one kind; `classes` is the number of logits.
  ResponseMeter(int levels, int classes);

  /// Adds the samples of the input's batch at one level: u_0 and logits [sample][class] after the
  /// perturbation, and the logits before it. Fillers are left out.
  void add(int level, const ModelInput& input, const std::vector<double>& u, const double* logits,
           const double* clean_logits);

  /// NaN where there is nothing to average.
  ResponseMeasures measures() const;

 private:
  int classes_;
};

}  // namespace fluxformer::perturbation
