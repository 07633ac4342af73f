#pragma once

// The Hessian of what `train` minimises, over the variables it moves: the loss over a set of samples plus the
// smoothness penalty P, as a function of the raw variables r of Trainable. With theta(r) (kappa = softplus(r),
// else r) and D = d theta / d r:
//
//   H v = D (H_theta + d2P/dtheta2) D v + (d2 theta / d r2) (g_theta + dP/dtheta) v
//   H_o v = D H_o,theta D v
//
// Entries that are not trained are 0 in every product.

#include <mpi.h>

#include <functional>
#include <span>
#include <vector>

#include "model/sample_set.hpp"
#include "model/second_order/loss_hessian.hpp"
#include "training/trainable.hpp"

namespace fluxformer::hessian {

/// What is minimised beside the loss of the samples, and over which variables.
struct Objective {
  Loss loss;
  double smoothness = 0;  ///< strength of the penalty on the depth-derivative of the weights
  TrainedCoefficients coefficients;
};

/// The ranks of the samples share them; every rank holds the whole vector of variables. All members are
/// collective over the ranks of the samples, but for the plain getters.
class TrainingHessian {
 public:
  /// All but `objective` are borrowed; `context` is on the token line of the samples and has room for as many
  /// as they hold at a time. Throws BadInput (agreed) as LossHessian and Trainable.
  TrainingHessian(const Parameters& parameters, SlabContext& context, DepthCells depth, double speed,
                  const SampleSet& samples, const Objective& objective);

  /// Loss (without penalty) and share of correct samples.
  const Evaluation& evaluation() const { return evaluation_; }
  /// The gradient with respect to the variables.
  const std::vector<double>& gradient() const { return gradient_; }
  /// product := H v or H_o v; the same on all ranks.
  void multiply(Curvature part, std::span<const double> v, std::span<double> product);
  /// Calls visit(row) for each output of this rank's samples (sample, class): H_o is the sum of row row^T over all of
  /// them. Every rank of a token line gets the same rows.
  void for_output_gradients(const std::function<void(std::span<const double>)>& visit);
  const Trainable& trainable() const { return trainable_; }
  std::size_t size() const { return trainable_.size(); }
  /// Largest memory for products on any rank, in bytes.
  double kept_bytes() const { return kept_bytes_; }

 private:
  const Parameters& parameters_;
  MPI_Comm comm_, line_;
  Objective objective_;
  Trainable trainable_;
  LossHessian hessian_;
  Parameters direction_;
  Evaluation evaluation_;
  std::vector<double> gradient_;   // of the variables
  std::vector<double> curvature_;  // (d2 theta / d r2) (g + dP/dtheta), 0 where theta = r
  double kept_bytes_ = 0;
};

}  // namespace fluxformer::hessian
