#pragma once

// Loss and gradient of one batch: embedding, march through depth, readout, and the transpose of all three. A
// stage of depth has some of them only.

#include <functional>
#include <span>
#include <vector>

#include "base/index.hpp"
#include "model/model_pass.hpp"
#include "model/sample_set.hpp"

namespace fluxformer {

/// A loss at intermediate depths, such as distillation of hidden states or attention.
class DepthLoss {
 public:
  virtual ~DepthLoss() = default;
  /// Called before the rows of a batch are shown. Collective over the token line.
  virtual void begin(const Batch& batch) = 0;
  /// True if the loss depends on row i (0: the embedded input, M: the last). A stage shows the rows that its
  /// cells start from, and M.
  virtual bool looks_at(int row) const = 0;
  /// The value of the loss at that row, this rank's share. u_bar (if not null) += its derivative with respect
  /// to u, gradient (then not empty) += that with respect to the parameters. Collective over the token line.
  virtual double add(int row, const Batch& batch, const double* u, double* u_bar,
                     std::span<double> gradient) = 0;
};

/// Called when entries first .. first + count - 1 of the flat gradient are complete on this rank.
using GradientReady = std::function<void(Index first, Index count)>;

/// The terms of a loss: everything that is minimised, or the task loss alone, without the depth losses.
enum class LossTerms { all, labels };

/// Forward and backward pass of one replica, whose ranks share the tokens of the batch. A march through some
/// of the cells makes it a stage: it embeds if the first cell is among them, and has the loss if the last one
/// is.
class GradientEvaluator {
 public:
  /// All objects are borrowed. `context` is that of `march.model()`; its lengths are set to those of each
  /// batch.
  GradientEvaluator(const Parameters& parameters, SlabContext& context, DepthMarch& march, const Loss& loss);

  /// Sets the dropout of the context (borrowed). `gradient` keys it by the batch, `evaluate` turns it off.
  void set_dropout(Dropout& dropout) { pass_.set_dropout(dropout); }
  /// Adds a loss at intermediate depths (borrowed). The losses are called in the order they were added.
  void add_depth_loss(DepthLoss& term) { depth_losses_.push_back(&term); }

  /// True on the stage that has the last cell.
  bool has_loss() const { return pass_.has_task(); }
  /// u: the state that `forward` and `evaluate` start from (unless they embed) and end with. u_bar: the
  /// adjoint that `backward` starts from (unless it has the loss) and ends with.
  std::vector<double>& u() { return u_; }
  std::vector<double>& u_bar() { return u_bar_; }

  /// The loss without its gradient. Collective over the token line, as all calls below.
  Evaluation evaluate(const Batch& batch, LossTerms terms = LossTerms::all);
  /// gradient (the flat vector) := this rank's share: the sum over the token line and over the ranks that
  /// share the batch is the gradient of the weighted sum. Calls `ready(first, count)` as each piece is final,
  /// in the same order on all ranks, also after an exception (then with whatever the piece holds: other ranks
  /// wait for it). The pieces cover the vector.
  Evaluation gradient(const Batch& batch, std::span<double> gradient, const GradientReady& ready = {});
  /// The two halves of `gradient` for one batch; here gradient += .
  void forward(const Batch& batch);
  Evaluation backward(const Batch& batch, std::span<double> gradient, const GradientReady& ready = {});
  /// Reports all pieces to `ready`, as `backward` would have; computes nothing.
  void report_all(const GradientReady& ready) const;
  /// The logits of the last call, [sample][class].
  const std::vector<double>& logits() const { return pass_.logits(); }

 private:
  class Pieces;
  void begin_depth_losses(const Batch& batch);
  double add_depth_losses(int row, const Batch& batch, const double* u, double* u_bar,
                          std::span<double> gradient);
  /// First entry of the blocks that are complete once the backward march has reached `row`.
  Index first_complete(int row) const;

  const Parameters& parameters_;
  ModelPass pass_;
  std::vector<DepthLoss*> depth_losses_;
  std::vector<double> u_, u_bar_;
};

}  // namespace fluxformer
