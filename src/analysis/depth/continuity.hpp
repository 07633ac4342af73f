#pragma once

// Is the course of the states through depth that of a smooth curve? With the steps D_i = u_i - u_{i-1} of a sample
// over cells of length h_i:
//
//   curvature      |D_{i+1}/h_{i+1} - D_i/h_i| / (|D_i/h_i| + |D_{i+1}/h_{i+1}|)    0 on a line, at most 1
//   cosine         D_i . D_{i+1} / (|D_i| |D_{i+1}|)                                1 on a line
//   straightness   |u_M - u_0| / (sum over i of |D_i|)                              1 on a line
//
// the first two as means over the rows between two cells. Steps that are 0 have no direction: between two of them
// the curvature is 0, and a cosine with one is 0.

#include <span>
#include <vector>

#include "analysis/accumulator.hpp"
#include "analysis/model_probe.hpp"
#include "base/index.hpp"

namespace fluxformer::depth {

/// The measures of one course. Curvature and cosine are NaN with one cell; straightness is 1 if nothing moves.
struct Continuity {
  double curvature = 0, cosine = 0, straightness = 0;
};

/// `states`: u_0 .. u_M, each as a list of numbers; `lengths`: h_1 .. h_M.
Continuity continuity_of(std::span<const std::vector<double>> states, std::span<const double> lengths);

/// The means over samples, on the cells of a probe; over real tokens only.
class StateContinuity {
 public:
  /// `probe` is borrowed.
  explicit StateContinuity(ModelProbe& probe) : probe_(probe) {}
  /// Adds the samples of a batch, with their weights. Collective over the token line.
  void show(const Batch& batch);
  void reduce(MPI_Comm comm) { sums_.reduce(comm); }
  Continuity mean() const { return {sums_.total()[0], sums_.total()[1], sums_.total()[2]}; }

 private:
  ModelProbe& probe_;
  Sums sums_{3};
};

}  // namespace fluxformer::depth
