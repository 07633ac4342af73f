#pragma once

// Classification of samples: the loss of the logits of the readout (model/readout.hpp) at the labels.

#include "model/readout.hpp"
#include "model/tasks/task.hpp"

namespace fluxformer {

/// The task of a model with classes.
class ClassTask final : public Task {
 public:
  /// `parameters` and `context` are borrowed.
  ClassTask(const Parameters& parameters, const SlabContext& context, const Loss& loss);
  std::unique_ptr<TaskTape> make_tape() const override;
  Evaluation value(const Batch& batch, const double* u, TaskTape& tape) override;
  Evaluation gradient(const Batch& batch, const double* u, double* u_bar, std::span<double> gradient,
                      TaskTape& tape, Keeps keeps) override;
  void product(Curvature part, const Batch& batch, const Parameters& direction, const double* u_dot,
               double* u_bar_dot, std::span<double> product, TaskTape& tape) override;
  int outputs() const override { return classes_; }
  void pull_output(const Batch& batch, std::size_t sample, int c, double* u_bar, std::span<double> gradient,
                   const TaskTape& tape) override;

 private:
  /// Of the logits on the tape; logits_bar_ := their derivative if asked for.
  Evaluation finish(const Batch& batch, const TaskTape& tape, bool with_gradient);

  Loss loss_;
  int classes_;
  std::size_t samples_;
  Readout readout_;
  std::vector<double> logits_dot_, logits_bar_;
};

}  // namespace fluxformer
