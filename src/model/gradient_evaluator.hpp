#pragma once

// Loss and gradient of one batch: embedding, march through depth, readout, and the transpose of all three; or those of
// them that a stage of depth has.

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "model/batch.hpp"
#include "model/depth_march.hpp"
#include "model/embedding.hpp"
#include "model/tasks/task.hpp"
#include "operators/dropout.hpp"

namespace fluxformer {

/// A loss at intermediate depths, such as distillation of hidden states or attention.
class DepthLoss {
 public:
  virtual ~DepthLoss() = default;
  /// Before the rows of a batch. Collective over the token line.
  virtual void begin(const Batch& batch) = 0;
  /// Whether it depends on row i (0: the embedded input, M: the last). Rows of a stage are those that its cells start
  /// from, and M.
  virtual bool looks_at(int row) const = 0;
  /// Its value at that row, this rank's share. u_bar (if not null) += its derivative with respect to u,
  /// gradient (then not empty) += that with respect to the parameters. Collective over the token line.
  virtual double add(int row, const Batch& batch, const double* u, double* u_bar,
                     std::span<double> gradient) = 0;
};

/// Entries first .. first + count - 1 of the flat gradient are complete on this rank.
using GradientReady = std::function<void(std::size_t first, std::size_t count)>;

/// Everything that is minimised, or the loss of the labels alone, without the depth losses.
enum class LossTerms { all, labels };

/// Forward and backward pass of one replica. Its ranks share the tokens of the batch. A march through some of the cells
/// makes it a stage: it embeds if the first cell is among them, and has the loss if the last one is.
class GradientEvaluator {
 public:
  /// All are borrowed. `context` is that of `march.model()`; its lengths are set to those of each batch.
  GradientEvaluator(const Parameters& parameters, SlabContext& context, DepthMarch& march, const Loss& loss);

  /// Borrowed: the one of the context. `gradient` keys it by the batch, `evaluate` turns it off.
  void set_dropout(Dropout& dropout) { dropout_ = &dropout; }
  /// Borrowed; called in the order they were added.
  void add_depth_loss(DepthLoss& term) { depth_losses_.push_back(&term); }

  bool has_loss() const { return task_ != nullptr; }
  /// The state that `forward` and `evaluate` start from (unless they embed) and end with; the adjoint that `backward` starts from (unless it has
  /// the loss) and ends with.
  std::vector<double>& u() { return u_; }
  std::vector<double>& u_bar() { return u_bar_; }

  /// Loss without gradient. Collective over the token line, as all below.
  Evaluation evaluate(const Batch& batch, LossTerms terms = LossTerms::all);
  /// gradient (the flat vector) := this rank's share: the sum over the token line and over the ranks that
  /// share the batch is the gradient of the weighted sum. Calls `ready(first, count)` as each piece is final,
  /// in the same order on all ranks, also after an exception (then with whatever the piece holds: other ranks
  /// wait for it). The pieces cover the vector.
  Evaluation gradient(const Batch& batch, std::span<double> gradient, const GradientReady& ready = {});
  /// The two halves of it, for one batch; gradient +=.
  void forward(const Batch& batch);
  Evaluation backward(const Batch& batch, std::span<double> gradient, const GradientReady& ready = {});
  /// Calls `ready` for all pieces, as `backward` would have.
  void pass_on(const GradientReady& ready) const;
  /// Of the last call, [sample][class].
  const std::vector<double>& logits() const { return tape_->logits; }
  DepthMarch& march() const { return march_; }

 private:
  class Pieces;
  void begin_batch(const Batch& batch, bool training);
  void embed_batch(const Batch& batch);
  void begin_depth_losses(const Batch& batch);
  double add_depth_losses(int row, const Batch& batch, const double* u, double* u_bar,
                          std::span<double> gradient);
  /// The first entry of the blocks that are complete once the backward march has reached `row`.
  std::size_t first_complete(int row) const;

  const Parameters& parameters_;
  SlabContext& context_;
  DepthMarch& march_;
  std::optional<Embedding> embedding_;
  EmbeddingTape embedded_;
  std::unique_ptr<Task> task_;
  std::unique_ptr<TaskTape> tape_;
  Dropout* dropout_ = nullptr;
  std::vector<DepthLoss*> depth_losses_;
  std::vector<double> u_, u_bar_;
};

}  // namespace fluxformer
