#pragma once

// Products with the Hessian H of the loss of some batches, and with its Gauss-Newton part H_o = J^T L J (J:
// the Jacobian of the logits, L: the second derivative of the loss in the logits).
//
// A gradient marches the states u forward and the adjoints w backward. Along a direction of the parameters a
// product marches the tangents u_dot forward and the tangents w_dot backward (Pearlmutter 1994); u, w and the
// terms' intermediate values are kept from the gradient. Cost: H twice, H_o 4/3 times the flops of a
// gradient.

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/index.hpp"
#include "model/depth_march.hpp"
#include "model/sample_set.hpp"
#include "model/tasks/task.hpp"

namespace fluxformer {

/// The Hessian of the task loss without dropout and depth losses, over the flat vector of the parameters, at
/// their values in the calls of `linearise`. One slab of samples is processed at a time; memory: the
/// activations of all batches, three times.
class LossHessian {
 public:
  /// All objects are borrowed; the lengths of `context` are set to those of each batch. Throws BadInput for a
  /// model that has no second derivative or cannot be marched, std::invalid_argument for a context with
  /// dropout.
  LossHessian(const Parameters& parameters, SlabContext& context, const DepthCells& depth, double speed,
              const Loss& loss);
  ~LossHessian();

  /// Adds a batch: its gradient is added to `gradient` (this rank's share), and what products need is kept.
  /// Collective over the token line.
  Evaluation linearise(const Batch& batch, std::span<double> gradient);
  /// Drops all batches, after the parameters changed, but keeps the memory for as many others.
  void restart();
  /// product := this rank's share of H direction or H_o direction: the sum over the token line and over the
  /// ranks that share the batches is the product. Collective over the token line.
  void multiply(Curvature part, std::span<const double> direction, std::span<double> product);
  /// For each sample of weight above 0 and each class c: row := this rank's share of J^T b, with b column c
  /// of B, B B^T = L of the sample (loss_curvature_factor); then `visit`. H_o is the sum of row row^T. Each
  /// row costs half a gradient of its whole batch. Collective over the token line.
  void for_output_gradients(std::span<double> row, const std::function<void()>& visit);
  /// Number of entries of the flat vector of the parameters.
  Index size() const { return parameters_.layout.size(); }
  /// Memory that the batches hold on this rank, in bytes.
  std::size_t kept_bytes() const;

 private:
  struct BatchTape;
  void multiply(Curvature part, const ParameterVector& direction, BatchTape& tape, std::span<double> product);
  /// Marches the adjoint of the last state in slab_ down to the input; product += the contributions of all
  /// cells and of the embedding. Leaves the tape as it is.
  void pull(BatchTape& tape, std::span<double> product);

  const Parameters& parameters_;
  SlabContext& context_;
  DepthCells depth_;
  double speed_;
  Loss loss_;
  std::unique_ptr<DepthModel> model_;
  std::vector<std::unique_ptr<BatchTape>> tapes_;
  Index used_ = 0;
  std::vector<double> slab_, other_slab_;
};

}  // namespace fluxformer
