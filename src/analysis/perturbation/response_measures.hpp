#pragma once

// Change of the logits when the input is perturbed, by level. At the same level, noise, sign steps and the
// worst direction change the embedded input by about the same fraction of its norm, so that their curves can
// share an axis.

#include <mpi.h>

#include <cstddef>
#include <span>
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
class ResponseMeter {
 public:
  /// Sums for that many levels of one kind; `classes` is the number of logits, `samples` that of all ranks.
  ResponseMeter(int levels, int classes, std::size_t samples);

  /// Adds the samples of the input's batch at one level: u_0 and logits [sample][class] after the
  /// perturbation, and the logits before it. `places`: of each sample of the batch among all of them, from
  /// 0. Fillers are left out.
  void add(int level, const ModelInput& input, std::span<const long> places, const std::vector<double>& u,
           const double* logits, const double* clean_logits);
  /// As Accumulator::reduce. Collective.
  void reduce(MPI_Comm comm);

  /// NaN where there is nothing to average.
  ResponseMeasures measures() const;
  /// [sample][level]: 1 where the most likely class is the label, else 0.
  const std::vector<double>& correct_by_sample() const { return each_.numbers(); }

 private:
  int classes_;
  Sums sums_;  // by level
  SampleTable each_;
};

}  // namespace fluxformer::perturbation
