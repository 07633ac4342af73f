#pragma once

// The Hessian of what `train` minimises, over the variables that it moves: the loss over a set of samples
// plus the smoothness penalty P, as a function of the raw variables r of Trainable. With theta(r) (kappa =
// softplus(r), else r) and D = d theta / d r:
//
//   H v = D (H_theta + d2P/dtheta2) D v + (d2 theta / d r2) (g_theta + dP/dtheta) v
//   H_o v = D H_o,theta D v
//
// Entries that are not trained are 0 in every product.

#include <mpi.h>

#include <functional>
#include <span>
#include <vector>

#include "model/loss_hessian.hpp"
#include "model/sample_set.hpp"
#include "training/trainable.hpp"

namespace fluxformer::hessian {

/// Objective of a training: loss of the samples, penalty, and variables over which it is minimised.
struct Objective {
  Loss loss;
  double smoothness = 0;  ///< strength of the penalty on the depth-derivative of the weights
  TrainedCoefficients coefficients;
};

/// Hessian of an objective at given parameters. Samples are distributed over ranks; every rank holds the
/// whole vector of variables. All members but the plain getters are collective over the ranks of the samples.
class TrainingHessian {
 public:
  /// All arguments but `objective` are borrowed; `context` is on the token line of the samples and has room
  /// for a batch of them. Throws BadInput (agreed) as LossHessian and Trainable do.
  TrainingHessian(const Parameters& parameters, SlabContext& context, const DepthCells& depth, double speed,
                  const SampleSet& samples, const Objective& objective);

  /// Loss, without penalty, and share of correct samples.
  const Evaluation& evaluation() const { return evaluation_; }
  /// Gradient of the objective with respect to the variables.
  const std::vector<double>& gradient() const { return gradient_; }
  /// product := H v or H_o v; the same on all ranks. During the call v holds D v, so that a product
  /// needs no third vector of this length.
  void multiply(Curvature part, std::span<double> v, std::span<double> product);
  /// Calls visit(row) for each output (sample, class) of this rank's samples: H_o is the sum of row row^T
  /// over the rows of all samples. Every rank of a token line gets the same rows.
  void for_output_gradients(const std::function<void(std::span<const double>)>& visit);
  const Trainable& trainable() const { return trainable_; }
  Index size() const { return trainable_.size(); }
  /// Largest memory for products on any rank, in bytes.
  double kept_bytes() const { return kept_bytes_; }

 private:
  const Parameters& parameters_;
  MPI_Comm comm_, line_;
  Objective objective_;
  Trainable trainable_;
  LossHessian hessian_;
  Evaluation evaluation_;
  std::vector<double> gradient_;  // gradient with respect to the variables
  // (d2 theta / d r2) (g_theta + dP/dtheta) of the entries Trainable::special; 0 for the others
  std::vector<double> curvature_;
  double kept_bytes_ = 0;
};

}  // namespace fluxformer::hessian
