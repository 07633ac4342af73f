#include "model/tasks/task.hpp"

#include "base/error.hpp"
#include "model/readout.hpp"
#include "model/tasks/word_task.hpp"

namespace fluxformer {

/// The task of a model with classes: the loss of the logits of the readout (model/readout.hpp) at the labels.
class ClassTask final : public Task {
 public:
  /// `parameters` and `context` are borrowed.
  ClassTask(const Parameters& parameters, const SlabContext& context, const Loss& loss);
  std::unique_ptr<TaskTape> make_tape() const override;
  Evaluation value(const Batch& batch, const double* u, TaskTape& tape) override;
  Evaluation gradient(const Batch& batch, const double* u, double* u_bar, std::span<double> gradient,
                      TaskTape& tape, KeepFor keep_for) override;
  void product(Curvature part, const Batch& batch, const ParameterVector& direction, const double* u_dot,
               double* u_bar_dot, std::span<double> product, TaskTape& tape) override;
  int outputs() const override { return classes_; }
  void pull_output(const Batch& batch, Index sample, int c, double* u_bar, std::span<double> gradient,
                   const TaskTape& tape) override;

 private:
  /// The loss of the logits on the tape; with_gradient: logits_bar_ := its derivative in them.
  Evaluation finish(const Batch& batch, const TaskTape& tape, bool with_gradient);

  Loss loss_;
  int classes_;
  Index samples_;
  Readout readout_;
  std::vector<double> logits_dot_, logits_bar_;
};

namespace {

struct ClassTape final : TaskTape {
  ReadoutTape read;
};

ClassTape& of(TaskTape& tape) {
  return dynamic_cast<ClassTape&>(tape);
}

}  // namespace

ClassTask::ClassTask(const Parameters& parameters, const SlabContext& context, const Loss& loss)
    : loss_(loss),
      classes_(parameters.spec.classes),
      samples_(context.samples),
      readout_(parameters, context) {
  if (classes_ == 0) throw BadInput("the model has no classes to tell apart");
}

std::unique_ptr<TaskTape> ClassTask::make_tape() const {
  auto tape = std::make_unique<ClassTape>();
  tape->logits.resize(samples_ * classes_);
  return tape;
}

Evaluation ClassTask::finish(const Batch& batch, const TaskTape& tape, bool with_gradient) {
  Evaluation result;
  if (with_gradient) logits_bar_.resize(tape.logits.size());
  // L = sum_b w_b L(z_b, label_b),  z_bar_b = w_b dL/dz_b
  for (Index b = 0; b < std::ssize(batch.label); ++b) {
    const Index at = b * classes_;
    const double weight = batch.weight[b];
    const double loss = loss_of(loss_, tape.logits.data() + at, classes_, batch.label[b], weight,
                                with_gradient ? logits_bar_.data() + at : nullptr);
    if (weight == 0) continue;  // padding of the batch: its loss may even be NaN
    result.loss += weight * loss;
  }
  result.correct = correct_share(batch, tape.logits, classes_);
  return result;
}

Evaluation ClassTask::value(const Batch& batch, const double* u, TaskTape& tape) {
  readout_.logits(u, tape.logits.data(), of(tape).read);
  return finish(batch, tape, false);
}

Evaluation ClassTask::gradient(const Batch& batch, const double* u, double* u_bar, std::span<double> gradient,
                               TaskTape& tape, KeepFor keep_for) {
  auto& read = of(tape).read;
  readout_.logits(u, tape.logits.data(), read);
  const auto result = finish(batch, tape, true);
  // u_bar = (dz/du)^T z_bar,  gradient += (dz/dtheta)^T z_bar
  if (keep_for == KeepFor::products)
    readout_.adjoint(logits_bar_.data(), u_bar, gradient, read);
  else
    readout_.pull(logits_bar_.data(), u_bar, gradient, read);
  return result;
}

void ClassTask::product(Curvature part, const Batch& batch, const ParameterVector& direction,
                        const double* u_dot, double* u_bar_dot, std::span<double> product, TaskTape& tape) {
  auto& read = of(tape).read;
  logits_dot_.resize(tape.logits.size());
  // z_dot = (dz/du) u_dot + (dz/dtheta) theta_dot
  readout_.tangent(direction, u_dot, logits_dot_.data(), read);
  const Index count = classes_;
  // z_bar_dot = w_b (d2L/dz2) z_dot for each sample
  logits_bar_.assign(tape.logits.size(), 0.0);
  for (Index b = 0; b < std::ssize(batch.label); ++b)
    if (batch.weight[b] != 0)
      loss_curvature(loss_, tape.logits.data() + b * count, classes_, batch.weight[b],
                     logits_dot_.data() + b * count, logits_bar_.data() + b * count);
  // H: u_bar_dot = d/de (dz/du)^T z_bar by the product rule;  H_o: (dz/du)^T z_bar_dot alone
  if (part == Curvature::hessian)
    readout_.adjoint_tangent(direction, logits_bar_.data(), u_bar_dot, product, read);
  else
    readout_.pull(logits_bar_.data(), u_bar_dot, product, read);
}

void ClassTask::pull_output(const Batch& batch, Index sample, int c, double* u_bar,
                            std::span<double> gradient, const TaskTape& tape) {
  const Index count = classes_;
  // z_bar = column c of B, with B B^T = w_b d2L/dz2, in the place of this sample and 0 elsewhere
  logits_bar_.assign(tape.logits.size(), 0.0);
  loss_curvature_factor(loss_, tape.logits.data() + sample * count, classes_, batch.weight[sample], c,
                        logits_bar_.data() + sample * count);
  readout_.pull(logits_bar_.data(), u_bar, gradient, dynamic_cast<const ClassTape&>(tape).read);
}

std::unique_ptr<Task> make_task(const Parameters& parameters, const SlabContext& context, const Loss& loss) {
  if (loss.target == LossTarget::masked_words) return std::make_unique<WordTask>(parameters, context, loss);
  return std::make_unique<ClassTask>(parameters, context, loss);
}

}  // namespace fluxformer
