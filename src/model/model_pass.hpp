#pragma once

// The way of a batch through a model and back: embedding, march through depth, and the task that reads the
// last state. Gradients, probes and products with the Hessian share it.

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "model/depth_march.hpp"
#include "model/embedding.hpp"
#include "model/sample_set.hpp"
#include "model/tasks/task.hpp"
#include "operators/dropout.hpp"

namespace fluxformer {

/// A pass of one replica, whose ranks share the tokens of the batch. A march through some of the cells makes
/// it a stage: it embeds if the first cell is among them, and has the task if the last one is. States belong
/// to the caller. All calls are collective over the token line, but for the getters.
class ModelPass {
 public:
  /// Training drops out; evaluation does not.
  enum class Mode { training, evaluation };
  /// All are borrowed. `context` is that of `march.model()`; its lengths are set to those of each batch.
  /// `loss` may be null: there is no task.
  ModelPass(const Parameters& parameters, SlabContext& context, DepthMarch& march, const Loss* loss);

  /// Sets the dropout of the context (borrowed), which the passes key by their batches.
  void set_dropout(Dropout& dropout) { dropout_ = &dropout; }
  /// Has forward passes change the states of their rows (DepthMarch::set_edit): also row 0, the embedded
  /// batch, on the stage that embeds.
  void set_edit(RowEdit edit);
  /// True on the stage that has the last cell, where there is a loss.
  bool has_task() const { return task_ != nullptr; }
  DepthMarch& march() const { return march_; }
  /// The logits of the last evaluation of the task, [sample][class].
  const std::vector<double>& logits() const { return task_tape_->logits; }
  /// Task::outputs
  int outputs() const { return task_->outputs(); }

  /// To be called before a pass, or a part of one, with this batch. Not collective.
  void begin(const Batch& batch, Mode mode);
  /// u := the embedded batch, under dropout and the edit; a stage that does not embed leaves u as it is.
  void embed(const Batch& batch, double* u);
  /// Marches u; calls `row` with the row that the march starts from, too.
  void forward(double* u, Keep keep, const RowVisitor& row);
  /// The loss at the last state u.
  Evaluation value(const Batch& batch, const double* u) { return task_->value(batch, u, *task_tape_); }
  /// The loss; u_bar := its derivative, gradient += its derivative in the parameters of the task.
  Evaluation pull_task(const Batch& batch, const double* u, double* u_bar, std::span<double> gradient,
                       Task::KeepFor keep_for) {
    return task_->gradient(batch, u, u_bar, gradient, *task_tape_, keep_for);
  }
  /// gradient += the derivative in the parameters of the embedding, from the adjoint of the embedded batch,
  /// which is changed. With KeepFor::products it is kept for pull_embedding_along.
  void pull_embedding(const Batch& batch, double* u_bar, std::span<double> gradient, Task::KeepFor keep_for);

  // Products with the Hessian, after a pass that kept what they need; dropout has no part in them.

  /// u_dot := the derivative of the embedded batch along a direction of the parameters.
  void push_embedding(const Batch& batch, const ParameterVector& direction, double* u_dot);
  /// Task::product
  void push_task(Curvature part, const Batch& batch, const ParameterVector& direction, const double* u_dot,
                 double* w_dot, std::span<double> product) {
    task_->product(part, batch, direction, u_dot, w_dot, product, *task_tape_);
  }
  /// product += the derivative of pull_embedding along the direction and w_dot of the embedded batch.
  void pull_embedding_along(const Batch& batch, const ParameterVector& direction, const double* w_dot,
                            std::span<double> product);
  /// Task::pull_output
  void pull_output(const Batch& batch, Index sample, int c, double* u_bar, std::span<double> gradient) {
    task_->pull_output(batch, sample, c, u_bar, gradient, *task_tape_);
  }

 private:
  SlabContext& context_;
  DepthMarch& march_;
  std::optional<Embedding> embedding_;
  EmbeddingTape embedded_;
  std::unique_ptr<Task> task_;
  std::unique_ptr<TaskTape> task_tape_;
  Dropout* dropout_ = nullptr;
  RowEdit edit_;
};

}  // namespace fluxformer
